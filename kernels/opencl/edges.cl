// SpMV in COO, one edge a work-item. ADD(place, value) is an atomic addition, unless the program is built to measure
// the cost of atomicity. An edge costs two indices, one gather and one atomic addition.

kernel void edges_divided(index edges, sum damping, global const uint *sources, global const uint *targets,
                          global const uint *out_degree, global const real *x, global real *out) {
    const size_t k = get_global_id(0);
    if (k < edges) {
        const uint source = sources[k];
        ADD(&out[targets[k]], TO_REAL(damping * x[source] / out_degree[source]));
    }
}

kernel void edges_contributed(index edges, global const uint *sources, global const uint *targets,
                              global const real *contribution, global real *out) {
    const size_t k = get_global_id(0);
    if (k < edges) {
        ADD(&out[targets[k]], contribution[sources[k]]);
    }
}
