"""Slow, obvious twins of the fast backends, for tests and for reading."""
