"""How ranks exchange vector entries, sums and device memory."""
