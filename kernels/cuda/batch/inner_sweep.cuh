// What low sweeps of a batch tell each other of its queries.
#pragma once
#include "batch/nodes.cuh"
#include "pagerank/anderson.cuh"

namespace cpms {

// `until` of queries whose low sweeps have ended: infinite.
CPMS_DEVICE double finished_mark() { return value_of(0x7FF0000000000000ull); }

// Whether all queries of a launch rest; all threads of a block ask.
CPMS_DEVICE bool all_finished(const double* tolerance, const Columns& columns) {
    return !__syncthreads_or(threadIdx.x < columns.used && tolerance[threadIdx.x] < finished_mark());
}

// What a query asks of a low sweep, in rows of all queries: what sums are multiplied by, what all nodes get, what
// teleport brings in all, scale of what is written, one over it.
enum InnerOption { inner_factor, inner_uniform, inner_teleport, inner_scale, inner_unscale, inner_options };

// What the next low sweep of a query multiplies sums by, and the mass that it spreads.
CPMS_DEVICE void set_inner_options(float* options, u32 stride, u32 column, double factor, double mass, double spread) {
    options[inner_factor * stride + column] = (float)factor;
    options[inner_uniform * stride + column] = (float)(mass * spread);
    options[inner_teleport * stride + column] = spread > 0.0 ? 0.0f : (float)mass;
}

// A power of two that float32 has, with its inverse.
CPMS_DEVICE int float_exponent(int top, double largest) {
    const int exponent = shared_exponent(true, top, largest);
    return exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
}

// What is known of the z that are kept, of each query: one over the scale, the mass that is spread, the largest.
struct BatchHistory {
    double* numbers;
    u32 stride;

    CPMS_DEVICE double& unscale(u32 place, u32 column) const { return numbers[place * stride + column]; }
    CPMS_DEVICE double& mass(u32 place, u32 column) const { return unscale(history_length + place, column); }
    CPMS_DEVICE double& largest(u32 place, u32 column) const { return unscale(2 * history_length + place, column); }
};

}  // namespace cpms
