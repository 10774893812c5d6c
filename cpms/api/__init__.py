"""Public functions: PageRank, products with a matrix of one's own, linear systems and eigenpairs, and their results."""
