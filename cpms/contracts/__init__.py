"""Abstract classes between solvers and backends, and the records of a solve: status, steps, stopping criteria."""
