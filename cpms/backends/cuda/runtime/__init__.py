"""Compilation, launches, memory and CUDA graphs."""
