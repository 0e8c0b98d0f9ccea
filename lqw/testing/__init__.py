"""Helpers for tests and the self-test: runs made of numbers, without an engine."""
