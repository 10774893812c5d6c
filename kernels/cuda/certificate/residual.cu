// The residual G(x) - x of ranks in device memory, recomputed in float64 from the graph as it was given. A group of
// lanes sums a row with compensation (Ogita, Rump and Oishi, Accurate sum and dot product, 2005); rows of many edges
// are summed in pieces first. It shares nothing with the sweeps whose answers it measures but the headers of base, and
// costs about one product in float64. Sums have a fixed order, so equal ranks give equal bits. The kernels run in the
// order of this file: mass of x, scale to mass 1, pieces of long rows, rows, and the join of the blocks' norms.
#include "base/warp.cuh"

namespace cpms {

// A sum and what rounding lost of it (Knuth's TwoSum); their sum is nearly exact.
struct CompensatedSum {
    double head, tail;

    CPMS_DEVICE void add(double term, double lost = 0.0) {
        const double sum = head + term, part = sum - head;
        tail += ((head - (sum - part)) + (term - part)) + lost;
        head = sum;
    }
    CPMS_DEVICE double value() const { return head + tail; }
};

// Lane 0 of each group of `Lanes` adjacent lanes gets the group's sum.
template <int Lanes>
CPMS_DEVICE CompensatedSum group_sum(CompensatedSum sum) {
#pragma unroll
    for (int distance = Lanes / 2; distance > 0; distance /= 2) {
        const double head = __shfl_xor_sync(all_lanes, sum.head, distance);
        const double tail = __shfl_xor_sync(all_lanes, sum.tail, distance);
        sum.add(head, tail);
    }
    return sum;
}

// Thread 0 gets the block's sum. All threads must call it.
CPMS_DEVICE CompensatedSum block_sum(CompensatedSum sum) {
    __shared__ CompensatedSum of_warps[block_warps];
    sum = group_sum<32>(sum);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    for (int warp = 1; threadIdx.x == 0 && warp < block_warps; ++warp) {
        sum.add(of_warps[warp].head, of_warps[warp].tail);
    }
    return sum;
}

// Every thread gets the sum of `count` partial sums.
CPMS_DEVICE double sum_of_blocks(const double* partials, u32 count) {
    __shared__ double all;
    CompensatedSum sum{0.0, 0.0};
    for (u32 k = threadIdx.x; k < count; k += blockDim.x) sum.add(partials[2 * k], partials[2 * k + 1]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) all = sum.value();
    __syncthreads();
    return all;
}

CPMS_DEVICE void store_partial(const CompensatedSum& mine, double* partials) {
    const CompensatedSum sum = block_sum(mine);
    if (threadIdx.x != 0) return;
    partials[2 * blockIdx.x] = sum.head;
    partials[2 * blockIdx.x + 1] = sum.tail;
}

CPMS_KERNEL(256) certify_mass(const double* x, u32 nodes, double* partials) {
    CompensatedSum sum{0.0, 0.0};
    for_each_index(nodes, [&](u64 node) { sum.add(x[node]); });
    store_partial(sum, partials);
}

// Scales x to mass 1, unless its mass is far from 1 or no number, and divides it by out-degrees. `dangling` are the
// blocks' sums of x on dangling nodes; both sums are of as many blocks as this kernel has.
CPMS_KERNEL(256) certify_scale(double* x, const u32* degree, u32 nodes, const double* mass, double* contributions,
                               double* dangling) {
    const double total = sum_of_blocks(mass, gridDim.x), by = 0.5 < total && total < 2.0 ? total : 1.0;
    CompensatedSum sum{0.0, 0.0};
    for_each_index(nodes, [&](u64 node) {
        const double rank = x[node] / by;
        x[node] = rank;
        contributions[node] = degree[node] ? rank / degree[node] : 0.0;
        if (degree[node] == 0) sum.add(rank);
    });
    store_partial(sum, dangling);
}

// Lane 0 of each group gets the sum of the contributions (x / out-degree of their sources) of edges from begin to end.
template <int Lanes>
CPMS_DEVICE CompensatedSum edge_sum(const u32* sources, const double* contributions, u32 begin, u32 end) {
    CompensatedSum sum{0.0, 0.0};
#pragma unroll 4
    for (u64 k = (u64)begin + threadIdx.x % Lanes; k < end; k += Lanes) sum.add(contributions[sources[k]]);
    return group_sum<Lanes>(sum);
}

// Long rows in ascending order: pieces first_pieces[i] to first_pieces[i + 1] - 1 are of rows[i], and certify_pieces
// sums their edges.
struct LongRows {
    const u32 *rows, *first_pieces;
    u32 count, shortest;  // a row of `shortest` edges or more is long

    CPMS_DEVICE u32 index_of(u32 row) const {
        u32 low = 0, high = count;  // rows[low] <= row
        while (high - low > 1) {
            const u32 middle = low + (high - low) / 2;
            (rows[middle] <= row ? low : high) = middle;
        }
        return low;
    }
};

// found[0], which the host sets to 0, counts the rows of `shortest` edges or more; row, first edge and end of each
// follow, in any order.
CPMS_KERNEL(256) certify_long_rows(const u32* indptr, u32 rows, u32 shortest, u32* found) {
    for_each_index(rows, [&](u64 row) {
        const u32 begin = indptr[row], end = indptr[row + 1];
        if (end - begin < shortest) return;
        u32* at = found + 1 + 3 * atomicAdd(found, 1u);
        at[0] = (u32)row;
        at[1] = begin;
        at[2] = end;
    });
}

// Sums the edges begins[p] to ends[p] - 1 of each piece p. One warp a piece.
CPMS_KERNEL(256) certify_pieces(const u32* begins, const u32* ends, u32 pieces, const u32* sources,
                                const double* contributions, double* sums) {
    const u32 warps = gridDim.x * block_warps;
    for (u32 piece = (blockIdx.x * blockDim.x + threadIdx.x) / 32; piece < pieces; piece += warps) {
        const CompensatedSum sum = edge_sum<32>(sources, contributions, begins[piece], ends[piece]);
        if (threadIdx.x % 32 != 0) continue;
        sums[2 * piece] = sum.head;
        sums[2 * piece + 1] = sum.tail;
    }
}

struct CertifiedRows {
    const u32 *indptr, *sources;
    const double *sink, *teleport;  // one value, or one a row
    double damping;
    u32 nodes, sink_stride, teleport_stride;  // strides: 0 or 1
};

constexpr int squared_scale_exponent = 400;  // squares of changes down to 2^-911 are normal numbers, and sums finite

// Sums over rows: of |G(x) - x|, its squares times 2^(2 squared_scale_exponent), its maximum, and x.
struct ResidualNorms {
    static constexpr int words = 6;
    CompensatedSum l1{0.0, 0.0}, mass{0.0, 0.0};
    double squares = 0.0, largest = 0.0;

    CPMS_DEVICE void add(double change, double rank) {
        const double scaled = change * power_of_two(squared_scale_exponent);
        l1.add(change);
        mass.add(rank);
        squares += scaled * scaled;
        largest = Larger{}(largest, change);
    }
    CPMS_DEVICE void load(const double* word) {
        l1.add(word[0], word[1]);
        mass.add(word[2], word[3]);
        squares += word[4];
        largest = Larger{}(largest, word[5]);
    }
    CPMS_DEVICE void store(double* word) const {
        const double values[words] = {l1.head, l1.tail, mass.head, mass.tail, squares, largest};
        for (int w = 0; w < words; ++w) word[w] = values[w];
    }
    // Thread 0 gets the block's. All threads must call it.
    CPMS_DEVICE void reduce() {
        __shared__ double of_warps[2][block_warps];
        squares = warp_reduce(squares, Add{});
        largest = warp_reduce(largest, Larger{});
        if (threadIdx.x % 32 == 0) {
            of_warps[0][threadIdx.x / 32] = squares;
            of_warps[1][threadIdx.x / 32] = largest;
        }
        l1 = block_sum(l1);
        mass = block_sum(mass);
        for (int warp = 1; threadIdx.x == 0 && warp < block_warps; ++warp) {
            squares += of_warps[0][warp];
            largest = Larger{}(largest, of_warps[1][warp]);
        }
    }
};

// `Lanes` lanes a row.
template <int Lanes>
CPMS_DEVICE void residual_norms(const CertifiedRows& of, const LongRows& long_rows, const double* pieces,
                                const double* x, const double* contributions, const double* dangling, u32 blocks,
                                double* partials) {
    constexpr u32 rows_per_block = block_threads / Lanes;
    const double dangling_mass = sum_of_blocks(dangling, blocks);
    ResidualNorms norms;
    for (u64 first = (u64)blockIdx.x * rows_per_block; first < of.nodes; first += (u64)gridDim.x * rows_per_block) {
        const u64 row = first + threadIdx.x / Lanes;
        const bool is_row = row < of.nodes;
        const u32 begin = is_row ? of.indptr[row] : 0, end = is_row ? of.indptr[row + 1] : 0;
        const bool is_long = end - begin >= long_rows.shortest;
        CompensatedSum sum = edge_sum<Lanes>(of.sources, contributions, begin, is_long ? begin : end);
        if (!is_row || threadIdx.x % Lanes != 0) continue;
        if (is_long) {
            const u32 index = long_rows.index_of((u32)row);
            for (u32 p = long_rows.first_pieces[index]; p < long_rows.first_pieces[index + 1]; ++p) {
                sum.add(pieces[2 * p], pieces[2 * p + 1]);
            }
        }
        const double inflow = sum.value() + dangling_mass * of.sink[row * of.sink_stride];
        const double y = of.damping * inflow + (1.0 - of.damping) * of.teleport[row * of.teleport_stride];
        norms.add(fabs(y - x[row]), x[row]);
    }
    norms.reduce();
    if (threadIdx.x == 0) norms.store(partials + ResidualNorms::words * blockIdx.x);
}

// One block joins the blocks' norms: found are the mass of x before it was scaled, ||G(x) - x|| in L1, L2 and Linf, and
// the mass of x.
CPMS_KERNEL(256) certify_norms(const double* partials, u32 blocks, const double* mass, u32 mass_blocks, double* found) {
    const double before = sum_of_blocks(mass, mass_blocks);
    ResidualNorms norms;
    for (u32 block = threadIdx.x; block < blocks; block += blockDim.x) {
        norms.load(partials + ResidualNorms::words * block);
    }
    norms.reduce();
    if (threadIdx.x != 0) return;
    const double l2 = sqrt(norms.squares) * power_of_two(-squared_scale_exponent);
    const double all[5] = {before, norms.l1.value(), l2, norms.largest, norms.mass.value()};
    for (int word = 0; word < 5; ++word) found[word] = all[word];
}

}  // namespace cpms

#define CPMS_CERTIFY_ROWS(NAME, LANES)                                                                              \
    CPMS_KERNEL(256) NAME(cpms::CertifiedRows of, cpms::LongRows long_rows, const double* pieces, const double* x,  \
                          const double* contributions, const double* dangling, unsigned blocks, double* partials) { \
        cpms::residual_norms<LANES>(of, long_rows, pieces, x, contributions, dangling, blocks, partials);           \
    }
