// The product as one reduce-by-key over the list of edges: gather from the sources, transform by the share, add up
// what has the same target; blocks by CUB. Then dangling mass and the residual, as reductions.
#include "spmv/coo.cuh"
#include "base/cub.cuh"
#include "spmv/vector_sums.cuh"

namespace cpms {

constexpr int key_edges = slots_each;
constexpr int tile_edges = block_threads * key_edges;

// What is open at the end of a stretch, and whether a key ended in it.
struct Open {
    double sum;
    u32 ended;
};

struct Append {
    CPMS_DEVICE Open operator()(const Open& a, const Open& b) const {
        return Open{b.ended ? b.sum : a.sum + b.sum, a.ended | b.ended};
    }
};

// A block a tile. Lanes read and gather edges side by side; then each thread has edges that follow one another.
template <class Real>
CPMS_DEVICE void reduce_by_key(const Coo<Real>& coo) {
    using Exchange = cub::BlockExchange<double, block_threads, key_edges>;
    using Scan = cub::BlockScan<Open, block_threads, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ union {
        typename Exchange::TempStorage exchange;
        typename Scan::TempStorage scan;
    } room;
    const u32 tile = blockIdx.x, lane = threadIdx.x % 32;
    const u64 begin = (u64)tile * tile_edges, of_warp = begin + (threadIdx.x - lane) * key_edges + lane;
    u32 source[key_edges];
    double share[key_edges], term[key_edges];
#pragma unroll
    for (int k = 0; k < key_edges; ++k) source[k] = load_word(coo.sources + of_warp + 32 * k, LastUse{});
#pragma unroll
    for (int k = 0; k < key_edges; ++k) share[k] = load_plain(coo.values + of_warp + 32 * k, LastUse{});
#pragma unroll
    for (int k = 0; k < key_edges; ++k) term[k] = load_plain(coo.x + source[k], ReadOnly{});
    const u64 mine = begin + threadIdx.x * key_edges;
    const auto key = load_run_bytes<4 * key_edges>((const u8*)(coo.targets + mine), ReadOnly{});
    // A tile's first key is not told from that of the tile before: its sum may be a piece.
    const u32 before = load_word(coo.targets + (threadIdx.x == 0 ? mine : mine - 1), ReadOnly{});
#pragma unroll
    for (int k = 0; k < key_edges; ++k) share[k] *= term[k];
    Exchange(room.exchange).WarpStripedToBlocked(share, term);
    const Stretch found = add_rows(key.word, term, before, 0.0, coo.sums);
    __syncthreads();
    Open left, whole;
    const Open none{0.0, 0};
    Scan(room.scan).ExclusiveScan(Open{found.open, found.ended}, left, none, Append{}, whole);
    if (found.ended) {
        const double sum = left.sum + found.first;
        if (left.ended) {
            coo.sums[found.first_row] = (Real)sum;
        } else {
            coo.pieces[2 * (u64)tile] = sum;
        }
    }
    if (threadIdx.x == 0) coo.pieces[2 * (u64)tile + 1] = whole.sum;
}

struct Cub {
    template <class Some>
    static CPMS_DEVICE Some joined(const Some& mine) {
        using Reduce = cub::BlockReduce<Some, block_threads>;
        __shared__ typename Reduce::TempStorage room;
        const Some all = Reduce(room).Reduce(mine, Join{});
        __syncthreads();
        return all;
    }
};

}  // namespace cpms

#define CPMS_REDUCE_BY_KEY(NAME, REAL)                                                                    \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                  \
        NAME(const unsigned* targets, const unsigned* sources, const REAL* values, const REAL* x,         \
             double* pieces, REAL* sums) {                                                                \
        cpms::reduce_by_key(cpms::Coo<REAL>{targets, sources, values, x, pieces, sums});                  \
    }
#define CPMS_KEY_DANGLING(NAME, REAL) CPMS_DANGLING_MASS(NAME, cpms::Cub, REAL)
#define CPMS_KEY_DISTANCE(NAME, REAL) CPMS_DISTANCE(NAME, cpms::Cub, REAL)
