"""Quantities that are derived from recorded ones."""
