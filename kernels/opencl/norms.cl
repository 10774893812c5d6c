// Norms and totals of a sweep by a two-stage tree reduction: each work-group reduces PART nodes, then one work-group
// reduces the parts. Both have WIDTH work-items, so that results depend neither on the work-groups of other kernels
// nor on the number of cores. It costs one read of both vectors.

// Tree reduction of WIDTH values of each number in local memory; the first work-item stores the results.
void reduce(const sum *mine, local sum *shared, global sum *out) {
    const uint item = get_local_id(0);
    for (uint number = 0; number < NUMBERS; ++number) {
        shared[number * WIDTH + item] = mine[number];
    }
    for (uint half_width = WIDTH / 2; half_width > 0; half_width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < half_width) {
            for (uint number = 0; number < NUMBERS; ++number) {
                local sum *here = shared + number * WIDTH + item;
                const sum other = here[half_width];
                *here = number == LARGEST ? fmax(*here, other) : *here + other;
            }
        }
    }
    if (item == 0) {
        for (uint number = 0; number < NUMBERS; ++number) {
            out[number] = shared[number * WIDTH];
        }
    }
}

kernel void norms_of_parts(uint nodes, global const real *x, global const real *out,
                           global const uint *out_degree, global sum *parts) {
    local sum shared[NUMBERS * WIDTH];
    sum mine[NUMBERS] = {0, 0, 0, 0, 0};
    const size_t first = get_group_id(0) * (size_t)PART;
    const size_t end = min(first + PART, (size_t)nodes);
    for (size_t i = first + get_local_id(0); i < end; i += WIDTH) {
        const sum now = out[i];
        const sum change = fabs(now - (sum)x[i]);
        mine[L1] += change;
        mine[SQUARES] += change * change;
        mine[LARGEST] = fmax(mine[LARGEST], change);
        mine[MASS] += now;
        mine[DANGLING] += out_degree[i] ? 0 : now;
    }
    reduce(mine, shared, parts + get_group_id(0) * NUMBERS);
}

kernel void norms_of_graph(uint count, global const sum *parts, global sum *found) {
    local sum shared[NUMBERS * WIDTH];
    sum mine[NUMBERS] = {0, 0, 0, 0, 0};
    for (size_t k = get_local_id(0); k < count; k += WIDTH) {
        for (uint number = 0; number < NUMBERS; ++number) {
            const sum part = parts[k * NUMBERS + number];
            mine[number] = number == LARGEST ? fmax(mine[number], part) : mine[number] + part;
        }
    }
    reduce(mine, shared, found);
}
