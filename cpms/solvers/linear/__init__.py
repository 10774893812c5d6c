"""Methods for linear systems and eigenpairs, on `cpms.contracts.linear_operator.LinearOperator` alone."""
