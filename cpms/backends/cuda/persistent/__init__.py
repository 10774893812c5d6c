"""Persistent kernels: one launch, many sweeps."""
