// CSR by target from an edge list in device memory, by sorting: an edge becomes a 64-bit key, its target above its
// source; after a radix sort, binary search finds where each row begins. Equal keys are equal edges, so the result does
// not depend on the order of a run. Each kernel is one pass over edges or nodes. Between the first and the second the
// host sorts the keys (CUB's radix sort).
#include "base/for_each_edge.cuh"
#include "base/warp.cuh"

namespace cpms {

// `largest`, 0 before, becomes the largest id of the edges, counted from first_id modulo 2^64: ids below first_id, and
// negative ones, become large. Keys are right only where all ids are below 2^32; the host checks `largest` for that.
template <class Id>
CPMS_DEVICE void pack_edges(const Id* sources, const Id* targets, u64 edges, u64 first_id, u64* keys,
                            u64* largest) {
    u64 most = 0;
    for_each_index(edges, [&](u64 k) {
        const u64 source = (u64)sources[k] - first_id, target = (u64)targets[k] - first_id;
        const u64 larger = source > target ? source : target;
        most = larger > most ? larger : most;
        keys[k] = target << 32 | (u32)source;
    });
    most = warp_reduce(most, [](u64 a, u64 b) { return a > b ? a : b; });
    if (threadIdx.x % 32 == 0) atomicMax(largest, most);
}

// begins[row] is the number of edges whose target is below `row`; of rows + 1 begins the last is the number of edges.
CPMS_KERNEL(256) find_rows(const u64* keys, u32 edges, u32 rows, u32* begins) {
    for_each_index((u64)rows + 1, [&](u64 row) {
        begins[row] = partition_point(0, edges, [&](u32 edge) { return keys[edge] >> 32 < row; });
    });
}

// Narrows numbers below 2^32.
CPMS_KERNEL(256) narrow(const u64* numbers, u64 count, u32* out) {
    for_each_index(count, [&](u64 k) { out[k] = (u32)numbers[k]; });
}

// Takes the sources from the sorted keys, and counts the edges of each in `degree`, which is 0 before.
CPMS_KERNEL(256) unpack_sources(const u64* keys, u32 edges, u32* sources, u32* degree) {
    for_each_index(edges, [&](u64 k) {
        const u32 source = (u32)keys[k];
        sources[k] = source;
        atomicAdd(degree + source, 1u);
    });
}

}  // namespace cpms

#define CPMS_PACK_EDGES(NAME, ID)                                                                                      \
    CPMS_KERNEL(256) NAME(const ID* sources, const ID* targets, unsigned long long edges, unsigned long long first_id, \
                          unsigned long long* keys, unsigned long long* largest) {                                     \
        cpms::pack_edges(sources, targets, edges, first_id, keys, largest);                                            \
    }
