"""The graph in CSR by target, and how it is built."""
