// Packed floats as float32, some side by side.
#pragma once
#include "base/quantiser.cuh"

namespace cpms {

// How a number is gathered and summed: values as stored, without a scale.
template <class F>
struct Narrow;
template <>
struct Narrow<double> {
    using Sum = double;
    static constexpr int width = 64;

    template <int Each>
    static CPMS_DEVICE void values(const Run<8 * Each>& run, double (&value)[Each]) {
#pragma unroll
        for (int k = 0; k < Each; ++k) value[k] = value_of(run.template field<64>(k));
    }
};
template <int E, int M, Rounding rounding>
struct Narrow<Packed<E, M, rounding>> {
    using Sum = float;
    static constexpr int width = 1 + E + M;
    static_assert(E <= 8, "float32 has no room for the exponent");

    static CPMS_DEVICE float value(u32 bits) {
        if constexpr (in_half<E, M>) return of_half<0>(bits << (16 - width));
        return E == 8 ? single_of(bits << (32 - width)) : (float)unpack<E, M>(bits);
    }

    template <int Each>
    static CPMS_DEVICE void values(const Run<Each * width / 8>& run, float (&value)[Each]) {
#if defined(__CUDA_ARCH__)
        if constexpr (in_half<E, M>) {  // by pairs
#pragma unroll
            for (int k = 0; k < Each; k += 2) {
                const u32 halves =
                    width == 16 ? run.word[k / 2] : __byte_perm(run.word[k / 4], 0, k % 4 ? 0x3424 : 0x1404);
                value[k] = of_half<0>(halves);
                if (k + 1 < Each) value[k + 1] = of_half<1>(halves);
            }
        } else
#endif
        {
#pragma unroll
            for (int k = 0; k < Each; ++k) value[k] = Narrow::value((u32)run.template field<width>(k));
        }
    }

    // Rounds as `Quantiser` does.
    template <int Each>
    static CPMS_DEVICE Run<Each * width / 8> stored(const float (&value)[Each]) {
        using Store = Quantiser<E, M, rounding>;
        Run<Each * width / 8> run{};
#if defined(__CUDA_ARCH__)
        if constexpr (Store::by_pairs && Each > 1) {
#pragma unroll
            for (int k = 0; k < Each; k += 2) {
                run.word[k * width / 32] |= Store::pair(value[k], value[k + 1]) << k * width % 32;
            }
        } else
#endif
        {
#pragma unroll
            for (int k = 0; k < Each; ++k) run.template put<width>(k, Store::by_single(value[k]));
        }
        return run;
    }
};

// Some float64 values side by side.
template <int Count>
struct Doubles {
    double of[Count];

    Doubles() = default;
    CPMS_DEVICE explicit Doubles(const double* at) {
        Narrow<double>::values<Count>(load_run_bytes<8 * Count>((const u8*)at, Default{}), of);
    }
    CPMS_DEVICE void store(double* at) const {
        Run<8 * Count> run{};
#pragma unroll
        for (int k = 0; k < Count; ++k) run.template put<64>(k, bits_of(of[k]));
        store_run_bytes<8 * Count>((u8*)at, run);
    }
};

}  // namespace cpms
