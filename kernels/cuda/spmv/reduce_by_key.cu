// SpMV as one reduce-by-key over the list of edges, by CUB's block primitives: gather the sources' values, multiply
// by the edge values, reduce equal targets. Dangling mass and residual are block reductions.
//
// It is the formulation by parallel primitives, for comparison with the kernels of this project. A block synchronises
// for its scan where spmv/coo.cu needs a warp only.
#include "spmv/coo.cuh"
#include "base/cub.cuh"
#include "spmv/vector_sums.cuh"

namespace cpms {

constexpr int key_edges = lane_entries;
constexpr int task_edges = block_threads * key_edges;

// State of the segmented scan: the sum of the open segment, and whether a segment ended.
struct ScanState {
    double sum;
    u32 ended;
};

struct Append {
    CPMS_DEVICE ScanState operator()(const ScanState& a, const ScanState& b) const {
        return ScanState{b.ended ? b.sum : a.sum + b.sum, a.ended | b.ended};
    }
};

// One block a task. Lanes load and gather adjacent edges; after the exchange each thread has consecutive edges.
template <class Real>
CPMS_DEVICE void reduce_by_key(const Coo<Real>& coo) {
    using Exchange = cub::BlockExchange<double, block_threads, key_edges>;
    using Scan = cub::BlockScan<ScanState, block_threads, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ union {
        typename Exchange::TempStorage exchange;
        typename Scan::TempStorage scan;
    } workspace;
    const u32 task = blockIdx.x, lane = threadIdx.x % 32;
    const u64 begin = (u64)task * task_edges, warp_begin = begin + (threadIdx.x - lane) * key_edges + lane;
    u32 source[key_edges];
    double value[key_edges], term[key_edges];
#pragma unroll
    for (int k = 0; k < key_edges; ++k) source[k] = load_word(coo.sources + warp_begin + 32 * k, LastUse{});
#pragma unroll
    for (int k = 0; k < key_edges; ++k) value[k] = load_native(coo.values + warp_begin + 32 * k, LastUse{});
#pragma unroll
    for (int k = 0; k < key_edges; ++k) term[k] = load_native(coo.x + source[k], ReadOnly{});
    const u64 mine = begin + threadIdx.x * key_edges;
    const auto key = load_run_bytes<4 * key_edges>((const u8*)(coo.targets + mine), ReadOnly{});
    // The first key of a task counts as equal to the key before it, so its sum is carried out.
    const u32 previous = load_word(coo.targets + (threadIdx.x == 0 ? mine : mine - 1), ReadOnly{});
#pragma unroll
    for (int k = 0; k < key_edges; ++k) value[k] *= term[k];
    Exchange(workspace.exchange).WarpStripedToBlocked(value, term);
    const ThreadRows found = add_rows(key.word, term, previous, 0.0, coo.sums);
    __syncthreads();
    ScanState before, whole;
    const ScanState empty{0.0, 0};
    Scan(workspace.scan).ExclusiveScan(ScanState{found.open, found.ended}, before, empty, Append{}, whole);
    if (found.ended) {
        const double sum = before.sum + found.first;
        if (before.ended) {
            coo.sums[found.first_row] = (Real)sum;
        } else {
            coo.carry_out[2 * (u64)task] = sum;
        }
    }
    if (threadIdx.x == 0) coo.carry_out[2 * (u64)task + 1] = whole.sum;
}

struct Cub {
    template <class Some>
    static CPMS_DEVICE Some in_block(const Some& mine) {
        using Reduce = cub::BlockReduce<Some, block_threads>;
        __shared__ typename Reduce::TempStorage workspace;
        const Some all = Reduce(workspace).Reduce(mine, Combine{});
        __syncthreads();
        return all;
    }
};

}  // namespace cpms

#define CPMS_REDUCE_BY_KEY(NAME, REAL)                                                                            \
    CPMS_KERNEL(256, 4) NAME(const unsigned* targets, const unsigned* sources, const REAL* values, const REAL* x, \
                             double* carry_out, REAL* sums) {                                                     \
        cpms::reduce_by_key(cpms::Coo<REAL>{targets, sources, values, x, carry_out, sums});                       \
    }
#define CPMS_KEY_DANGLING(NAME, REAL) CPMS_DANGLING_MASS(NAME, cpms::Cub, REAL)
#define CPMS_KEY_DISTANCE(NAME, REAL) CPMS_DISTANCE(NAME, cpms::Cub, REAL)
