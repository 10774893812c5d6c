// One pass over nodes outside the core, level by level: with v the teleport, y = damping P y + v, of which x is a
// multiple. Levels before the core come first, then what they give to it; behind it, those after it, and x.
#include "base/loads.cuh"
#include "pagerank/sweep_log.cuh"

namespace cpms {

// Rows are places: the core's first, then those of each level, one level after the other. `indptr` and `begins`
// count from the first row outside the core.
struct Levels {
    const u32 *indptr, *sources;
    const u32* begins;   // each level's first row, and behind the last
    const u32* degree;   // out-degrees
    const double* teleport;
    u32 teleport_step, core, count;
    double damping;

    CPMS_DEVICE double given(u32 row) const { return load_double(teleport + row * teleport_step); }
};

constexpr u32 narrow = 2 * resident_threads;  // rows of a level that one block does alone, sooner than many can wait
constexpr u32 by_lane = 32;                   // entries of a row that a warp does together
constexpr u32 of_many = 0xFFFFFFFF;           // no node: a place of the core that stands for many, which lie behind it

// A lane's row but for the values it asks for: read ahead of them.
struct Early {
    static constexpr u32 together = 8;
    u32 begin = 0, end = 0, out = 0, source[together];

    CPMS_DEVICE void bounds(const u32* indptr, const u32* degree, u32 row, u32 behind) {
        begin = end = 0;
        if (row < behind) {
            begin = load_word(indptr + row, ReadOnly{});
            end = load_word(indptr + row + 1, ReadOnly{});
            out = load_word(degree + row, ReadOnly{});
        }
    }
    CPMS_DEVICE void entries(const u32* sources) {
#pragma unroll
        for (u32 j = 0; j < together; ++j) source[j] = begin + j < end ? load_word(sources + begin + j, ReadOnly{}) : 0;
    }
};

CPMS_DEVICE double added(const double (&value)[8]) {
    return ((value[0] + value[1]) + (value[2] + value[3])) + ((value[4] + value[5]) + (value[6] + value[7]));
}

// The sum of a lane's row; long ones by the warp, one after the other. All lanes take part.
CPMS_DEVICE double row_sum(const Early& row, const u32* sources, const double* shares) {
    constexpr u32 together = Early::together;
    const u32 lane = threadIdx.x % 32;
    const bool is_long = row.end - row.begin > by_lane;
    double sum = 0.0;
    if (!is_long && row.begin < row.end) {
        double value[together];
#pragma unroll
        for (u32 j = 0; j < together; ++j) value[j] = row.begin + j < row.end ? shares[row.source[j]] : 0.0;
        sum = added(value);
        for (u32 k = row.begin + together; k < row.end; k += together) {
#pragma unroll
            for (u32 j = 0; j < together; ++j) value[j] = k + j < row.end ? shares[sources[k + j]] : 0.0;
            sum += added(value);
        }
    }
    for (u32 waiting = __ballot_sync(all_lanes, is_long); waiting; waiting &= waiting - 1) {
        const int whose = __ffs(waiting) - 1;
        const u32 begin = __shfl_sync(all_lanes, row.begin, whose), end = __shfl_sync(all_lanes, row.end, whose);
        double part = 0.0;
        u32 source[together];
        const auto read_ahead = [&](u32 k) {
#pragma unroll
            for (u32 j = 0; j < together; ++j) source[j] = k + 32 * j < end ? sources[k + 32 * j] : 0;
        };
        read_ahead(begin + lane);
        for (u32 k = begin + lane; k < end; k += 32 * together) {
            double value[together];
#pragma unroll
            for (u32 j = 0; j < together; ++j) value[j] = k + 32 * j < end ? shares[source[j]] : 0.0;
            read_ahead(k + 32 * together);
            part += added(value);
        }
        part = over_warp(part, Add{});
        if ((int)lane == whose) sum = part;
    }
    return sum;
}

// Which rows of [first, behind) a thread begins with, and how far it goes on: alone, one block has them all; else
// warps take 32 rows in turn, the first of each block first.
struct Turns {
    u32 row, step, behind;

    CPMS_DEVICE Turns(u32 first, u32 past, bool alone) : behind(past) {
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        step = alone ? blockDim.x : gridDim.x * blockDim.x;
        row = alone ? first + threadIdx.x : first + 32 * (warp * gridDim.x + blockIdx.x) + lane;
        if (alone && blockIdx.x > 0) row = past + lane;
    }
    // All lanes of a warp or none.
    CPMS_DEVICE bool any() const { return row - threadIdx.x % 32 < behind; }
};

// Calls end(row, sum, out-degree) for the rows of [first, behind), of which `early` holds what each thread begins with.
template <class End>
CPMS_DEVICE void each_row(const u32* indptr, const u32* sources, const u32* degree, const double* shares, Turns turns,
                          const Early& early, End end) {
    if (!turns.any()) return;
    double sum = row_sum(early, sources, shares);
    if (turns.row < turns.behind) end(turns.row, sum, early.out);
    for (turns.row += turns.step; turns.any(); turns.row += turns.step) {
        Early row;
        row.bounds(indptr, degree, turns.row, turns.behind);
        row.entries(sources);
        sum = row_sum(row, sources, shares);
        if (turns.row < turns.behind) end(turns.row, sum, row.out);
    }
}

// Levels [from, to), a barrier between each and the next; returns this thread's part of the sum of y.
CPMS_DEVICE double passed(const Levels& levels, u32 from, u32 to, double* shares, const Grid& grid) {
    if (from == to) return 0.0;
    const u32* const degree = levels.degree + levels.core;
    const auto bound = [&](u32 level) { return load_word(levels.begins + (level < to ? level : to), ReadOnly{}); };
    const auto is_narrow = [](u32 first, u32 past) { return past - first <= narrow; };
    double total = 0.0;
    // Where the next levels end; the last of these is on its way still, as are the bounds of the next level's rows.
    u32 first = bound(from), past = bound(from + 1), past_next = bound(from + 2), past_third = bound(from + 3);
    bool alone = is_narrow(first, past);
    Turns turns(first, past, alone), turns_next(past, past_next, is_narrow(past, past_next));
    Early early, early_next, early_third;
    early.bounds(levels.indptr, degree, turns.row, turns.behind);
    early_next.bounds(levels.indptr, degree, turns_next.row, turns_next.behind);
    early.entries(levels.sources);
    for (u32 level = from; level < to; ++level) {
        const bool alone_next = is_narrow(past, past_next), goes_on = alone && alone_next;
        const Turns turns_third(past_next, past_third, is_narrow(past_next, past_third));
        u32 past_fourth;
        // A fence waits for all that a thread has asked for: so others are asked for behind it.
        const auto read_ahead = [&] {
            early_next.entries(levels.sources);
            early_third.bounds(levels.indptr, degree, turns_third.row, turns_third.behind);
            past_fourth = bound(level + 4);
        };
        if (goes_on) read_ahead();
        each_row(levels.indptr, levels.sources, degree, shares, turns, early, [&](u32 row, double sum, u32 out) {
            const u32 place = levels.core + row;
            const double y = fma(levels.damping, sum, levels.given(place));
            shares[place] = out ? y * reciprocal(out) : y;
            total += y;
        });
        if (level + 1 == to) break;
        if (goes_on) {
            __syncthreads();
        } else {
            grid.wait(read_ahead);
        }
        turns = turns_next;
        turns_next = turns_third;
        early = early_next;
        early_next = early_third;
        alone = alone_next;
        past = past_next;
        past_next = past_third;
        past_third = past_fourth;
    }
    return total;
}

// What levels before the core give to it: to b, of sum 1. report: the sum of y of these levels, and what b was
// divided by.
CPMS_DEVICE void pass_before(const Levels& levels, const u32* indptr, const u32* sources, double* shares, double* b,
                             const Grid& grid, double* report) {
    const double before = passed(levels, 0, levels.count, shares, grid);
    grid.wait([] {});
    double given = 0.0;
    const Turns turns(0, levels.core, false);
    Early early;
    early.bounds(indptr, levels.degree, turns.row, turns.behind);
    early.entries(sources);
    each_row(indptr, sources, levels.degree, shares, turns, early, [&](u32 row, double sum, u32) {
        b[row] = fma(levels.damping, sum, levels.given(row));
        given += b[row];
    });
    Totals<2, 0> totals{{before, given}};
    totals.over_grid(grid);
    const double scale = totals.value[1] > 0.0 ? 1.0 / totals.value[1] : 0.0;
    for (u32 row = turns.row; row < levels.core; row += turns.step) b[row] *= scale;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int q = 0; q < 2; ++q) report[q] = totals.value[q];
    }
}

// After levels [0, from), and the core's own solution for teleport b, in shares: all levels behind it, and x of the
// nodes in these places. What leaves the core by edges that `kept` does not count is lost to it.
CPMS_DEVICE void pass_behind(const Levels& levels, u32 from, const double* core_shares, const u32* kept,
                             const double* reported, const u32* order, u32 places, double* shares, double* x,
                             const Grid& grid) {
    const u32 threads = gridDim.x * blockDim.x, mine = blockIdx.x * blockDim.x + threadIdx.x;
    Totals<3, 0> of_core{{0.0, 0.0, 0.0}};  // its mass, what of it leaves, and that of places of one node
    for (u32 i = mine; i < levels.core; i += threads) {
        const u32 out = load_word(levels.degree + i, ReadOnly{});
        const double value = core_shares[i] * (out ? out : 1u);
        of_core.value[0] += value;
        of_core.value[1] += core_shares[i] * (out ? out - load_word(kept + i, ReadOnly{}) : 1u);
        of_core.value[2] += load_word(order + i, ReadOnly{}) == of_many ? 0.0 : value;
    }
    of_core.over_grid(grid);
    const double returned = levels.damping * of_core.value[1] + (1.0 - levels.damping) * of_core.value[0];
    const double factor = returned > 0.0 ? reported[1] / returned : 0.0;
    for (u32 i = mine; i < levels.core; i += threads) shares[i] = core_shares[i] * factor;
    grid.wait([] {});
    Totals<1, 0> behind{{passed(levels, from, levels.count, shares, grid)}};
    behind.over_grid(grid);
    const double to_mass_one = 1.0 / (reported[0] + factor * of_core.value[2] + behind.value[0]);
    for (u32 i = mine; i < places; i += threads) {
        const u32 node = load_word(order + i, ReadOnly{}), out = load_word(levels.degree + i, ReadOnly{});
        if (node != of_many) x[node] = shares[i] * (out ? out : 1u) * to_mass_one;
    }
}

}  // namespace cpms

#define CPMS_LEVELS_PARAMETERS                                                                        \
    const unsigned *indptr, const unsigned *sources, const unsigned *begins, const unsigned *degree,  \
        const double *teleport, unsigned teleport_step, unsigned core, unsigned count, double damping
#define CPMS_LEVELS                                                                                   \
    cpms::Levels { indptr, sources, begins, degree, teleport, teleport_step, core, count, damping }
#define CPMS_PASS_BEFORE(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_LEVELS_PARAMETERS, const unsigned* core_indptr, const unsigned* core_sources,       \
             double* shares, double* b, double* partials, unsigned* came,                             \
             double* report) {                                                                        \
        const cpms::Grid grid(partials, came);                                                        \
        cpms::pass_before(CPMS_LEVELS, core_indptr, core_sources, shares, b, grid, report);           \
        grid.end();                                                                                   \
    }
#define CPMS_PASS_BEHIND(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_LEVELS_PARAMETERS, unsigned from, const double* begun, const double* other,         \
             const double* core_report, const unsigned* kept, const double* reported,                 \
             const unsigned* order, unsigned places, double* shares, double* x, double* partials,     \
             unsigned* came) {                                                                        \
        const cpms::Grid grid(partials, came);                                                        \
        const double* const core_shares = core_report ? cpms::left_in(begun, other, core_report) : begun; \
        cpms::pass_behind(CPMS_LEVELS, from, core_shares, kept, reported, order, places, shares, x,   \
                          grid);                                                                      \
        grid.end();                                                                                   \
    }
