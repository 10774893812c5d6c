"""The abstract classes between solvers and backends, and what a solve reports."""
