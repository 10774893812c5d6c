// State that the kernels of a batch's inner sweeps share, in arrays over queries.
#pragma once
#include "batch/nodes.cuh"
#include "pagerank/anderson.cuh"

namespace cpms {

// A query's limits of its inner sweeps, one row of all queries each: the ||r||_1 at which they end, infinity once they
// have; the number of sweeps left; and whether acceleration is worthwhile.
struct BatchLimits {
    double* numbers;
    u32 stride;

    CPMS_DEVICE double& tolerance(u32 column) const { return numbers[column]; }
    CPMS_DEVICE double& sweeps_left(u32 column) const { return numbers[stride + column]; }
    CPMS_DEVICE double& accelerates(u32 column) const { return numbers[2 * stride + column]; }
    CPMS_DEVICE bool has_ended(u32 column) const { return !(tolerance(column) < infinity()); }
    CPMS_DEVICE bool combines(u32 column) const { return !has_ended(column) && accelerates(column) > 0.0; }
    // Whether the sweeps of all queries of a launch have ended. All threads of a block take part.
    CPMS_DEVICE bool all_ended(const Columns& columns) const {
        return !__syncthreads_or(threadIdx.x < columns.used && !has_ended(threadIdx.x));
    }
};

// A query's options of an inner sweep, one row of all queries each: factor of sums, inflow of all nodes, total of
// teleport, scale of the stored values, and its inverse.
enum InnerOption { inner_factor, inner_uniform, inner_teleport, inner_scale, inner_unscale, inner_options };

// Sets the factor of a query's next inner sweep and the mass that it distributes.
CPMS_DEVICE void set_inner_options(float* options, u32 stride, u32 column, double factor, double mass, double spread) {
    options[inner_factor * stride + column] = (float)factor;
    options[inner_uniform * stride + column] = (float)(mass * spread);
    options[inner_teleport * stride + column] = spread > 0.0 ? 0.0f : (float)mass;
}

// The exponent of a scale within float32's range, with its inverse.
CPMS_DEVICE int float_exponent(int top, double largest) {
    const int exponent = shared_exponent(true, top, largest);
    return exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
}

// Of each query's history vectors: inverse scale, mass to distribute, largest value.
struct BatchHistory {
    double* numbers;
    u32 stride;

    CPMS_DEVICE double& unscale(u32 place, u32 column) const { return numbers[place * stride + column]; }
    CPMS_DEVICE double& mass(u32 place, u32 column) const { return unscale(history_length + place, column); }
    CPMS_DEVICE double& largest(u32 place, u32 column) const { return unscale(2 * history_length + place, column); }
};

}  // namespace cpms
