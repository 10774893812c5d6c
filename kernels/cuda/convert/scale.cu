// Multiplies a vector by a factor, in its first S segments, four values a thread at a time; `length` is a multiple of
// four. It costs one read and one write of these segments.
#include "base/segmented_storage.cuh"

namespace cpms {

template <class F, int S>
CPMS_DEVICE void scale(u8* x, u32 length, double factor, u64 seed) {
    constexpr int run_values = 4;
    const u32 threads = gridDim.x * blockDim.x;
    for (u32 run = blockIdx.x * blockDim.x + threadIdx.x; run < length / run_values; run += threads) {
        const u32 first = run * run_values;
        double value[run_values];
        load_run<F, S>(x, first, length, Default{}, value);
#pragma unroll
        for (int j = 0; j < run_values; ++j) value[j] *= factor;
        store_run<F, S>(x, first, length, value, seed);
    }
}

}  // namespace cpms

#define CPMS_SCALE(NAME, ...)                                                                             \
    CPMS_KERNEL(256, 4) NAME(unsigned char* x, unsigned length, double factor, unsigned long long seed) { \
        cpms::scale<__VA_ARGS__>(x, length, factor, seed);                                                \
    }
