// Sweeps of one rank, one a launch; the host queues the exchanges between them. Each kernel reads from the last
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

// This rank's part of each history vector, and the totals that travelled with it.
struct RankHistory {
    u8* own[history_length];
    double* received[history_length];

    // The vectors in shared memory.
    CPMS_DEVICE const RankVector* vectors() const {
        __shared__ RankVector of[history_length];
        if (threadIdx.x == 0) {
            for (int k = 0; k < history_length; ++k) of[k] = RankVector{nullptr, own[k], received[k]};
        }
        __syncthreads();
        return of;
    }
};

}  // namespace cpms

#define CPMS_RANK_PARAMETERS CPMS_RANK_GRAPH, const __grid_constant__ cpms::ReceivedTotals received, double *to
#define CPMS_RANK_CORRECT(NAME, THREADS, BLOCKS)                                                              \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, double* contributions, const float* correction) { \
        const cpms::Grid grid(partials, arrived);                                                             \
        cpms::correct(nodes, contributions, correction, to, grid);                                            \
        grid.end();                                                                                           \
    }
#define CPMS_RANK_RESIDUAL_SWEEP(NAME, THREADS, BLOCKS, ...)                                                      \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::RankVector from,        \
                                      const __grid_constant__ cpms::RankVector into, double* residual,            \
                                      double tolerance, unsigned norm) {                                          \
        const cpms::Grid grid(partials, arrived);                                                                 \
        cpms::rank_residual_sweep<__VA_ARGS__>(edges, nodes, from, into, residual, received, tolerance, norm, to, \
                                               grid);                                                             \
        grid.end();                                                                                               \
    }
#define CPMS_RANK_QUANTISE(NAME, THREADS, BLOCKS, ...)                                                                \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::QuantiserSettings settings, \
                                      const double* residual, float* correction, unsigned char* sent,                 \
                                      double tolerance) {                                                             \
        const cpms::Grid grid(partials, arrived);                                                                     \
        cpms::quantise<__VA_ARGS__>(nodes, settings, residual, correction, sent, received, tolerance, to, grid);      \
        grid.end();                                                                                                   \
    }
#define CPMS_RANK_INNER_SWEEP(NAME, THREADS, BLOCKS, ...)                                                             \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::QuantiserSettings settings, \
                                      const __grid_constant__ cpms::RankVector from,                                  \
                                      const __grid_constant__ cpms::RankVector into, float* correction) {             \
        const cpms::Grid grid(partials, arrived);                                                                     \
        cpms::rank_inner_sweep<__VA_ARGS__>(edges, nodes, settings, from, into, correction, received, to, grid);      \
        grid.end();                                                                                                   \
    }
#define CPMS_RANK_PRODUCTS(NAME, THREADS, BLOCKS, ...)                                                           \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::RankHistory history) { \
        const cpms::Grid grid(partials, arrived);                                                                \
        cpms::rank_products<__VA_ARGS__>(nodes, history.vectors(), received, to, grid);                          \
        grid.end();                                                                                              \
    }
#define CPMS_RANK_COMBINE(NAME, THREADS, BLOCKS, ...)                                                                \
    CPMS_KERNEL(THREADS, BLOCKS) NAME(CPMS_RANK_PARAMETERS, const __grid_constant__ cpms::RankHistory history,       \
                                      const __grid_constant__ cpms::QuantiserSettings settings,                      \
                                      const double* received_products, float* correction) {                          \
        const cpms::Grid grid(partials, arrived);                                                                    \
        cpms::rank_combine<__VA_ARGS__>(nodes, settings, history.vectors(), received, received_products, correction, \
                                        to, grid);                                                                   \
        grid.end();                                                                                                  \
    }
