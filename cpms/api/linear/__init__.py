"""Linear systems: `cpms.solve`, `cpms.Solver` and `cpms.dominant_eigenpair`."""
