// Trimming of nodes that are neither on nor between cycles, level by level (topological levels from both ends, as in
// Kahn, 1962; trimming before strongly connected components, McLendon et al., 2005).
//
// These nodes need substitution once and no iteration. A level costs one look at all remaining nodes and a grid
// barrier, so trimming ends when a further level would cost more than it saves.
#include "persistent/grid_sync.cuh"

namespace cpms {

// A node's level: 0, 1, ... of upstream nodes, to which no cycle leads; last_level - 0, last_level - 1, ... of
// downstream nodes, which lead to no cycle; no_level of the core.
constexpr u32 no_level = 0x7FFFFFFFu, last_level = 0xFFFFFFFFu;

struct TrimGraph {
    const u32 *indptr, *sources;  // first entry of each row, and the end; source of each entry
    u32* level;                   // of each node
    u32 nodes, max_entries;       // longer rows stay in the core
};

// The cost model of cpms/backends/cuda/reduction/trimming.py, in microseconds. A level saves its rows and entries
// `swept` each in each of `sweeps` sweeps, and costs `level` and `solved` for each of them. Up to `narrow` rows, which
// one block solves alone, it costs narrow_level and solved_alone. `sweep` is the fixed cost of a sweep.
struct TrimCost {
    double sweeps, sweep, level, narrow_level, swept, solved, solved_alone;
    u32 narrow;

    CPMS_DEVICE double saved(double rows, double entries) const {
        const bool alone = rows <= narrow;
        return (rows + entries) * (sweeps * swept - (alone ? solved_alone : solved)) - (alone ? narrow_level : level);
    }
};

// Calls work(row, begin, end) for the nodes of a level.
template <class Work>
CPMS_DEVICE void for_each_in_level(const TrimGraph& at, u32 level, Work work) {
    for_each_index(at.nodes, [&](u64 row) {
        if (at.level[row] == level) work((u32)row, at.indptr[row], at.indptr[row + 1]);
    });
}

// Assigns level_of(0), level_of(1), ... to the nodes for which joins(level, row, begin, end), after begins(number) of
// each. It ends with an empty level, or once the gain lies below its best by more than the fixed cost of all sweeps,
// which a solve saves only where no core is left. found: number of levels, then nodes and entries of each.
template <class LevelOf, class Begin, class Joins>
CPMS_DEVICE void assign_levels(const TrimGraph& at, const TrimCost& cost, u32 max_levels, double* found,
                               const Grid& grid, LevelOf level_of, Begin begins, Joins joins) {
    const bool writes = blockIdx.x == 0 && threadIdx.x == 0;
    double gain = 0.0, best = 0.0;
    u32 count = 0;
    while (count < max_levels && gain >= best - cost.sweeps * cost.sweep) {
        begins(count);
        const u32 now = level_of(count);
        GridReduce<2, 0> taken{{0.0, 0.0}};
        for_each_in_level(at, no_level, [&](u32 row, u32 begin, u32 end) {
            if (end - begin > at.max_entries || !joins(now, row, begin, end)) return;
            at.level[row] = now;
            taken.value[0] += 1.0;
            taken.value[1] += end - begin;
        });
        taken.all_reduce(grid);
        if (taken.value[0] == 0.0) break;
        for (int q = 0; writes && q < 2; ++q) found[1 + 2 * count + q] = taken.value[q];
        gain += cost.saved(taken.value[0], taken.value[1]);
        best = gain > best ? gain : best;
        ++count;
    }
    if (writes) found[0] = count;
}

// A node joins if all its in-edges come from lower levels. Levels that others get at the same time are not lower.
// `scanned` remembers how many entries of a row were checked, so that long rows are not scanned again for every
// level.
CPMS_KERNEL(512, 2) trim_upstream(const __grid_constant__ TrimGraph at, u32* scanned,
                                  const __grid_constant__ TrimCost cost, u32 max_levels, double* found,
                                  double* partials, u32* arrived) {
    const Grid grid(partials, arrived);
    assign_levels(
        at, cost, max_levels, found, grid, [](u32 number) { return number; }, [](u32) {},
        [&](u32 now, u32 row, u32, u32 end) {
            const u32 first = scanned[row];
            u32 k = first;
            while (k < end && at.level[at.sources[k]] < now) ++k;
            if (k > first) scanned[row] = k;
            return k == end;
        });
    grid.end();
}

// A node joins if none of its out-edges leads to a remaining node.
CPMS_KERNEL(512, 2) trim_downstream(const __grid_constant__ TrimGraph at, u32* remaining,
                                    const __grid_constant__ TrimCost cost, u32 max_levels, double* found,
                                    double* partials, u32* arrived) {
    const Grid grid(partials, arrived);
    const auto level_of = [](u32 number) { return last_level - number; };
    assign_levels(
        at, cost, max_levels, found, grid, level_of,
        [&](u32 number) {
            if (number == 0) return;
            for_each_in_level(at, level_of(number - 1), [&](u32, u32 begin, u32 end) {
                for (u32 k = begin; k < end; ++k) atomicAdd(remaining + at.sources[k], 0xFFFFFFFFu);
            });
            grid.sync([] {});
        },
        [&](u32, u32 row, u32, u32) { return remaining[row] == 0; });
    grid.end();
}

}  // namespace cpms
