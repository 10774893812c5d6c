// x = factor * x, one value a work-item.
kernel void scale(uint nodes, sum factor, global real *x) {
    const size_t i = get_global_id(0);
    if (i < nodes) {
        x[i] = TO_REAL(factor * x[i]);
    }
}
