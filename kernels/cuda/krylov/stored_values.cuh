// Four values a lane of a stored vector, in two steps as those of product/value.cuh: `load` puts a vector's bytes into
// registers, `value` makes numbers of them, so that several vectors are on their way at once.
//
// A warp has 128 values. Arrays are padded with zeros to 256, so that no lane looks at the end. The values of a lane are
// 32 apart, which makes a block of block floats a row of lanes; where the segments of a value lie apart they are
// neighbours, so that a load has four of a segment.
#pragma once
#include "product/encode_block.cuh"

namespace cpms {

constexpr int warp_values = 128;

// Calls work(first) for the first of each 128 values; whole warps take part.
template <class Work>
CPMS_DEVICE void for_each_warp_values(u64 padded, Work work) {
    const u64 warps = (u64)gridDim.x * (blockDim.x / 32);
    for (u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32; warp * warp_values < padded; warp += warps) {
        work(warp * warp_values);
    }
}

// Formats of one segment.
template <class F, int R>
struct FourStored {
    using Number = decltype(Decode<F>::template raw<R>(nullptr, (u64)0, (u64)0, ReadOnly{}));
    Number raw[4];

    static CPMS_DEVICE u64 place(u64 first, int c) { return first + 32 * c + threadIdx.x % 32; }
    CPMS_DEVICE void load(const u8* array, u64 first, u64 padded) {
#pragma unroll
        for (int c = 0; c < 4; ++c) raw[c] = Decode<F>::template raw<R>(array, place(first, c), padded, ReadOnly{});
    }
    CPMS_DEVICE double value(int c) const { return number_of<F, double>(nullptr, raw[c]); }
    // The values become those that are stored.
    static CPMS_DEVICE void store(u8* array, u64 first, u64 padded, double (&v)[4]) {
#pragma unroll
        for (int c = 0; c < 4; ++c) v[c] = cpms::store<F, R>(array, place(first, c), padded, v[c], 0);
    }
};

template <u64 Block, Rounding rounding, int R, int First, int Second, int... More>
struct FourStored<Segments<Widths<First, Second, More...>, Block, rounding, true>, R> {
    using F = Segments<Widths<First, Second, More...>, Block, rounding, true>;
    static_assert(F::template runs<4>(), "four neighbours are no run");
    u64 bits[4];

    static CPMS_DEVICE u64 place(u64 first, int c) { return first + threadIdx.x % 32 * 4 + c; }
    CPMS_DEVICE void load(const u8* array, u64 first, u64 padded) {
        F::template load_run_bits<R, 4, ReadOnly>(array, place(first, 0), padded, bits);
    }
    CPMS_DEVICE double value(int c) const { return value_of(bits[c]); }
    static CPMS_DEVICE void store(u8* array, u64 first, u64 padded, double (&v)[4]) {
        u64 rounded[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            rounded[c] = F::template rounded<R>(bits_of(v[c]));
            v[c] = value_of(rounded[c]);
        }
        F::template store_run_bits<R, 4>(array, place(first, 0), padded, rounded);
    }
};

// Of numbers of sizes up to 1. With the magnitude m as the low bits of a number of exponent e, that number less the same
// one without m is m units exactly: one addition in place of a conversion, which has a quarter of its rate.
template <int Width>
struct FourStored<BlockFloat<Width>, 1> {
    using F = BlockFloat<Width>;
    static constexpr bool straddles = Width != 32 && Width != 16;
    u32 word[4][straddles ? 2 : 1];
    Pair exponents;

    static CPMS_DEVICE u64 place(u64 first, int c) { return first + 32 * c + threadIdx.x % 32; }
    CPMS_DEVICE void load(const u8* array, u64 first, u64 padded) {
        const u32 lane = threadIdx.x % 32;
        exponents = load_word((const Pair*)(array + first / 16), ReadOnly{});
        const u8* const words = array + F::words_at(padded) + first / 8 * Width;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const u8* const block = words + c * 4 * Width;
            if constexpr (Width == 16) {
                word[c][0] = load_word((const u16*)block + lane, ReadOnly{});
            } else {
                const u32 at = lane * Width / 32;
                word[c][0] = load_word((const u32*)block + at, ReadOnly{});
                if constexpr (straddles) {
                    word[c][1] = load_word((const u32*)block + (at + 1 < Width ? at + 1 : at), ReadOnly{});
                }
            }
        }
    }
    CPMS_DEVICE double value(int c) const {
        u32 field = word[c][0];
        if constexpr (straddles) {
            field = (u32)(((u64)word[c][1] << 32 | field) >> (threadIdx.x % 32 * Width % 32));
        }
        const u32 both = exponents.word[c / 2], exponent = c % 2 ? both >> 16 : both;
        const u32 high = (exponent << 20) + ((u32)(1023 + 52 - Width + 1) << 20) | (field << (32 - Width) & 0x80000000u);
        return value_of((u64)high << 32 | (field & F::magnitude)) - value_of((u64)high << 32);
    }
    static CPMS_DEVICE void store(u8* array, u64 first, u64 padded, double (&v)[4]) {
#pragma unroll
        for (int c = 0; c < 4; ++c) v[c] = store_block<Width>(array, first / 32 + c, padded, v[c], true);
    }
};

}  // namespace cpms
