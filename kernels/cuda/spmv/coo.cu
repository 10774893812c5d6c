// SpMV in COO: by warps that reduce sorted edges segment by segment, or with one atomic addition an edge; and the
// epilogue of both.
//
// The first variant is the method of the engine `coo_streams`, the second its plain counterpart. An edge costs two
// indices and a value.
#include "spmv/coo.cuh"

namespace cpms {

// A lane loads 16 bytes of values, `lane_edges` of them; as many such groups make up a tile of 256 edges.
template <class Real>
constexpr int lane_edges = 16 / sizeof(Real);

template <int Edges>
CPMS_DEVICE Run<4 * Edges> load_edges(const u32* at) {
    return load_run_bytes<4 * Edges>((const u8*)at, LastUse{});
}

template <class Real>
CPMS_DEVICE void coo_product(const Coo<Real>& coo, u32 all_tiles, u32 task_tiles) {
    constexpr int edges = lane_edges<Real>, groups = lane_entries / edges;
    const u32 lane = threadIdx.x % 32, warps = gridDim.x * block_warps;
    u32 task = blockIdx.x * block_warps + threadIdx.x / 32;
#pragma unroll 1
    for (; (u64)task * task_tiles < all_tiles; task += warps) {
        u32 tile = task * task_tiles;
        const u32 last = smaller(tile + task_tiles, all_tiles);
        u32 task_row = 0, row = 0;
        double carry = 0.0;
        for (; tile < last; ++tile) {
            Run<4 * edges> target[groups], source[groups];
            Run<16> value[groups];
            double term[groups][edges];
            const u64 first = (u64)tile * tile_entries + lane * edges;
#pragma unroll
            for (int r = 0; r < groups; ++r) source[r] = load_edges<edges>(coo.sources + first + 32 * edges * r);
#pragma unroll
            for (int r = 0; r < groups; ++r) target[r] = load_edges<edges>(coo.targets + first + 32 * edges * r);
#pragma unroll
            for (int r = 0; r < groups; ++r) {
                value[r] = load_run_bytes<16>((const u8*)(coo.values + first + 32 * edges * r), LastUse{});
            }
#pragma unroll
            for (int r = 0; r < groups; ++r) {
#pragma unroll
                for (int k = 0; k < edges; ++k) term[r][k] = load_native(coo.x + source[r].word[k], ReadOnly{});
            }
            if (tile == task * task_tiles) row = task_row = __shfl_sync(all_lanes, target[0].word[0], 0);
#pragma unroll
            for (int r = 0; r < groups; ++r) {
#pragma unroll
                for (int k = 0; k < edges; ++k) {
                    const auto bits = value[r].template field<128 / edges>(k);
                    term[r][k] *= (double)Native<Real>::value((typename Native<Real>::Word)bits);
                }
                const u32 final_row = target[r].word[edges - 1];
                const u32 left = __shfl_up_sync(all_lanes, final_row, 1);
                const double begun = lane == 0 ? carry : 0.0;
                ThreadRows mine = add_rows(target[r].word, term[r], lane == 0 ? row : left, begun, coo.sums);
                mine.open = segmented_scan(mine.open, lane, mine.ended);
                const double from_left = __shfl_up_sync(all_lanes, mine.open, 1);
                if (mine.ended) {
                    const double sum = mine.first + (lane == 0 ? 0.0 : from_left);
                    // The first row to end may have begun before the task; then it is the first row of the task.
                    if (mine.first_row == task_row) {
                        coo.carry_out[2 * (u64)task] = sum;
                    } else {
                        coo.sums[mine.first_row] = (Real)sum;
                    }
                }
                carry = __shfl_sync(all_lanes, mine.open, 31);
                row = __shfl_sync(all_lanes, final_row, 31);
            }
        }
        if (lane == 0) coo.carry_out[2 * (u64)task + 1] = carry;
    }
}

// Second pass of the carry-out: the partial sums of row k are those from begins[k] to begins[k + 1] - 1. A warp
// reduces long rows together, one after the other. Long rows are often neighbours, so a warp's rows lie far apart.
template <class Real>
CPMS_DEVICE void coo_carry_out(const double* carry_out, const u32* rows, const u32* begins, u32 count, Real* sums) {
    constexpr u32 most_alone = 16;
    const u32 lane = threadIdx.x % 32, warps = gridDim.x * block_warps, row_groups = (count + 31) / 32;
#pragma unroll 1
    for (u32 row_group = blockIdx.x * block_warps + threadIdx.x / 32; row_group < row_groups; row_group += warps) {
        const bool mine = (u64)lane * row_groups + row_group < count;
        const u32 k = mine ? lane * row_groups + row_group : count - 1;
        const u32 begin = begins[k], end = begins[k + 1];
        const bool alone = end - begin <= most_alone;
        double sum = 0.0;
#pragma unroll 4
        for (u32 i = begin; alone && i < end; ++i) sum += carry_out[i];
        u32 others = __ballot_sync(all_lanes, !alone && mine);
        while (others != 0) {
            const int owner = __ffs((int)others) - 1;
            const u32 from = __shfl_sync(all_lanes, begin, owner), to = __shfl_sync(all_lanes, end, owner);
            double part = 0.0;
#pragma unroll 8
            for (u32 i = from + lane; i < to; i += 32) part += carry_out[i];
            part = warp_reduce(part, Add{});
            if ((int)lane == owner) sum = part;
            others &= others - 1;
        }
        if (mine) sums[rows[k]] = (Real)sum;
    }
}

// One atomic addition an edge. `sums` must hold zeros.
template <class Real>
CPMS_DEVICE void coo_atomic(const u32* targets, const u32* sources, const Real* values, u32 edges, const Real* x,
                            Real* sums) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 k = (u64)blockIdx.x * blockDim.x + threadIdx.x; k < edges; k += threads) {
        atomicAdd(sums + targets[k], values[k] * x[sources[k]]);
    }
}

// out = damping * (sums + dangling * sink) + (1 - damping) * teleport. A stride is 0 where all nodes have the same
// value.
template <class Real>
CPMS_DEVICE void coo_epilogue(const Real* sums, const double* dangling, const double* sink, u32 sink_stride,
                              const double* teleport, u32 teleport_stride, double damping, u32 nodes, Real* out) {
    const double mass = damping * *dangling;
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < nodes; i += threads) {
        const double plus = mass * load_native(sink + i * sink_stride, ReadOnly{}) +
                            (1.0 - damping) * load_native(teleport + i * teleport_stride, ReadOnly{});
        out[i] = (Real)(damping * load_native(sums + i, ReadOnly{}) + plus);
    }
}

}  // namespace cpms

#define CPMS_COO_PRODUCT(NAME, REAL)                                                                              \
    CPMS_KERNEL(256, 4) NAME(const unsigned* targets, const unsigned* sources, const REAL* values, const REAL* x, \
                             unsigned all_tiles, unsigned task_tiles, double* carry_out, REAL* sums) {            \
        cpms::coo_product(cpms::Coo<REAL>{targets, sources, values, x, carry_out, sums}, all_tiles, task_tiles);  \
    }
#define CPMS_COO_CARRY_OUT(NAME, REAL)                                                                           \
    CPMS_KERNEL(256) NAME(const double* carry_out, const unsigned* rows, const unsigned* begins, unsigned count, \
                          REAL* sums) {                                                                          \
        cpms::coo_carry_out(carry_out, rows, begins, count, sums);                                               \
    }
#define CPMS_COO_ATOMIC(NAME, REAL)                                                                             \
    CPMS_KERNEL(256) NAME(const unsigned* targets, const unsigned* sources, const REAL* values, unsigned edges, \
                          const REAL* x, REAL* sums) {                                                          \
        cpms::coo_atomic(targets, sources, values, edges, x, sums);                                             \
    }
#define CPMS_COO_EPILOGUE(NAME, REAL)                                                                          \
    CPMS_KERNEL(256) NAME(const REAL* sums, const double* dangling, const double* sink, unsigned sink_stride,  \
                          const double* teleport, unsigned teleport_stride, double damping, unsigned nodes,    \
                          REAL* out) {                                                                         \
        cpms::coo_epilogue(sums, dangling, sink, sink_stride, teleport, teleport_stride, damping, nodes, out); \
    }
