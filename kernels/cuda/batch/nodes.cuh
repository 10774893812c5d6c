// Nodes of a batch: what is known of them, and numbers of all queries, which lie side by side.
#pragma once
#include "base/stores.cuh"
#include "batch/batch.cuh"

namespace cpms {

struct BatchNodes {
    const u32* degree;  // out-degree, 0 for dangling nodes; `own_bit` is set where teleport brings a node something
    const u32* kept;    // how many of a node's edges stay among the nodes: what the others carry is lost, as on dangling ones
    BatchOwn own;
    u32 count;
    u32 idle;  // degree by which what dangling nodes keep is stored: nobody gathers it, and it goes with the others
    Columns columns;

    CPMS_DEVICE double inverse(u32 of) const { return of ? reciprocal(of) : 1.0; }
    CPMS_DEVICE u32 stored_by(u32 degree) const { return degree ? degree : idle; }
};

constexpr u32 own_bit = 0x80000000u;

// What a row's end needs besides its sum and its queries' numbers.
struct RowOf {
    u32 word, kept;
    CPMS_DEVICE RowOf(const BatchNodes& nodes, u32 row)
        : word(load_word(nodes.degree + row, ReadOnly{})), kept(load_word(nodes.kept + row, ReadOnly{})) {}
    CPMS_DEVICE u32 degree() const { return word & ~own_bit; }
    CPMS_DEVICE bool has_own() const { return word & own_bit; }
    // Shares of the node that are lost.
    CPMS_DEVICE u32 lost() const { return degree() ? degree() - kept : 1u; }
};

template <int Each, class Policy = Default>
CPMS_DEVICE Run<4 * Each> load_singles(const float* numbers, u32 row, const Lane<Each>& mine, Policy policy = {}) {
    return load_run_bytes<4 * Each>(mine.template at<4>((const u8*)numbers, row), policy);
}

template <int Each>
CPMS_DEVICE void store_singles(float* numbers, u32 row, const Lane<Each>& mine, const float (&values)[Each]) {
    Run<4 * Each> run{};
#pragma unroll
    for (int k = 0; k < Each; ++k) run.template put<32>(k, bits_of_single(values[k]));
    store_run_bytes(mine.template at<4>((u8*)numbers, row), run, Streaming{});
}

template <int Each>
CPMS_DEVICE Run<8 * Each> load_doubles(const double* numbers, u32 row, const Lane<Each>& mine) {
    return load_run_bytes<8 * Each>(mine.template at<8>((const u8*)numbers, row), ReadOnly{});
}

// Calls work(row, lane) for all rows, a warp a row, and leaves what it adds up.
template <int Each, int Count, int Sums, class Work>
CPMS_DEVICE void each_row(const BatchNodes& nodes, double* partials, Work work) {
    const Lane<Each> mine(nodes.columns);
    BatchTotals<Each, Count, Sums> totals;
    const u32 warps = gridDim.x * resident_warps;
#pragma unroll 2
    for (u32 row = blockIdx.x * resident_warps + threadIdx.x / 32; row < nodes.count; row += warps) {
        work(row, mine, totals);
    }
    totals.leave(partials, nodes.columns);
}

}  // namespace cpms

#define CPMS_BATCH_NODES                                                                              \
    const unsigned *degree, const unsigned *kept, const unsigned *own_starts, const unsigned *own_column, \
        const double *own_weight, unsigned own_first, unsigned count, unsigned idle, unsigned stride, unsigned used
#define CPMS_BATCH_NODES_GIVEN                                                                        \
    cpms::BatchNodes {                                                                                \
        degree, kept, cpms::BatchOwn{own_starts, own_column, own_weight, own_first}, count, idle,     \
            cpms::Columns { stride, used }                                                            \
    }
