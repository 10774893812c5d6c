// Many sweeps of a rank in one launch, which sees to the exchanges between them itself.
#include "plan.cuh"
#include "rank_sweeps.cuh"

namespace cpms {

// Power iteration in float64 from the first vector to the second and back, until a change is below the plan's `tol`.
template <bool Personal>
CPMS_DEVICE void ranks_power(const Edges& edges, const Nodes& nodes, const Plan& plan, const Vector* given,
                             const Exchanges& exchanges, const Grid& grid, double* report_to) {
    __shared__ Room room;
    __shared__ Vector vectors[2];
    Ahead ahead;
    const auto expect = [&] { ahead.begin(edges); };
    expect();
    if (threadIdx.x == 0) {
        for (int k = 0; k < 2; ++k) vectors[k] = given[k];
    }
    exchanges.begin();
    Report report(report_to);
    double size;
    do {
        const Vector &from = vectors[report.count & 1], &into = vectors[~report.count & 1];
        sweep_fully<false, Personal>(edges, nodes, from, exchanges.heard(from), into, nullptr, exchanges.told(into),
                                     ahead, room, grid);
        exchanges.values<u64>(into, grid, expect);
        const Heard heard = exchanges.heard(into);
        size = norm_of(plan.norm, heard[Told::l1], heard[Told::squares], heard[Told::linf]);
        report.sweep(heard[Told::l1], heard[Told::squares], heard[Told::mass], heard[Told::sum], heard[Told::linf]);
    } while (size >= plan.tol && report.count < plan.most);
    exchanges.end();
}

// Rounds of method refine; see refine.cu. Vectors: x, what it becomes, two of values in few bits, and one for what is
// told of full sweeps: no vector may be in two exchanges that follow each other.
template <class Q, bool Personal>
CPMS_DEVICE void ranks_refine(const Edges& edges, const Nodes& nodes, const Plan& plan, const Vector* given,
                              const Exchanges& exchanges, double* change, float* c, u32 has_c, const Grid& grid,
                              double* report_to) {
    using Word = typename Raw<Q>::Word;
    __shared__ Room room;
    __shared__ Vector vectors[5];
    Ahead ahead;
    const auto expect = [&] { ahead.begin(edges); };
    if (threadIdx.x == 0) {
        for (int k = 0; k < 5; ++k) vectors[k] = given[k];
    }
    exchanges.begin();
    Report report(report_to);
    double before = infinity(), promised = before;
    u32 x = 0, z = 2;
    bool again = false;
    do {
        const Vector &old = vectors[x], &fresh = vectors[x ^ 1];
        correct(nodes, (double*)old.own, has_c ? c : nullptr, exchanges.told(old), grid);
        exchanges.values<u64>(old, grid, expect);
        sweep_fully<true, Personal>(edges, nodes, old, exchanges.heard(old), fresh, change, exchanges.told(vectors[4]),
                                    ahead, room, grid);
        exchanges.numbers(vectors[4], grid, expect);
        x ^= 1;
        const Heard found = exchanges.heard(vectors[4]);
        const double l1 = found[Told::l1], squares = found[Told::squares], linf = found[Told::linf];
        const double size = norm_of(plan.norm, l1, squares, linf);
        report.sweep(l1, squares, found[Told::mass], found[Told::sum], linf);
        if (!plan.lows || !(size >= plan.tol) || !(size < infinity()) || report.count >= plan.most) break;

        const double until = low_until(plan, l1, size);
        const Vector& first = vectors[z];
        quantise<Q>(nodes, plan.storing, change, c, first.own, found, until, exchanges.told(first), grid);
        exchanges.values<Word>(first, grid, expect);
        double now;
        const u32 full = report.count;
        do {
            const Vector &from = vectors[z], &into = vectors[z ^ 1];
            sweep_low<Q, Personal>(edges, nodes, plan.storing, from, exchanges.heard(from), into, c,
                                   exchanges.told(into), ahead, room, grid);
            exchanges.values<Word>(into, grid, expect);
            z ^= 1;
            const Heard heard = exchanges.heard(into);
            now = heard[Told::l1];
            report.sweep(now, -1.0, 0.0, heard[Told::sum], 0.0);
        } while (now > until && report.count < plan.most && report.count - full < plan.lows);
        has_c = 1;
        again = l1 < before && l1 <= plan.trust * promised && report.count < plan.most &&
                report.count - full < plan.lows;
        before = l1;
        promised = Larger{}(now, plan.gain * l1);
    } while (again);
    exchanges.end();
}

}  // namespace cpms

#define CPMS_RANK_VECTOR(NAME)                                                                              \
    const unsigned char *NAME##_all, unsigned char *NAME##_own, double *NAME##_heard,                       \
        const unsigned long long *NAME##_values_to, const unsigned long long *NAME##_told_to
#define CPMS_RANK_VECTOR_GIVEN(NAME)                                                                        \
    { NAME##_all, NAME##_own, NAME##_heard, NAME##_values_to, NAME##_told_to }
#define CPMS_RANK_TALK                                                                                      \
    const unsigned *places, const unsigned *sent_begins, const unsigned long long *signals_to,              \
        const unsigned *signals, unsigned *counts, unsigned ranks, unsigned rank
#define CPMS_RANK_EXCHANGES                                                                                 \
    cpms::Exchanges {                                                                                       \
        cpms::Talk { places, sent_begins, signals_to, signals, counts, ranks, rank }                        \
    }

#define CPMS_RANKS_POWER(NAME, THREADS, BLOCKS, ...)                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_GRAPH, CPMS_RANK_VECTOR(x), CPMS_RANK_VECTOR(fresh), CPMS_RANK_TALK, double tol,     \
             unsigned norm, unsigned most, double* report) {                                                \
        const cpms::Grid grid(partials, came);                                                              \
        const cpms::Vector vectors[] = {CPMS_RANK_VECTOR_GIVEN(x), CPMS_RANK_VECTOR_GIVEN(fresh)};          \
        cpms::ranks_power<__VA_ARGS__>(CPMS_EDGES, CPMS_RANK_NODES,                                    \
                                       cpms::Plan{0.0, tol, 0.0, 0.0, 0.0, norm, most, 0, {}}, vectors,     \
                                       CPMS_RANK_EXCHANGES, grid, report);                                  \
        grid.end();                                                                                         \
    }
#define CPMS_RANKS_REFINE(NAME, THREADS, BLOCKS, ...)                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                           \
        NAME(CPMS_RANK_GRAPH, CPMS_RANK_VECTOR(x), CPMS_RANK_VECTOR(fresh), CPMS_RANK_VECTOR(z),            \
             CPMS_RANK_VECTOR(z_other), CPMS_RANK_VECTOR(numbers), CPMS_RANK_TALK, double gain,             \
             double tol, double trust, double reach, double noise, unsigned norm, unsigned most,            \
             unsigned lows, unsigned scaled, int top, unsigned long long seed, double* change, float* c,    \
             unsigned has_c, double* report) {                                                              \
        const cpms::Grid grid(partials, came);                                                              \
        const cpms::Vector vectors[] = {CPMS_RANK_VECTOR_GIVEN(x), CPMS_RANK_VECTOR_GIVEN(fresh),           \
                                        CPMS_RANK_VECTOR_GIVEN(z), CPMS_RANK_VECTOR_GIVEN(z_other),         \
                                        CPMS_RANK_VECTOR_GIVEN(numbers)};                                   \
        cpms::ranks_refine<__VA_ARGS__>(                                                                    \
            CPMS_EDGES, CPMS_RANK_NODES,                                                               \
            cpms::Plan{gain, tol, trust, reach, noise, norm, most, lows, cpms::Storing{scaled, top, seed}}, \
            vectors, CPMS_RANK_EXCHANGES, change, c, has_c, grid, report);                                  \
        grid.end();                                                                                         \
    }
