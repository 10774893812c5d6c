// Conversion between float64 and block floating point; a warp a block of 32 values.
#include "product/encode_block.cuh"

namespace cpms {

template <int Width>
CPMS_DEVICE void encode_blocks(const double* values, u8* array, u64 n) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i / 32 * 32 >= n) return;  // the whole warp
    const u64 bits = i < n ? load_word((const u64*)values + i, Streaming{}) : 0;
    store_block<Width>(array, i / 32, n, value_of(bits), i < n);
}

template <int Width>
CPMS_DEVICE void decode_blocks(const u8* array, double* values, u64 n) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = number<BlockFloat<Width>, 1, double>(array, i, n, Streaming{});
}

}  // namespace cpms

#define CPMS_ENCODE_BLOCKS(NAME, ...)                                                         \
    CPMS_KERNEL(256) NAME(const double* values, unsigned char* array, unsigned long long n) { \
        cpms::encode_blocks<__VA_ARGS__>(values, array, n);                                   \
    }
#define CPMS_DECODE_BLOCKS(NAME, ...)                                                         \
    CPMS_KERNEL(256) NAME(const unsigned char* array, double* values, unsigned long long n) { \
        cpms::decode_blocks<__VA_ARGS__>(array, values, n);                                   \
    }
