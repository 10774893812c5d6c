// Accessor of a stored vector, four values a lane, in two steps like those of product/value.cuh: `load` brings bytes of
// a vector into registers, and `values` decodes them. So loads of several vectors are in flight at once.
//
// A warp has 128 values. A lane has four neighbouring ones where one load brings them all: in block floats, whose
// exponent they then share, and in formats of several segments. Otherwise the values of a lane are 32 apart. Arrays are
// padded with zeros to a multiple of 256, so no lane tests for the end. Loaded bytes remain packed in registers until
// they are decoded: with one register a value, formats of few bits would have too few bytes in flight.
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

struct Neighbours {
    static CPMS_DEVICE u64 place(u64 first, int c) { return first + threadIdx.x % 32 * 4 + c; }
};
struct WarpApart {
    static CPMS_DEVICE u64 place(u64 first, int c) { return first + 32 * c + threadIdx.x % 32; }
};

// Formats of one segment.
template <class F, int R>
struct FourStored : WarpApart {
    using Writer = WarpApart;
    using Number = decltype(Decode<F>::template raw<R>(nullptr, (u64)0, (u64)0, ReadOnly{}));
    Number raw[4];

    CPMS_DEVICE void load(const u8* array, u64 first, u64 padded) {
#pragma unroll
        for (int c = 0; c < 4; ++c) raw[c] = Decode<F>::template raw<R>(array, place(first, c), padded, ReadOnly{});
    }
    CPMS_DEVICE void values(double (&v)[4]) const {
#pragma unroll
        for (int c = 0; c < 4; ++c) v[c] = number_of<F, double>(nullptr, raw[c]);
    }
    // Values are replaced by their stored ones.
    static CPMS_DEVICE void store(u8* array, u64 first, u64 padded, double (&v)[4]) {
#pragma unroll
        for (int c = 0; c < 4; ++c) v[c] = cpms::store<F, R>(array, place(first, c), padded, v[c], 0);
    }
};

template <u64 Block, Rounding rounding, int R, int First, int Second, int... More>
struct FourStored<Segments<Widths<First, Second, More...>, Block, rounding, true>, R> : Neighbours {
    using F = Segments<Widths<First, Second, More...>, Block, rounding, true>;
    using Writer = Neighbours;
    static_assert(F::template runs<4>(), "four neighbours are no run");
    u32 word[Widths<First, Second, More...>::before(R) / 8];  // four values of each segment after the other

    CPMS_DEVICE void load(const u8* array, u64 first, u64 padded) { load_segments<0>(array, place(first, 0), padded); }
    CPMS_DEVICE void values(double (&v)[4]) const {
        u64 bits[4] = {};
        add_segments<0>(bits);
#pragma unroll
        for (int c = 0; c < 4; ++c) v[c] = value_of(bits[c]);
    }
    static CPMS_DEVICE void store(u8* array, u64 first, u64 padded, double (&v)[4]) {
        u64 rounded[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            rounded[c] = F::template rounded<R>(bits_of(v[c]));
            v[c] = value_of(rounded[c]);
        }
        F::template store_run_bits<R, 4>(array, place(first, 0), padded, rounded);
    }

  private:
    template <int K>
    CPMS_DEVICE void load_segments(const u8* array, u64 i, u64 padded) {
        using S = typename F::template Segment<K>;
        const auto run = load_run_bytes<S::width / 2>(array + F::template offset<K>(i, padded), ReadOnly{});
#pragma unroll
        for (int q = 0; q < S::width / 8; ++q) word[S::before_bytes + q] = run.word[q];
        if constexpr (K + 1 < R) load_segments<K + 1>(array, i, padded);
    }
    template <int K>
    CPMS_DEVICE void add_segments(u64 (&bits)[4]) const {
        using S = typename F::template Segment<K>;
        Run<S::width / 2> run;
#pragma unroll
        for (int q = 0; q < S::width / 8; ++q) run.word[q] = word[S::before_bytes + q];
#pragma unroll
        for (int c = 0; c < 4; ++c) bits[c] |= run.template field<S::width>(c) << S::shift;
        if constexpr (K + 1 < R) add_segments<K + 1>(bits);
    }
};

// Block floats of absolute values up to 1, as those of unit vectors are. Let a float64 have the magnitude m as its low
// bits. Minus the same number without m, it is exactly m units of the block: a subtraction decodes m, and is faster
// than a conversion of integers.
template <int Width>
struct FourStored<BlockFloat<Width>, 1> : Neighbours {
    using F = BlockFloat<Width>;
    using Writer = WarpApart;
    static constexpr int words = (4 * Width + 31) / 32;
    static constexpr bool aligned = 4 * Width % 32 == 0;
    u32 word[aligned ? words : words + 1];
    u32 exponent;  // without its upper bits, which the shift in `values` would push out

    static CPMS_DEVICE u32 first_bit() { return threadIdx.x % 8 * (4 * Width); }

    CPMS_DEVICE void load(const u8* array, u64 first, u64 padded) {
        const u64 block = first / 32 + threadIdx.x % 32 / 8;
        exponent = load_word((const u16*)array + block, ReadOnly{});
        const u32* const from = (const u32*)(array + F::words_at(padded)) + block * Width + first_bit() / 32;
        if constexpr (aligned) {
            const auto run = load_run_bytes<4 * words>((const u8*)from, ReadOnly{});
#pragma unroll
            for (int k = 0; k < words; ++k) word[k] = run.word[k];
        } else {
#pragma unroll
            for (int k = 0; k < words; ++k) word[k] = load_word(from + k, ReadOnly{});
            const bool another = first_bit() / 32 + words < Width;  // else the last values end in a word before
            word[words] = load_word(from + (another ? words : 0), ReadOnly{});
        }
    }
    CPMS_DEVICE void values(double (&v)[4]) const {
        const u32 high = (exponent << 20) + ((u32)(1023 + 52 - Width + 1) << 20);
        const double origin = value_of((u64)high << 32);
        u32 at[words];
#pragma unroll
        for (int k = 0; k < words; ++k) at[k] = aligned ? word[k] : shifted(word[k], word[k + 1], first_bit() % 32);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            constexpr int last = words - 1;
            const int k = c * Width / 32;
            const u32 field = shifted(at[k], at[k < last ? k + 1 : last], c * Width % 32);
            const double size = value_of((u64)high << 32 | (field & F::magnitude)) - origin;
            v[c] = value_of(bits_of(size) ^ (u64)(field << (32 - Width) & 0x80000000u) << 32);
        }
    }
    static CPMS_DEVICE void store(u8* array, u64 first, u64 padded, double (&v)[4]) {
#pragma unroll
        for (int c = 0; c < 4; ++c) v[c] = store_block<Width>(array, first / 32 + c, padded, v[c], true);
    }

  private:
    static CPMS_DEVICE u32 shifted(u32 low, u32 high, u32 distance) {
        return (u32)(((u64)high << 32 | low) >> distance);
    }
};

}  // namespace cpms
