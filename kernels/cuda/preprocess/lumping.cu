// Exact lumping (ordinary lumpability; Kemeny and Snell, 1960): nodes with equal out-edges become one source. Equal
// are nodes whose hashes of 64 bits are, which one pass over the edges computes; a second pass moves the edges to the
// lumped graph, which cpms/backends/cuda/reduction/lumping.py describes.
#include "base/for_each_edge.cuh"
#include "base/packed_float.cuh"

namespace cpms {

constexpr u32 absent = 0xFFFFFFFF;  // no position, or no second begin

// Adds, for each edge, a random number of its target to its source's hash: a sum of integers, equal in any order, so
// that nodes with equal targets have equal hashes.
CPMS_DEVICE void hash_targets(const u32* starts, const u32* sources, u32 rows, u32 edges, unsigned long long* hashes) {
    for_each_edge(starts, rows, edges, [&](u32 edge, u32 row) {
        atomicAdd(hashes + sources[edge], (unsigned long long)random_bits(0, row));
    });
}

// Moves each edge whose source has a position to its row's begin, and to a second begin if there is one;
// `placed_before` counts such edges before each edge.
CPMS_DEVICE void move_entries(const u32* starts, const u32* sources, u32 rows, u32 edges, const u32* position,
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

#define CPMS_HASH_TARGETS(NAME)                                                                           \
    CPMS_KERNEL(256) NAME(const unsigned* starts, const unsigned* sources, unsigned rows, unsigned edges, \
                          unsigned long long* hashes) {                                                   \
        cpms::hash_targets(starts, sources, rows, edges, hashes);                                         \
    }
#define CPMS_MOVE_ENTRIES(NAME)                                                                                 \
    CPMS_KERNEL(256) NAME(const unsigned* starts, const unsigned* sources, unsigned rows, unsigned edges,       \
                          const unsigned* position, const unsigned* placed_before, const unsigned* begins,      \
                          const unsigned* begins_again, unsigned* moved) {                                      \
        cpms::move_entries(starts, sources, rows, edges, position, placed_before, begins, begins_again, moved); \
    }
