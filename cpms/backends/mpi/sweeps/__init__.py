"""Sweeps of a rank over its rows."""
