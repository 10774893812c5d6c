// What low sweeps of a batch tell each other of its queries.
#pragma once
#include "batch/nodes.cuh"
#include "pagerank/anderson.cuh"

namespace cpms {

// `until` of queries whose low sweeps have ended: infinite.
CPMS_DEVICE double at_rest() { return value_of(0x7FF0000000000000ull); }

// Whether all queries of a launch rest; all threads of a block ask.
CPMS_DEVICE bool all_rest(const double* until, const Columns& columns) {
    return !__syncthreads_or(threadIdx.x < columns.used && until[threadIdx.x] < at_rest());
}

// What a query asks of a low sweep, in rows of all queries: what sums are multiplied by, what all nodes get, what
// teleport brings in all, scale of what is written, one over it.
enum LowOption { low_factor, low_all_get, low_teleport, low_scale, low_back, low_options };

// What the next low sweep of a query multiplies sums by, and the mass that it spreads.
CPMS_DEVICE void send(float* options, u32 stride, u32 column, double factor, double mass, double spread) {
    options[low_factor * stride + column] = (float)factor;
    options[low_all_get * stride + column] = (float)(mass * spread);
    options[low_teleport * stride + column] = spread > 0.0 ? 0.0f : (float)mass;
}

// A power of two that float32 has, with its inverse.
CPMS_DEVICE int scale_of_singles(int top, double largest) {
    const int exponent = shared_scale(true, top, largest);
    return exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
}

// What is known of the z that are kept, of each query: one over the scale, the mass that is spread, the largest.
struct BatchPast {
    double* numbers;
    u32 stride;

    CPMS_DEVICE double& back(u32 slot, u32 column) const { return numbers[slot * stride + column]; }
    CPMS_DEVICE double& mass(u32 slot, u32 column) const { return back(kept_sweeps + slot, column); }
    CPMS_DEVICE double& largest(u32 slot, u32 column) const { return back(2 * kept_sweeps + slot, column); }
};

}  // namespace cpms
