"""How operators are executed: on processors, GPUs, OpenCL devices and MPI ranks."""
