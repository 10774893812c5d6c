// Conversion between float64 and storage formats: out of place for any format, in place for segments. In-place
// conversion needs no second array: a warp (`convert_tiles`) or a block (`convert_spans`) brings whole blocks of the
// format on chip before it writes any of them. Each reads and writes every value once.
#include "base/segmented_storage.cuh"
#include "base/warp.cuh"

namespace cpms {

// stored[i] = values[i] * 2^exponent in its first W segments; `length` is that of the stored array.
template <class F, int W>
CPMS_DEVICE void encode(const double* values, u8* stored, u64 count, u64 length, int exponent, u64 seed) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const double value = exponent == 0 ? values[i] : ldexp(values[i], exponent);
        store<F, W>(stored, i, length, value, seed);
    }
}

template <class F, int R>
CPMS_DEVICE void decode(const u8* stored, double* values, u64 count, u64 length, int exponent) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const double value = load<F, R>(stored, i, length, ReadOnly{});
        values[i] = exponent == 0 ? value : ldexp(value, exponent);
    }
}

// In-place conversion by warps: a warp reads a group of values completely before it writes any of them. `memory`
// holds `tiles` such groups and is aligned to 16 bytes; both directions access global memory by adjacent 16-byte
// words.
template <class F, bool ToSegments>
CPMS_DEVICE void convert_tiles(u64* memory, u64 tiles) {
    constexpr int run = 128 / F::widest;
    constexpr int tile_values = 32 * run;
    constexpr int run_stride = run + 2;  // a padding of two words avoids bank conflicts
    static_assert(F::template runs<run>(), "the format has no wide runs");
    alignas(16) __shared__ u64 staged[block_warps][32 * run_stride];
    u64* mine = staged[threadIdx.x / 32];
    const u32 lane = threadIdx.x % 32;
    const u64 warps = (u64)gridDim.x * block_warps;
    for (u64 tile = (u64)blockIdx.x * block_warps + threadIdx.x / 32; tile < tiles; tile += warps) {
        u64* base = memory + tile * tile_values;
        u64 bits[run];
        if constexpr (ToSegments) {
            Quad word[run / 2];
#pragma unroll
            for (int j = 0; j < run / 2; ++j) word[j] = ((const Quad*)base)[32 * j + lane];
#pragma unroll
            for (int j = 0; j < run / 2; ++j) {
                const u32 value = 2 * (32 * j + lane);
                *(Quad*)(mine + value / run * run_stride + value % run) = word[j];
            }
            __syncwarp();
#pragma unroll
            for (int j = 0; j < run; ++j) bits[j] = mine[lane * run_stride + j];
            F::template store_run_bits<F::segments, run>((u8*)base, lane * run, (u32)tile_values, bits);
        } else {
            F::template load_run_bits<F::segments, run, Default>((const u8*)base, lane * run, (u32)tile_values, bits);
#pragma unroll
            for (int j = 0; j < run; ++j) mine[lane * run_stride + j] = bits[j];
            __syncwarp();
#pragma unroll
            for (int j = 0; j < run / 2; ++j) {
                const u32 value = 2 * (32 * j + lane);
                ((Quad*)base)[32 * j + lane] = *(const Quad*)(mine + value / run * run_stride + value % run);
            }
        }
        __syncwarp();
    }
}

// In-place conversion by thread blocks, for any format whose blocks fit into shared memory: `span` values at a time,
// in whole blocks.
constexpr int most_staged = 4096;

template <class F, bool ToSegments>
CPMS_DEVICE void convert_spans(u64* memory, u64 length, u32 span) {
    __shared__ u64 staged[most_staged];
    u8* stored = (u8*)memory;
    for (u64 begin = (u64)blockIdx.x * span; begin < length; begin += (u64)gridDim.x * span) {
        const u32 count = length - begin < span ? (u32)(length - begin) : span;
        for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
            if constexpr (ToSegments) {
                staged[i] = memory[begin + i];
            } else {
                staged[i] = F::template load_bits<F::segments, Default>(stored, begin + i, length);
            }
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
            if constexpr (ToSegments) {
                F::template store_bits<F::segments>(stored, begin + i, length, staged[i]);
            } else {
                memory[begin + i] = staged[i];
            }
        }
        __syncthreads();
    }
}

}  // namespace cpms

#define CPMS_ENCODE(NAME, ...)                                                                      \
    CPMS_KERNEL(256, 4) NAME(const double* values, unsigned char* stored, unsigned long long count, \
                             unsigned long long length, int exponent, unsigned long long seed) {    \
        cpms::encode<__VA_ARGS__>(values, stored, count, length, exponent, seed);                   \
    }
#define CPMS_DECODE(NAME, ...)                                                                      \
    CPMS_KERNEL(256, 4) NAME(const unsigned char* stored, double* values, unsigned long long count, \
                             unsigned long long length, int exponent) {                             \
        cpms::decode<__VA_ARGS__>(stored, values, count, length, exponent);                         \
    }
#define CPMS_CONVERT_TILES(NAME, ...)                                                \
    CPMS_KERNEL(256, 4) NAME(unsigned long long* memory, unsigned long long tiles) { \
        cpms::convert_tiles<__VA_ARGS__>(memory, tiles);                             \
    }
#define CPMS_CONVERT_SPANS(NAME, ...)                                                                \
    CPMS_KERNEL(256, 4) NAME(unsigned long long* memory, unsigned long long length, unsigned span) { \
        cpms::convert_spans<__VA_ARGS__>(memory, length, span);                                      \
    }
