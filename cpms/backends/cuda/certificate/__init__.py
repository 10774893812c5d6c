"""The certificate of answers in device memory, by kernels that no solver shares."""
