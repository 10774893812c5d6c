// Sweeps of one rank of several: it holds some rows, the values that these read lie in one vector, those of
// other ranks too, and what each rank has found goes to all others with its values.
#include "rounds.cuh"
#include "talk.cuh"

namespace cpms {

// What a rank tells the others. The first five are summed over ranks, in their order; of the next two the
// largest counts; the others are the same on all: how z is scaled, the ||r||_1 that ends a round, and its low
// sweeps so far. These are told and not given, so that the launches of all sweeps are the same.
struct Told {
    enum Which { mass, left_over, l1, squares, sum, linf, largest, scale, until, sweeps, count };
};  // left over: dangling mass, or mass that rounding lost

// A walk has no register left: what is in shared memory instead, and few pieces together, keep the compiler from
// putting aside what has just been gathered, which every step would have to wait for.
constexpr int pieces_together = 4;

struct Heard {
    const double* by_rank;
    u32 ranks;

    CPMS_DEVICE double operator[](Told::Which which) const {
        double all = by_rank[which];
        for (u32 rank = 1; rank < ranks && which < Told::scale; ++rank) {
            const double one = by_rank[rank * Told::count + which];
            all = which < Told::linf ? all + one : Larger{}(all, one);
        }
        return all;
    }
};

CPMS_DEVICE void tell(double* to, const double (&numbers)[Told::count]) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int q = 0; q < Told::count; ++q) to[q] = numbers[q];
    }
}

// A sweep that has nothing to do says so to the one behind it.
CPMS_DEVICE void tell_nothing(double* to) { tell(to, {}); }

CPMS_DEVICE double infinity() { return value_of(0x7FF0000000000000ull); }

// Adds c, if there is one, and tells mass and dangling mass.
CPMS_DEVICE void ranks_correct(const Nodes& nodes, double* shares, const float* c, double* to, const Grid& grid) {
    Totals<2, 0> found = corrected(nodes, shares, c);
    found.over_grid(grid);
    tell(to, {found.value[0], found.value[1], infinity(), infinity(), 0.0, infinity(), 0.0, 0.0, 0.0, 0.0});
}

// A vector of values that ranks read of each other, and what they told with it.
struct Vector {
    const u8* all;
    u8* own;        // this rank's stretch
    double* heard;  // what all ranks told
    const u64 *values_to, *told_to;
};

// Sweeps of a launch: one, and the host sees to the exchange; or up to `most` from `first` to `second` and back, and
// an exchange behind each, where ranks write into each other's memory or there is one alone.
struct Turns {
    Vector first, second;
    Talk talk;
    u32 most;        // 0: one
    double* report;  // how many sweeps and when they began, in ns; of each what ranks told, joined, and when it ended

    static constexpr u32 columns = Told::scale + 1;

    CPMS_DEVICE Heard heard(const Vector& vector) const { return Heard{vector.heard, talk.ranks}; }
    CPMS_DEVICE double* told(const Vector& vector) const { return vector.heard + talk.rank * Told::count; }

    // Calls sweep(from, to, done) until it returns false, or all are done; exchanges what it has found, `ahead` of
    // which the next sweep may begin.
    template <class Word, class Sweep, class Meanwhile>
    CPMS_DEVICE void each(const Grid& grid, Sweep sweep, Meanwhile meanwhile) const {
        __shared__ Vector turn[2];
        __shared__ u32 before;  // exchanges
        if (threadIdx.x == 0) {
            turn[0] = first;
            turn[1] = second;
            before = talk.ranks > 1 && most > 0 ? talk.counts[1] : 0;
        }
        __syncthreads();
        const bool reports = blockIdx.x == 0 && threadIdx.x <= Told::scale && most > 0;
        if (reports && threadIdx.x == 0) report[1] = nanoseconds();
        u32 done = 0;
        while (sweep(turn[done & 1], turn[~done & 1], done) && most > 0) {
            const Vector& found = turn[~done & 1];
            ++done;
            if (talk.ranks > 1) {
                talk.write_values((const Word*)found.own, found.values_to, Default{});
                __syncthreads();
                if (threadIdx.x == 0) fence_system();
            }
            grid.wait(meanwhile);
            if (talk.ranks > 1) {
                if (blockIdx.x == 0) {
                    talk.write_told(told(found), Told::count, found.told_to);
                    __syncthreads();
                    talk.signal_all(before + done);
                }
                talk.await_all(before + done);
            }
            if (reports) {
                const u32 at = 2 + (done - 1) * columns + threadIdx.x;
                report[at] = threadIdx.x < Told::scale ? heard(found)[(Told::Which)threadIdx.x] : nanoseconds();
            }
            if (done == most) break;
        }
        if (reports && threadIdx.x == 0) {
            report[0] = (double)done;
            if (talk.ranks > 1) talk.counts[1] = before + done;
        }
    }
};

// Full sweeps, of which all but the first of a resident launch ask whether the last one made a change below `tol`.
template <bool Refines, bool Personal>
CPMS_DEVICE void ranks_full(const Edges& edges, const Nodes& nodes, const Turns& turns, double* change, double tol,
                            u32 norm, const Grid& grid) {
    __shared__ Room room;
    __shared__ FullFactors by;
    Ahead ahead;
    ahead.begin(edges);
    const auto sweep = [&](const Vector& from, const Vector& to, u32 done) {
        const Heard heard = turns.heard(from);
        const double size = norm_of(norm, heard[Told::l1], heard[Told::squares], heard[Told::linf]);
        if (done > 0 || turns.most == 0) {
            if (!(size >= tol)) {
                if (done == 0) tell_nothing(turns.told(to));
                return false;
            }
        }
        const double whole = Refines ? heard[Told::mass] : 1.0;
        if (threadIdx.x == 0) by = FullFactors::of(nodes, whole, heard[Told::left_over]);
        __syncthreads();
        FullEnd<Refines, Personal> end{nodes, by, (const double*)from.own, (double*)to.own, change};
        walk<double, pieces_together>(edges, ahead, from.all, room, end);
        Totals<6, 2> found{{end.l1, end.squares, end.mass, end.other, end.linf, end.largest}};
        found.over_grid(grid);
        const double* const v = found.value;
        tell(turns.told(to), {v[2], Refines ? 0.0 : v[3], v[0], v[1], Refines ? v[3] : 0.0, v[4], v[5], 0.0, 0.0, 0.0});
        return true;
    };
    turns.each<u64>(grid, sweep, [&] { ahead.begin(edges); });
}

// The first z of a round, from the change that the full sweep made; the round ends once ||r||_1 is at most `until`.
template <class Q>
CPMS_DEVICE void ranks_quantise(const Nodes& nodes, const Storing& storing, const double* change, float* c, u8* z,
                                const Heard& heard, double until, double* to, const Grid& grid) {
    const LowState state = quantised<Q>(nodes, storing, change, heard[Told::largest], c, z, grid);
    tell(to, {0.0, state.lost, infinity(), 0.0, 0.0, 0.0, state.largest, (double)state.exponent, until, 0.0});
}

// Low sweeps until one ended the round. Where rounding is random, no two ranks or sweeps of a round round alike.
template <class Q, bool Personal>
CPMS_DEVICE void ranks_low(const Edges& edges, const Nodes& nodes, const Storing& storing, const Turns& turns, float* c,
                           const Grid& grid) {
    __shared__ Room room;
    __shared__ LowFactors by;
    __shared__ int next;
    Ahead ahead;
    ahead.begin(edges);
    const auto sweep = [&](const Vector& from, const Vector& to, u32 done) {
        const Heard heard = turns.heard(from);
        if (!(heard[Told::l1] > heard[Told::until])) {
            if (done == 0) tell_nothing(turns.told(to));
            return false;
        }
        const u64 seed = storing.seed + (u64)(heard[Told::sweeps] + 1.0) * heard.ranks * 0xD1B54A32D192ED03ull;
        if (threadIdx.x == 0) {
            next = shared_scale(storing.scaled, storing.top, heard[Told::largest]);
            by = LowFactors::of<Q>(nodes, (int)heard[Told::scale], next, heard[Told::left_over]);
        }
        __syncthreads();
        LowEnd<Q, Personal> end(nodes, by, c, to.own, seed);
        walk<Q, pieces_together>(edges, ahead, from.all, room, end);
        Totals<4, 1> found{{end.l1, end.sum, end.lost, (double)end.largest * power_of_two(-next)}};
        found.over_grid(grid);
        const double* const v = found.value;
        tell(turns.told(to), {0.0, v[2], v[0], 0.0, v[1], 0.0, v[3], (double)next, heard[Told::until],
                              heard[Told::sweeps] + 1.0});
        return true;
    };
    turns.each<typename Raw<Q>::Word>(grid, sweep, [&] { ahead.begin(edges); });
}

}  // namespace cpms

#define CPMS_RANK_GRAPH                                                                                     \
    const unsigned *sources, const unsigned short *marks, const unsigned *begins,                           \
        const unsigned *first_rows, const unsigned *first_stretches, unsigned stretches,                    \
        unsigned steps, unsigned each, unsigned long long *pieces,                                          \
        const unsigned *degree, const double *sink, const double *teleport,                                 \
        unsigned sink_step, unsigned teleport_step, unsigned count, double damping,                         \
        double *partials, unsigned *came
#define CPMS_RANK_HEARD const double *heard, unsigned ranks, double *to
#define CPMS_RANK_TURNS                                                                                     \
    const unsigned char *first_all, unsigned char *first_own, double *first_heard,                          \
        const unsigned long long *first_values_to, const unsigned long long *first_told_to,                 \
        const unsigned char *second_all, unsigned char *second_own, double *second_heard,                   \
        const unsigned long long *second_values_to, const unsigned long long *second_told_to,               \
        const unsigned *places, const unsigned *sent_begins, const unsigned long long *signals_to,          \
        const unsigned *signals, unsigned *counts, unsigned ranks, unsigned rank, unsigned most,            \
        double *report
#define CPMS_RANK_EDGES                                                                                     \
    cpms::Edges { sources, marks, begins, first_rows, first_stretches, stretches, steps, count, each, cpms::TaskPieces{pieces} }
#define CPMS_RANK_NODES                                                                                     \
    cpms::Nodes { degree, sink, teleport, sink_step, teleport_step, count, damping }
#define CPMS_RANK_TURNS_GIVEN                                                                               \
    cpms::Turns {                                                                                           \
        {first_all, first_own, first_heard, first_values_to, first_told_to},                                \
            {second_all, second_own, second_heard, second_values_to, second_told_to},                       \
            cpms::Talk{places, sent_begins, signals_to, signals, counts, ranks, rank}, most, report         \
    }

#define CPMS_RANKS_CORRECT(NAME, THREADS, BLOCKS)                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_GRAPH, CPMS_RANK_HEARD, double* shares, const float* c) {                            \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_correct(CPMS_RANK_NODES, shares, c, to, grid);                                          \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_FULL(NAME, THREADS, BLOCKS, ...)                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_GRAPH, CPMS_RANK_TURNS, double* change, double tol, unsigned norm) {                 \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_full<__VA_ARGS__>(CPMS_RANK_EDGES, CPMS_RANK_NODES, CPMS_RANK_TURNS_GIVEN, change, tol, \
                                      norm, grid);                                                          \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_QUANTISE(NAME, THREADS, BLOCKS, ...)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_GRAPH, CPMS_RANK_HEARD, unsigned scaled, int top, unsigned long long seed,           \
             const double* change, float* c, unsigned char* z, double until) {                              \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_quantise<__VA_ARGS__>(CPMS_RANK_NODES, cpms::Storing{scaled, top, seed}, change, c, z,  \
                                          cpms::Heard{heard, ranks}, until, to, grid);                      \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_LOW(NAME, THREADS, BLOCKS, ...)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_GRAPH, CPMS_RANK_TURNS, unsigned scaled, int top, unsigned long long seed,           \
             float* c) {                                                                                    \
        const cpms::Grid grid(partials, came);                                                              \
        cpms::ranks_low<__VA_ARGS__>(CPMS_RANK_EDGES, CPMS_RANK_NODES, cpms::Storing{scaled, top, seed},    \
                                     CPMS_RANK_TURNS_GIVEN, c, grid);                                       \
        grid.end();                                                                                         \
    }
