"""Benchmarks: speed of lqw itself, as ratios against a peer in one run. Nothing here is a test."""
