// Exact lumping (ordinary lumpability; Kemeny and Snell, 1960): nodes with equal out-edges become one source. Equal
// are nodes whose hashes of 64 bits are, which one pass over the edges computes; a second pass moves the edges to the
// lumped graph, which cpms/backends/cuda/reduction/lumping.py describes.
#include "base/for_each_edge.cuh"
#include "base/packed_float.cuh"

namespace cpms {

constexpr u32 absent = 0xFFFFFFFF;  // no position, or no second begin

// Adds, for each edge, a random number of its target to its source's hash: a sum of integers, equal in any order, so
// that nodes with equal targets have equal hashes.
CPMS_KERNEL(256) hash_targets(const u32* starts, const u32* sources, u32 rows, u32 edges, u64* hashes) {
    for_each_edge(starts, rows, edges, [&](u32 edge, u32 row) {
        atomicAdd(hashes + sources[edge], random_bits(0, row));
    });
}

// Moves each edge whose source has a position to its row's begin, and to a second begin if there is one;
// `placed_before` counts such edges before each edge.
CPMS_KERNEL(256) move_entries(const u32* starts, const u32* sources, u32 rows, u32 edges, const u32* position,
                              const u32* placed_before, const u32* begins, const u32* begins_again, u32* moved) {
    for_each_edge(starts, rows, edges, [&](u32 edge, u32 row) {
        const u32 source = position[sources[edge]];
        if (source == absent) return;
        const u32 within = placed_before[edge] - placed_before[starts[row]];
        moved[begins[row] + within] = source;
        if (begins_again[row] != absent) moved[begins_again[row] + within] = source;
    });
}

}  // namespace cpms
