// Many sweeps of a rank in one launch, which sees to the exchanges between them itself.
#include "pagerank/refine_request.cuh"
#include "multi_gpu/rank_sweeps.cuh"

namespace cpms {

// Power iteration in float64 from the first vector to the second and back, until a change is below the plan's `tol`.
template <bool Personal>
CPMS_DEVICE void ranks_power(const Edges& edges, const Nodes& nodes, const Plan& plan, const Vector* given,
                             const Exchanges& exchanges, const Grid& grid, double* report_to) {
    __shared__ RoomFor<resident_threads> room;
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

// Rounds of method refine; see pagerank/persistent_refine.cu. Vectors: x, what it becomes, two for what is told of full sweeps and of products,
// and those of values in few bits, of which as many are used as are `kept`: no vector may be in two exchanges that follow
// each other.
template <class Q, bool Personal>
CPMS_DEVICE void ranks_refine(const Edges& edges, const Nodes& nodes, const Plan& plan, const Vector* given, u32 kept,
                              const Exchanges& exchanges, double* change, float* c, u32 has_c, const Grid& grid,
                              double* report_to) {
    using Word = typename Raw<Q>::Word;
    using Combining = Combination<typename StoredValues<Q>::Real>;
    __shared__ RoomFor<resident_threads> room;
    static_assert(sizeof(Combining) <= sizeof(room), "too much to combine");
    __shared__ Vector vectors[4 + kept_sweeps];
    __shared__ Past past;
    __shared__ Course course;
    const Vector &of_full = vectors[2], &of_products = vectors[3], *const z = vectors + 4;
    Ahead ahead;
    const auto expect = [&] { ahead.begin(edges); };
    if (threadIdx.x == 0) {
        for (int k = 0; k < 4 + kept_sweeps; ++k) vectors[k] = given[k];
        course.before = course.promised = infinity();
    }
    exchanges.begin();
    Report report(report_to);
    u32 x = 0;
    bool again = false;
    do {
        const Vector &old = vectors[x], &fresh = vectors[x ^ 1];
        correct(nodes, (double*)old.own, has_c ? c : nullptr, exchanges.told(old), grid);
        exchanges.values<u64>(old, grid, expect);
        sweep_fully<true, Personal>(edges, nodes, old, exchanges.heard(old), fresh, change, exchanges.told(of_full),
                                    ahead, room, grid);
        exchanges.numbers(of_full, grid, expect);
        x ^= 1;
        const Heard found = exchanges.heard(of_full);
        const double l1 = found[Told::l1], squares = found[Told::squares], linf = found[Told::linf];
        const double size = norm_of(plan.norm, l1, squares, linf);
        report.sweep(l1, squares, found[Told::mass], found[Told::sum], linf);
        if (!plan.lows || !(size >= plan.tol) || !(size < infinity()) || report.count >= plan.most) break;

        quantise<Q>(nodes, plan.storing, change, c, z[0].own, found, low_until(plan, l1, size), exchanges.told(z[0]), grid);
        if (threadIdx.x == 0) {
            course.l1 = l1;
            course.until = low_until(plan, l1, size);
            course.full = course.began = report.count;
            course.vectors = kept;
        }
        exchanges.values<Word>(z[0], grid, expect);
        double now;
        do {
            if (course.vectors == kept_sweeps && report.count - course.began == depth) {
                Combining& by = *(Combining*)&room;
                recall(past, z, exchanges.talk.ranks);
                find_products<Q, true>(nodes.count, OwnPlaces{z}, past, by, grid);
                tell_products(exchanges.told(of_products, products), by.found);
                exchanges.numbers(of_products, grid, [] {}, products);
                combine<Q>(nodes, plan.storing, z, past, exchanges.heard(z[depth]), of_products.heard, c,
                           exchanges.told(z[0]), by, grid);
                if (threadIdx.x == 0) {
                    course.began = report.count;
                    if (!past.pays) course.vectors = 2;
                }
                exchanges.values<Word>(z[0], grid, expect);
            }
            const u32 sweep = report.count - course.began, in_turn = course.vectors == 2 ? 1 : ~0u;
            const Vector &from = z[sweep & in_turn], &into = z[(sweep + 1) & in_turn];
            sweep_low<Q, Personal>(edges, nodes, plan.storing, from, exchanges.heard(from), into, c,
                                   exchanges.told(into), ahead, room, grid);
            exchanges.values<Word>(into, grid, expect);
            const Heard heard = exchanges.heard(into);
            now = heard[Told::l1];
            report.sweep(now, low_sweep, 0.0, heard[Told::sum], 0.0);
        } while (now > course.until && report.count < plan.most && report.count - course.full < plan.lows);
        has_c = 1;
        again = course.goes_on(plan, report.count);
        __syncthreads();
        if (threadIdx.x == 0) course.end(plan, now);
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
        NAME(CPMS_RANK_GRAPH, CPMS_RANK_VECTOR(x), CPMS_RANK_VECTOR(fresh), CPMS_RANK_VECTOR(full),         \
             CPMS_RANK_VECTOR(products), CPMS_RANK_VECTOR(z0), CPMS_RANK_VECTOR(z1), CPMS_RANK_VECTOR(z2),  \
             CPMS_RANK_VECTOR(z3), CPMS_RANK_VECTOR(z4), CPMS_RANK_VECTOR(z5), CPMS_RANK_VECTOR(z6),        \
             CPMS_RANK_VECTOR(z7), CPMS_RANK_VECTOR(z8), CPMS_RANK_TALK, unsigned kept, double gain,        \
             double tol, double trust, double reach, double noise, unsigned norm, unsigned most,            \
             unsigned lows, unsigned scaled, int top, unsigned long long seed, double* change, float* c,    \
             unsigned has_c, double* report) {                                                              \
        const cpms::Grid grid(partials, came);                                                              \
        const cpms::Vector vectors[] = {                                                                    \
            CPMS_RANK_VECTOR_GIVEN(x), CPMS_RANK_VECTOR_GIVEN(fresh), CPMS_RANK_VECTOR_GIVEN(full),         \
            CPMS_RANK_VECTOR_GIVEN(products), CPMS_RANK_VECTOR_GIVEN(z0), CPMS_RANK_VECTOR_GIVEN(z1),       \
            CPMS_RANK_VECTOR_GIVEN(z2), CPMS_RANK_VECTOR_GIVEN(z3), CPMS_RANK_VECTOR_GIVEN(z4),             \
            CPMS_RANK_VECTOR_GIVEN(z5), CPMS_RANK_VECTOR_GIVEN(z6), CPMS_RANK_VECTOR_GIVEN(z7),             \
            CPMS_RANK_VECTOR_GIVEN(z8)};                                                                    \
        cpms::ranks_refine<__VA_ARGS__>(                                                                    \
            CPMS_EDGES, CPMS_RANK_NODES,                                                               \
            cpms::Plan{gain, tol, trust, reach, noise, norm, most, lows, cpms::Storing{scaled, top, seed}}, \
            vectors, kept, CPMS_RANK_EXCHANGES, change, c, has_c, grid, report);                            \
        grid.end();                                                                                         \
    }
