"""Krylov methods on a device: passes over vectors that are fused, and their launches as CUDA graphs."""
