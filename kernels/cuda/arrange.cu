// Builds device layouts from a graph's rows: slots of balanced CSR, columns of ELL, edge values.
#include "memory.cuh"

namespace cpms {

// Edge k of row j goes to slot k + gaps[j]; gaps[j] counts the empty rows before j, a slot each.
CPMS_DEVICE void place_edges(const u32* starts, const u32* gaps, const u32* sources, const double* weights,
                             u32 rows, u32 edges, u32* out_sources, double* out_weights) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u64 k = blockIdx.x * blockDim.x + threadIdx.x; k < edges; k += threads) {
        u32 low = 0, high = rows;  // starts[low] <= k < starts[high]
        while (high - low > 1) {
            const u32 middle = low + (high - low) / 2;
            if (starts[middle] <= k) {
                low = middle;
            } else {
                high = middle;
            }
        }
        out_sources[k + gaps[low]] = sources[k];
        if (weights) out_weights[k + gaps[low]] = weights[k];
    }
}

// One bit a slot: set where a row ends. Bits are set once each, so their order does not matter.
CPMS_DEVICE void mark_ends(const u32* starts, const u32* gaps, u32 rows, u32* ends) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u64 row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += threads) {
        const u32 slot = starts[row + 1] + gaps[row + 1] - 1;
        atomicOr(ends + slot / 32, 1u << (slot % 32));
    }
}

// Entry c of row j goes to c * length + j; everything else is `nowhere`, with weight 0.
CPMS_DEVICE void place_columns(const u32* starts, const u32* sources, const double* weights, u32 rows,
                               u32 width, u32 length, u32 nowhere, u32* out_sources, double* out_weights) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= length) return;
    const u32 begin = row < rows ? starts[row] : 0;
    const u32 count = row < rows ? starts[row + 1] - begin : 0;
    for (u32 c = 0; c < width; ++c) {
        const u64 at = (u64)c * length + row;
        out_sources[at] = c < count ? sources[begin + c] : nowhere;
        if (weights) out_weights[at] = c < count ? weights[begin + c] : 0.0;
    }
}

// values[k] = share of its source, times the weight already there; `shares` is 0 behind the rows.
CPMS_DEVICE void fill_values(const u32* sources, const double* shares, u64 entries, bool weighted, double* values) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 k = (u64)blockIdx.x * blockDim.x + threadIdx.x; k < entries; k += threads) {
        const double share = shares[sources[k]];
        values[k] = weighted ? share * values[k] : share;
    }
}

}  // namespace cpms

#define CPMS_PLACE_EDGES(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* starts, const unsigned* gaps, const unsigned* sources,                   \
             const double* weights, unsigned rows, unsigned edges, unsigned* out_sources,             \
             double* out_weights) {                                                                   \
        cpms::place_edges(starts, gaps, sources, weights, rows, edges, out_sources, out_weights);     \
    }
#define CPMS_MARK_ENDS(NAME)                                                                          \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* starts, const unsigned* gaps, unsigned rows, unsigned* ends) {           \
        cpms::mark_ends(starts, gaps, rows, ends);                                                    \
    }
#define CPMS_PLACE_COLUMNS(NAME)                                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* starts, const unsigned* sources, const double* weights, unsigned rows,   \
             unsigned width, unsigned length, unsigned nowhere, unsigned* out_sources,                \
             double* out_weights) {                                                                   \
        cpms::place_columns(starts, sources, weights, rows, width, length, nowhere, out_sources,      \
                            out_weights);                                                             \
    }
#define CPMS_FILL_VALUES(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* sources, const double* shares, unsigned long long entries,               \
             unsigned weighted, double* values) {                                                     \
        cpms::fill_values(sources, shares, entries, weighted != 0, values);                           \
    }
