// Widening loads: the word of a packed float becomes the bits of a float64 by shifts and a mask, by one conversion for
// formats that are prefixes of a half, and by one more multiplication for 2 exponent bits.
//
// The result is the real value times a power of two that depends on the format, 1 / WideningLoad::unit. A sweep
// multiplies the sum of a row by that unit once, so that no value needs an exponent correction of its own. Sums of such
// values are exact as long as they need at most 53 bits.
#pragma once
#include "base/segmented_storage.cuh"
#include "base/tile_layout.cuh"

namespace cpms {

// The word of a storage format and its widening to float64.
template <class F>
struct WideningLoad;

template <int E, int M, Rounding rounding>
struct WideningLoad<PackedFloat<E, M, rounding>> {
    static constexpr int width = 1 + E + M;
    using Word = typename WordOf<width>::Type;

    // The sign stays on top and the other bits move to their place in a float64. Formats that are prefixes of a half
    // take the conversion instruction instead: sweeps over web graphs are limited by the integer pipeline, and
    // conversions have another.
    static constexpr u32 field_mask = 0x80000000u | ((1u << (20 + E)) - (1u << (20 - (M > 20 ? 20 : M))));
    static CPMS_DEVICE double value(u32 word) {
        if constexpr (is_half_prefix<E, M>) return to_double(half_to_float<0>(word << (16 - width)));
        const u32 high = (u32)((int)(word << (32 - width)) >> (11 - E)) & field_mask;
        const u32 low = M > 20 ? word << (52 - M) : 0;
        const double widened = value_of((u64)high << 32 | low);
        return E == 2 ? widened * 1024.0 : widened;
    }
    template <int Bytes>
    static CPMS_DEVICE double value(const Run<Bytes>& words, int k) {
        if constexpr (is_half_prefix<E, M> && Bytes == 2 * lane_entries) {
            const u32 both = words.word[k / 2] << (16 - width);
            return to_double(k % 2 ? half_to_float<1>(both) : half_to_float<0>(both));
        }
        return value((u32)words.template field<Bytes * 8 / lane_entries>(k));
    }
    static CPMS_DEVICE double unit() {
        if constexpr (is_half_prefix<E, M>) return 1.0;
        // With 2 exponent bits the unit would be 2^1022, whose product with a scale's power of two can overflow; values
        // are therefore multiplied by 2^10, and the unit is 2^1012.
        constexpr u64 exponent = 1023 + 1023 - ((1 << (E - 1)) - 1) - (E == 2 ? 10 : 0);
        return value_of(exponent << 52);
    }
};

template <>
struct WideningLoad<double> {
    using Word = double;

    static CPMS_DEVICE double value(double word) { return word; }
    template <int Bytes>
    static CPMS_DEVICE double value(const Run<Bytes>& words, int k) {
        return value_of(words.template field<64>(k));
    }
    static CPMS_DEVICE double unit() { return 1.0; }
};

}  // namespace cpms
