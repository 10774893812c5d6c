"""CUDA kernels from Python: sources, variants, compilation, launchers, device arrays and layouts."""
