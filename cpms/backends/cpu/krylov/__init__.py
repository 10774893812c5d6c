"""Krylov iterations in main memory, compiled as one call on all threads."""
