"""Arrays in device memory: encoding, conversion in place, norms, top-k."""
