"""How ranks read or generate their shares of a graph."""
