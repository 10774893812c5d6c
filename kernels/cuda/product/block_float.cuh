// Block floating point as a format of product/value.cuh: 32 values share an exponent (cpms/formats/block_float.py).
//
// Memory begins with the blocks' exponents, two to a word; past them each block has `Width` words, whose fields of a
// sign and a magnitude follow one another from the lowest bit on (FRSZ2's shape). A warp that reads 32 neighbouring
// values reads one exponent and Width words.
#pragma once
#include "product/value.cuh"

namespace cpms {

constexpr int least_exponent = -900;  // of a block

template <int Width>
struct BlockFloat {
    static constexpr u32 magnitude = Width == 32 ? 0x7FFFFFFFu : (1u << (Width - 1)) - 1;

    // Bytes of the exponents of n values: those of two blocks fill a word.
    static CPMS_DEVICE u64 words_at(u64 n) { return (n + 63) / 64 * 4; }

    // 2^(exponent - Width + 1), a normal number for exponents that a block has.
    static CPMS_DEVICE double unit(int exponent) { return power_of_two(exponent - Width + 1); }
};

struct BlockField {
    u32 field;
    int exponent;
};

template <int Width>
struct Decode<BlockFloat<Width>> {
    using F = BlockFloat<Width>;

    template <int R, class Policy>
    static CPMS_DEVICE BlockField raw(const u8* array, u64 i, u64 n, Policy policy) {
        const u64 block = i / 32;
        const u32 lane = (u32)(i % 32);
        const int exponent = (short)load_word((const u16*)array + block, ReadOnly{});
        const u32* const words = (const u32*)(array + F::words_at(n)) + block * Width;
        if constexpr (Width == 32) {
            return {load_word(words + lane, policy), exponent};
        } else if constexpr (Width == 16) {
            return {load_word((const u16*)words + lane, policy), exponent};
        } else {
            const u32 word = lane * Width / 32, shift = lane * Width % 32;
            const u32 low = load_word(words + word, ReadOnly{});
            const u32 high = load_word(words + (word + 1 < Width ? word + 1 : word), ReadOnly{});
            const u64 both = (u64)high << 32 | low;
            return {(u32)(both >> shift) & (2 * F::magnitude + 1), exponent};
        }
    }
    static CPMS_DEVICE double value(const u8*, BlockField raw) {
        const double size = (double)(raw.field & F::magnitude) * F::unit(raw.exponent);
        return raw.field & (F::magnitude + 1) ? -size : size;
    }
};

}  // namespace cpms
