"""PageRank by message passing: each rank holds a range of the matrix's rows.

``mpiexec -n 4 python -m cpms.mpi GRAPH`` reads, solves and certifies a graph of which each rank holds some edges;
engine ``mpi`` does the same to a graph that every rank has loaded. Before the first exchange, ranks compare their
options and their code, and refuse to differ (`cpms.backends.mpi.exchange.agreement`).
"""
