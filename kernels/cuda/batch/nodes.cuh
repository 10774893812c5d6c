// Per-node data of a batch, and loops over nodes with all queries of a node adjacent.
#pragma once
#include "base/stores.cuh"
#include "batch/batch.cuh"

namespace cpms {

struct BatchNodes {
    const u32* degree;  // out-degree, 0 for dangling nodes; `teleport_bit` is set where teleport reaches the node
    // Out-edges within the swept nodes; the flow of the others is lost, as on dangling nodes.
    const u32* internal_degree;
    TeleportEntries teleport;
    u32 count;
    u32 dangling_degree;  // divisor of dangling nodes' stored values, which no edge reads but the scale must cover
    Columns columns;

    CPMS_DEVICE double inverse(u32 degree) const { return degree ? reciprocal(degree) : 1.0; }
    CPMS_DEVICE u32 storage_degree(u32 degree) const { return degree ? degree : dangling_degree; }
};

constexpr u32 teleport_bit = 0x80000000u;

// A row's operands beside its sum and its queries' numbers.
struct NodeWord {
    u32 word, internal_degree;
    CPMS_DEVICE NodeWord(const BatchNodes& nodes, u32 row)
        : word(load_word(nodes.degree + row, ReadOnly{})),
          internal_degree(load_word(nodes.internal_degree + row, ReadOnly{})) {}
    CPMS_DEVICE u32 degree() const { return word & ~teleport_bit; }
    CPMS_DEVICE bool has_teleport() const { return word & teleport_bit; }
    // The number of the node's contributions that are lost.
    CPMS_DEVICE u32 lost() const { return degree() ? degree() - internal_degree : 1u; }
};

template <int Each, class Policy = Default>
CPMS_DEVICE Run<4 * Each> load_singles(const float* numbers, u32 row, const LaneColumns<Each>& mine,
                                       Policy policy = {}) {
    return load_run_bytes<4 * Each>(mine.template at<4>((const u8*)numbers, row), policy);
}

template <int Each>
CPMS_DEVICE void store_singles(float* numbers, u32 row, const LaneColumns<Each>& mine, const float (&values)[Each]) {
    Run<4 * Each> run{};
#pragma unroll
    for (int k = 0; k < Each; ++k) run.template put<32>(k, bits_of_single(values[k]));
    store_run_bytes(mine.template at<4>((u8*)numbers, row), run, Streaming{});
}

template <int Each>
CPMS_DEVICE Run<8 * Each> load_doubles(const double* numbers, u32 row, const LaneColumns<Each>& mine) {
    return load_run_bytes<8 * Each>(mine.template at<8>((const u8*)numbers, row), ReadOnly{});
}

// Calls work(row, lane's columns, totals) for all rows, one warp a row, and publishes the totals.
template <int Each, int Count, int Sums, class Work>
CPMS_DEVICE void for_each_row(const BatchNodes& nodes, double* partials, Work work) {
    const LaneColumns<Each> mine(nodes.columns);
    BatchReduce<Each, Count, Sums> totals;
    const u32 warps = gridDim.x * persistent_warps;
#pragma unroll 2
    for (u32 row = blockIdx.x * persistent_warps + threadIdx.x / 32; row < nodes.count; row += warps) {
        work(row, mine, totals);
    }
    totals.publish(partials, nodes.columns);
}

}  // namespace cpms
