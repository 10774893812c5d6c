"""Products with any matrix on a device, and operations on its vectors."""
