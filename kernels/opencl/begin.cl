// The first kernel of a sweep: y = damping * (dangling mass) * w + (1 - damping) * v, to which edges.cl or rows.cl then
// adds. It writes y once. In layouts `coo_exchange` and `pattern` it is `exchange`, which also writes contributions.

// v and w hold one value a node, or a single value, whose stride is 0.
sum rest(size_t i, sum damping, global const sum *found, global const sum *v, uint v_step, global const sum *w,
         uint w_step) {
    return damping * found[DANGLING] * w[i * w_step] + (1 - damping) * v[i * v_step];
}

kernel void begin(uint nodes, sum damping, global const sum *found, global const sum *v, uint v_step,
                  global const sum *w, uint w_step, global real *out) {
    const size_t i = get_global_id(0);
    if (i < nodes) {
        out[i] = TO_REAL(rest(i, damping, found, v, v_step, w, w_step));
    }
}

// The same, and each node's contribution damping * x / out-degree, which saves the division an edge.
kernel void exchange(uint nodes, sum damping, global const sum *found, global const sum *v, uint v_step,
                     global const sum *w, uint w_step, global const real *x, global const uint *out_degree,
                     global real *contribution, global real *out) {
    const size_t i = get_global_id(0);
    if (i < nodes) {
        contribution[i] = out_degree[i] ? TO_REAL(damping * x[i] / out_degree[i]) : 0;
        out[i] = TO_REAL(rest(i, damping, found, v, v_step, w, w_step));
    }
}
