// One source for all nodes whose edges lead to the same nodes; see cpms/cuda/merge.py.
#include "base/for_each_edge.cuh"
#include "base/packed_float.cuh"

namespace cpms {

constexpr u32 nowhere = 0xFFFFFFFF;

// Adds to each node's mark what stands for the nodes that its edges lead to, each as often as edges do: a sum of
// integers, the same in any order.
CPMS_DEVICE void mark_targets(const u32* starts, const u32* sources, u32 rows, u32 edges, unsigned long long* marks) {
    each_edge(starts, rows, edges,
              [&](u32 edge, u32 row) { atomicAdd(marks + sources[edge], (unsigned long long)noise(0, row)); });
}

// Moves the edges whose source has a place to where their row begins, and to where it begins again if it does;
// `before` counts such edges before each.
CPMS_DEVICE void move_entries(const u32* starts, const u32* sources, u32 rows, u32 edges, const u32* place,
                              const u32* before, const u32* begins, const u32* again, u32* moved) {
    each_edge(starts, rows, edges, [&](u32 edge, u32 row) {
        const u32 source = place[sources[edge]];
        if (source == nowhere) return;
        const u32 within = before[edge] - before[starts[row]];
        moved[begins[row] + within] = source;
        if (again[row] != nowhere) moved[again[row] + within] = source;
    });
}

}  // namespace cpms

#define CPMS_MARK_TARGETS(NAME)                                                                       \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* starts, const unsigned* sources, unsigned rows, unsigned edges,          \
             unsigned long long* marks) {                                                             \
        cpms::mark_targets(starts, sources, rows, edges, marks);                                      \
    }
#define CPMS_MOVE_ENTRIES(NAME)                                                                       \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* starts, const unsigned* sources, unsigned rows, unsigned edges,          \
             const unsigned* place, const unsigned* before, const unsigned* begins,                   \
             const unsigned* again, unsigned* moved) {                                                \
        cpms::move_entries(starts, sources, rows, edges, place, before, begins, again, moved);        \
    }
