// SpMV in CSR, one row a work-item (scalar CSR), with the sum in a register. It needs no atomic operation, but rows of
// different lengths leave work-items idle.

kernel void rows_contributed(uint nodes, global const index *starts, global const uint *sources,
                             global const real *contribution, global real *out) {
    const size_t i = get_global_id(0);
    if (i < nodes) {
        const index end = starts[i + 1];
        real total = 0;
        for (index k = starts[i]; k < end; ++k) {
            total += contribution[sources[k]];
        }
        out[i] += total;
    }
}

kernel void rows_valued(uint nodes, sum damping, global const index *starts, global const uint *sources,
                        global const real *values, global const real *x, global real *out) {
    const size_t i = get_global_id(0);
    if (i < nodes) {
        const index end = starts[i + 1];
        real total = 0;
        for (index k = starts[i]; k < end; ++k) {
            total += values[k] * x[sources[k]];
        }
        out[i] += TO_REAL(damping * total);
    }
}
