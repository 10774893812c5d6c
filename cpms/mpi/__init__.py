"""Ranking by message passing: each rank holds a stretch of the matrix's rows, and every vector whole.

``mpiexec -n 4 python -m cpms.mpi GRAPH`` reads, solves and certifies a graph whose edges no rank ever
holds all; engine ``mpi`` does the same to a graph that every rank has loaded already. Before either
begins, ranks compare their options and their code, and refuse to differ (`cpms.backends.mpi.exchange.agreement`).
"""
