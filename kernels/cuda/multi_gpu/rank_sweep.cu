// Sweeps of one rank, one a launch; the host does the exchanges between them (MPI). Each kernel reads from the last
// exchange whether it still has work, so that the host can launch ahead.
#include "multi_gpu/rank_sweeps.cuh"

namespace cpms {

// A residual sweep, unless the last change was below `tolerance`.
template <bool Refines, bool Personal>
CPMS_DEVICE void rank_residual_sweep(const Edges& edges, const Nodes& nodes, const RankVector& from,
                                     const RankVector& into, double* residual, const ReceivedTotals& received,
                                     double tolerance, u32 norm, double* to, const Grid& grid) {
    __shared__ WorkspaceFor<persistent_threads> workspace;
    if (norm_of(norm, received[RankTotals::l1], received[RankTotals::squares], received[RankTotals::linf]) < tolerance)
        return publish_idle(to);
    IndexPrefetch upcoming;
    upcoming.begin(edges);
    residual_sweep<Refines, Personal>(edges, nodes, from, received, into, residual, to, upcoming, workspace, grid);
}

// An inner sweep, unless the last one ended the outer step.
template <class Q, bool Personal>
CPMS_DEVICE void rank_inner_sweep(const Edges& edges, const Nodes& nodes, const QuantiserSettings& settings,
                                  const RankVector& from, const RankVector& into, float* correction,
                                  const ReceivedTotals& received, double* to, const Grid& grid) {
    __shared__ WorkspaceFor<persistent_threads> workspace;
    if (!(received[RankTotals::l1] > received[RankTotals::tolerance])) return publish_idle(to);
    IndexPrefetch upcoming;
    upcoming.begin(edges);
    inner_sweep<Q, Personal>(edges, nodes, settings, from, received, into, correction, to, upcoming, workspace, grid);
}

// Products of the history vectors, unless the last sweep ended the outer step.
template <class Q>
CPMS_DEVICE void rank_products(const Nodes& nodes, const RankVector* z, const ReceivedTotals& last_received, double* to,
                               const Grid& grid) {
    __shared__ AndersonHistory history;
    __shared__ AndersonWorkspace<typename HistoryValues<Q>::Real> work;
    if (!(last_received[RankTotals::l1] > last_received[RankTotals::tolerance])) return;
    load_history(history, z, last_received.ranks);
    compute_products<Q, true>(nodes.count, OwnHistory{z}, history, work, grid);
    publish_products(to, work.products_found);
}

template <class Q>
CPMS_DEVICE void rank_combine(const Nodes& nodes, const QuantiserSettings& settings, const RankVector* z,
                              const ReceivedTotals& last_received, const double* received_products, float* correction,
                              double* to, const Grid& grid) {
    __shared__ AndersonHistory history;
    __shared__ AndersonWorkspace<typename HistoryValues<Q>::Real> work;
    if (!(last_received[RankTotals::l1] > last_received[RankTotals::tolerance])) return publish_idle(to);
    load_history(history, z, last_received.ranks);
    prepare_scales<Q>(history, work);
    combine_ranks<Q>(nodes, settings, z, history, last_received, received_products, correction, to, work, grid);
}

}  // namespace cpms

#define CPMS_RANK_PARAMETERS CPMS_RANK_GRAPH, const double *received, unsigned ranks, double *to
#define CPMS_RANK_RECEIVED \
    cpms::ReceivedTotals { received, ranks }
#define CPMS_RANK_VECTORS(ALL, OWN, OUT)                                                     \
    cpms::RankVector{(const unsigned char*)(ALL), (unsigned char*)(OWN)}, cpms::RankVector { \
        nullptr, (unsigned char*)(OUT)                                                       \
    }

#define CPMS_RANK_CORRECT(NAME, THREADS, BLOCKS)                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                    \
        NAME(CPMS_RANK_PARAMETERS, double* contributions, const float* correction) { \
        const cpms::Grid grid(partials, arrived);                                    \
        cpms::correct(CPMS_RANK_NODES, contributions, correction, to, grid);         \
        grid.end();                                                                  \
    }
#define CPMS_RANK_RESIDUAL_SWEEP(NAME, THREADS, BLOCKS, ...)                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                   \
        NAME(CPMS_RANK_PARAMETERS, const double* all, double* contributions, double* next_contributions,            \
             double* residual, double tolerance, unsigned norm) {                                                   \
        const cpms::Grid grid(partials, arrived);                                                                   \
        cpms::rank_residual_sweep<__VA_ARGS__>(CPMS_EDGES, CPMS_RANK_NODES,                                         \
                                               CPMS_RANK_VECTORS(all, contributions, next_contributions), residual, \
                                               CPMS_RANK_RECEIVED, tolerance, norm, to, grid);                      \
        grid.end();                                                                                                 \
    }
#define CPMS_RANK_QUANTISE(NAME, THREADS, BLOCKS, ...)                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                      \
        NAME(CPMS_RANK_PARAMETERS, unsigned scaled, int top, unsigned long long seed, const double* residual,          \
             float* correction, unsigned char* z, double until) {                                                      \
        const cpms::Grid grid(partials, arrived);                                                                      \
        cpms::quantise<__VA_ARGS__>(CPMS_RANK_NODES, cpms::QuantiserSettings{scaled, top, seed}, residual, correction, \
                                    z, CPMS_RANK_RECEIVED, until, to, grid);                                           \
        grid.end();                                                                                                    \
    }
#define CPMS_RANK_INNER_SWEEP(NAME, THREADS, BLOCKS, ...)                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                    \
        NAME(CPMS_RANK_PARAMETERS, unsigned scaled, int top, unsigned long long seed, const unsigned char* all,      \
             unsigned char* z, float* correction) {                                                                  \
        const cpms::Grid grid(partials, arrived);                                                                    \
        cpms::rank_inner_sweep<__VA_ARGS__>(CPMS_EDGES, CPMS_RANK_NODES, cpms::QuantiserSettings{scaled, top, seed}, \
                                            CPMS_RANK_VECTORS(all, nullptr, z), correction, CPMS_RANK_RECEIVED, to,  \
                                            grid);                                                                   \
        grid.end();                                                                                                  \
    }
#define CPMS_RANK_HISTORY                                                                                             \
    unsigned char *z0, unsigned char *z1, unsigned char *z2, unsigned char *z3, unsigned char *z4, unsigned char *z5, \
        unsigned char *z6, unsigned char *z7, unsigned char *z8, double *totals0, double *totals1, double *totals2,   \
        double *totals3, double *totals4, double *totals5, double *totals6, double *totals7, double *totals8
#define CPMS_RANK_HISTORY_GIVEN                                                                                     \
    __shared__ cpms::RankVector z[cpms::history_length];                                                            \
    if (threadIdx.x == 0) {                                                                                         \
        unsigned char* const own[] = {z0, z1, z2, z3, z4, z5, z6, z7, z8};                                          \
        double* const totals[] = {totals0, totals1, totals2, totals3, totals4, totals5, totals6, totals7, totals8}; \
        for (int k = 0; k < cpms::history_length; ++k) z[k] = cpms::RankVector{nullptr, own[k], totals[k]};         \
    }                                                                                                               \
    __syncthreads();
#define CPMS_RANK_PRODUCTS(NAME, THREADS, BLOCKS, ...)                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, CPMS_RANK_HISTORY) { \
        const cpms::Grid grid(partials, arrived);                                                                 \
        CPMS_RANK_HISTORY_GIVEN                                                                                   \
        cpms::rank_products<__VA_ARGS__>(CPMS_RANK_NODES, z, CPMS_RANK_RECEIVED, to, grid);                       \
        grid.end();                                                                                               \
    }
#define CPMS_RANK_COMBINE(NAME, THREADS, BLOCKS, ...)                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                        \
        NAME(CPMS_RANK_PARAMETERS, CPMS_RANK_HISTORY, unsigned scaled, int top, unsigned long long seed, \
             const double* product_count, float* correction) {                                           \
        const cpms::Grid grid(partials, arrived);                                                        \
        CPMS_RANK_HISTORY_GIVEN                                                                          \
        cpms::rank_combine<__VA_ARGS__>(CPMS_RANK_NODES, cpms::QuantiserSettings{scaled, top, seed}, z,  \
                                        CPMS_RANK_RECEIVED, product_count, correction, to, grid);        \
        grid.end();                                                                                      \
    }
