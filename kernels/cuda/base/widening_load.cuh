// Widening loads.
#pragma once
#include "base/segmented_storage.cuh"
#include "base/tile_layout.cuh"

namespace cpms {

// How values of a format are gathered and summed.
template <class F>
struct Raw;

template <int Width>
struct WordOf {
    using Type = u32;
};
template <>
struct WordOf<16> {
    using Type = u16;
};
template <>
struct WordOf<8> {
    using Type = u8;
};

template <int E, int M, Rounding rounding>
struct Raw<Packed<E, M, rounding>> {
    static constexpr int width = 1 + E + M;
    using Word = typename WordOf<width>::Type;

    // The sign stays on top while the other bits move to where a float64 has them, unless conversions do it: sweeps of webs
    // wait for the unit that does all else with integers, and conversions have another.
    static constexpr u32 kept = 0x80000000u | ((1u << (20 + E)) - (1u << (20 - (M > 20 ? 20 : M))));
    static CPMS_DEVICE double value(u32 word) {
        if constexpr (in_half<E, M>) return doubled(of_half<0>(word << (16 - width)));
        const u32 high = (u32)((int)(word << (32 - width)) >> (11 - E)) & kept;
        const u32 low = M > 20 ? word << (52 - M) : 0;
        const double raw = value_of((u64)high << 32 | low);
        return E == 2 ? raw * 1024.0 : raw;
    }
    template <int Bytes>
    static CPMS_DEVICE double value(const Run<Bytes>& words, int k) {
        if constexpr (in_half<E, M> && Bytes == 2 * slots_each) {
            const u32 both = words.word[k / 2] << (16 - width);
            return doubled(k % 2 ? of_half<1>(both) : of_half<0>(both));
        }
        return value((u32)words.template field<Bytes * 8 / slots_each>(k));
    }
    static CPMS_DEVICE double unit() {
        if constexpr (in_half<E, M>) return 1.0;
        // Small enough to be multiplied by a power of two of a scale.
        constexpr u64 exponent = 1023 + 1023 - ((1 << (E - 1)) - 1) - (E == 2 ? 10 : 0);
        return value_of(exponent << 52);
    }
};

template <>
struct Raw<double> {
    using Word = double;

    static CPMS_DEVICE double value(double word) { return word; }
    template <int Bytes>
    static CPMS_DEVICE double value(const Run<Bytes>& words, int k) {
        return value_of(words.template field<64>(k));
    }
    static CPMS_DEVICE double unit() { return 1.0; }
};

}  // namespace cpms
