"""Composed sweeps: sparse products and vector operations, a launch each."""
