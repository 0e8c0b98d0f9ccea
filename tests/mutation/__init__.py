"""Mutation testing of the deciding code."""
