// Conversion between float64 and block floating point; a warp a block of 32 values.
#include "base/warp.cuh"
#include "product/block_float.cuh"

namespace cpms {

template <int Width>
CPMS_DEVICE void encode_blocks(const double* values, u8* array, u64 n) {
    using F = BlockFloat<Width>;
    const u64 block = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (block * 32 >= n) return;  // the whole warp
    const u32 lane = threadIdx.x % 32;
    const u64 i = block * 32 + lane;
    const u64 bits = i < n ? load_word((const u64*)values + i, Streaming{}) : 0;
    const u64 size = bits & 0x7FFFFFFFFFFFFFFFull;
    const double largest = warp_reduce(value_of(size), Larger{});
    const int found = (int)(bits_of(largest) >> 52) - 1022;
    const int exponent = found < -900 ? -900 : found;
    // Exact but for what rounds to 0 anyway; ties to even, as the default rounding has them.
    const double steps = rint(value_of(size) * value_of((u64)(1023 + Width - 1 - exponent) << 52));
    const u32 count = steps > (double)F::magnitude ? F::magnitude : (u32)steps;
    const u32 field = (bits >> 63 ? F::magnitude + 1 : 0) | count;
    if (lane == 0) ((u16*)array)[block] = (u16)(short)exponent;
    u32* const words = (u32*)(array + F::words_at(n)) + block * Width;
    if constexpr (Width == 32) {
        words[lane] = field;
    } else if constexpr (Width == 16) {
        ((u16*)words)[lane] = (u16)field;
    } else {
        // Word `lane` has parts of up to three fields.
        const int first = 32 * (int)lane / Width;
        u32 word = 0;
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            const int other = first + c, at = other * Width - 32 * (int)lane;
            const u32 its = __shfl_sync(all_lanes, field, other < 32 ? other : 31);
            if (other < 32 && at < 32) word |= at >= 0 ? its << at : its >> -at;
        }
        if (lane < Width) words[lane] = word;
    }
}

template <int Width>
CPMS_DEVICE void decode_blocks(const u8* array, double* values, u64 n) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = number<BlockFloat<Width>, 1, double>(array, i, n, Streaming{});
}

}  // namespace cpms

#define CPMS_ENCODE_BLOCKS(NAME, ...)                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                        \
        NAME(const double* values, unsigned char* array, unsigned long long n) {             \
        cpms::encode_blocks<__VA_ARGS__>(values, array, n);                                  \
    }
#define CPMS_DECODE_BLOCKS(NAME, ...)                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                        \
        NAME(const unsigned char* array, double* values, unsigned long long n) {             \
        cpms::decode_blocks<__VA_ARGS__>(array, values, n);                                  \
    }
