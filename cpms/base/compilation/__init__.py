"""How loops are compiled: passes of Numba, and instructions that loops share."""
