"""Experiments: configurations in, recorded rows out; tables and figures from rows alone."""
