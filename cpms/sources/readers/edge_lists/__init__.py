"""Edge lists in text: the form of a file, and the edges in it."""
