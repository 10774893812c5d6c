"""Slow oracles of the fast backends, for tests."""
