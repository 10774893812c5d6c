// Values of nodes as shares of places, x / out-degree or x itself on dangling nodes, and back.
#include "base/loads.cuh"

namespace cpms {

struct Places {
    const u32* order;   // the node in each place, null where that is its own
    const u32* degree;  // out-degree of the node in each place
    u32 count;

    CPMS_DEVICE u32 node(u32 place) const { return order ? load_word(order + place, ReadOnly{}) : place; }
    CPMS_DEVICE double divisor(u32 place) const {
        const u32 out = load_word(degree + place, ReadOnly{});
        return out ? (double)out : 1.0;
    }
};

CPMS_DEVICE void to_shares(const Places& places, const double* values, double* shares) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < places.count; i += threads) {
        shares[i] = values[places.node(i)] / places.divisor(i);
    }
}

CPMS_DEVICE void from_shares(const Places& places, const double* shares, double* values) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < places.count; i += threads) {
        values[places.node(i)] = shares[i] * places.divisor(i);
    }
}

}  // namespace cpms

#define CPMS_TO_SHARES(NAME)                                                                          \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* order, const unsigned* degree, unsigned count, const double* values,     \
             double* shares) {                                                                        \
        cpms::to_shares(cpms::Places{order, degree, count}, values, shares);                          \
    }
#define CPMS_FROM_SHARES(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* order, const unsigned* degree, unsigned count, const double* shares,     \
             double* values) {                                                                        \
        cpms::from_shares(cpms::Places{order, degree, count}, shares, values);                        \
    }
