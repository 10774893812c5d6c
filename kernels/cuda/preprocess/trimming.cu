// Which nodes no cycle leads to, and which lead to none: level by level, a look at all nodes each, until levels cannot pay.
#include "persistent/grid_sync.cuh"

namespace cpms {

// A node's level: 0, 1, … of those that no cycle leads to; last_level - 0, last_level - 1, … of those that lead to
// none, from the far end; no_level of all others.
constexpr u32 no_level = 0x7FFFFFFFu, last_level = 0xFFFFFFFFu;

struct Looked {
    const u32 *indptr, *sources;
    u32* level;
    u32 nodes, most;  // rows of more entries than `most` stay what they are
};

// As in cpms/cuda/peel.py.
struct Cost {
    double sweeps, sweep, level, narrow_level, swept, passed, passed_alone;
    u32 narrow;

    CPMS_DEVICE double saved(double rows, double entries) const {
        const bool alone = rows <= narrow;
        return (rows + entries) * (sweeps * swept - (alone ? passed_alone : passed)) - (alone ? narrow_level : level);
    }
};

// Calls work(row, begin, end) for nodes that have a level.
template <class Work>
CPMS_DEVICE void each_of_level(const Looked& at, u32 level, Work work) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u64 row = blockIdx.x * blockDim.x + threadIdx.x; row < at.nodes; row += threads) {
        if (at.level[row] == level) work((u32)row, at.indptr[row], at.indptr[row + 1]);
    }
}

// Gives nodes the levels named(0), named(1), … where joins(level, row, begin, end) says so, after begins(number) of each.
// found: how many levels have nodes, and the nodes and entries of each.
template <class Named, class Begin, class Joins>
CPMS_DEVICE void look(const Looked& at, const Cost& cost, u32 most_levels, double* found, const Grid& grid, Named named,
                      Begin begins, Joins joins) {
    const bool writes = blockIdx.x == 0 && threadIdx.x == 0;
    double gain = 0.0, best = 0.0;
    u32 count = 0;
    while (count < most_levels && gain >= best - cost.sweeps * cost.sweep) {
        begins(count);
        const u32 now = named(count);
        Totals<2, 0> taken{{0.0, 0.0}};
        each_of_level(at, no_level, [&](u32 row, u32 begin, u32 end) {
            if (end - begin > at.most || !joins(now, row, begin, end)) return;
            at.level[row] = now;
            taken.value[0] += 1.0;
            taken.value[1] += end - begin;
        });
        taken.over_grid(grid);
        if (taken.value[0] == 0.0) break;
        for (int q = 0; writes && q < 2; ++q) found[1 + 2 * count + q] = taken.value[q];
        gain += cost.saved(taken.value[0], taken.value[1]);
        best = gain > best ? gain : best;
        ++count;
    }
    if (writes) found[0] = count;
}

// All edges of a level's nodes come from lower ones. Levels that others get meanwhile are not lower. Edges up to `seen` of
// each row do: a long row is not read again for every level.
CPMS_DEVICE void peel_before(const Looked& at, u32* seen, const Cost& cost, u32 most_levels, double* found,
                             const Grid& grid) {
    look(
        at, cost, most_levels, found, grid, [](u32 number) { return number; }, [](u32) {},
        [&](u32 now, u32 row, u32, u32 end) {
            const u32 first = seen[row];
            u32 k = first;
            while (k < end && at.level[at.sources[k]] < now) ++k;
            if (k > first) seen[row] = k;
            return k == end;
        });
}

// No edge of a level's nodes goes to what is left.
CPMS_DEVICE void peel_behind(const Looked& at, u32* left, const Cost& cost, u32 most_levels, double* found,
                             const Grid& grid) {
    const auto named = [](u32 number) { return last_level - number; };
    look(
        at, cost, most_levels, found, grid, named,
        [&](u32 number) {
            if (number == 0) return;
            each_of_level(at, named(number - 1), [&](u32, u32 begin, u32 end) {
                for (u32 k = begin; k < end; ++k) atomicAdd(left + at.sources[k], 0xFFFFFFFFu);
            });
            grid.wait([] {});
        },
        [&](u32, u32 row, u32, u32) { return left[row] == 0; });
}

}  // namespace cpms

#define CPMS_LOOKED_PARAMETERS                                                                        \
    const unsigned *indptr, const unsigned *sources, unsigned *level, unsigned nodes, unsigned most
#define CPMS_LOOKED cpms::Looked{indptr, sources, level, nodes, most}
#define CPMS_PEELING_PARAMETERS                                                                        \
    double sweeps, double sweep, double wide_level, double narrow_level, double swept, double passed, \
        double passed_alone, unsigned narrow, unsigned most_levels, double *found, double *partials,  \
        unsigned *came
#define CPMS_PEELING_COST                                                                             \
    cpms::Cost { sweeps, sweep, wide_level, narrow_level, swept, passed, passed_alone, narrow }
#define CPMS_PEEL_BEFORE(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_LOOKED_PARAMETERS, unsigned* seen, CPMS_PEELING_PARAMETERS) {                       \
        const cpms::Grid grid(partials, came);                                                        \
        cpms::peel_before(CPMS_LOOKED, seen, CPMS_PEELING_COST, most_levels, found, grid);            \
        grid.end();                                                                                   \
    }
#define CPMS_PEEL_BEHIND(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_LOOKED_PARAMETERS, unsigned* left, CPMS_PEELING_PARAMETERS) {                        \
        const cpms::Grid grid(partials, came);                                                        \
        cpms::peel_behind(CPMS_LOOKED, left, CPMS_PEELING_COST, most_levels, found, grid);            \
        grid.end();                                                                                   \
    }
