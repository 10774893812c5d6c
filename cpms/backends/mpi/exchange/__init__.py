"""Communication between ranks: vectors, totals, device memory, and the comparison of options."""
