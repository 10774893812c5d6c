// Packed floats widened to float32, several adjacent values at a time.
//
// Values keep the scale with which they were stored. Batches of queries and Anderson acceleration sum many short
// vectors: float32 halves their registers, and a format of at most 8 exponent bits fits into it exactly.
#pragma once
#include "base/quantiser.cuh"

namespace cpms {

// The accumulator of a storage format and the conversion of a run of values to it.
template <class F>
struct Float32View;
template <>
struct Float32View<double> {
    using Sum = double;
    static constexpr int width = 64;

    template <int Each>
    static CPMS_DEVICE void values(const Run<8 * Each>& run, double (&value)[Each]) {
#pragma unroll
        for (int k = 0; k < Each; ++k) value[k] = value_of(run.template field<64>(k));
    }
};
template <int E, int M, Rounding rounding>
struct Float32View<PackedFloat<E, M, rounding>> {
    using Sum = float;
    static constexpr int width = 1 + E + M;
    static_assert(E <= 8, "float32 has no room for the exponent");

    static CPMS_DEVICE float value(u32 bits) {
        if constexpr (is_half_prefix<E, M>) return half_to_float<0>(bits << (16 - width));
        return E == 8 ? single_of(bits << (32 - width)) : (float)unpack<E, M>(bits);
    }

    template <int Each>
    static CPMS_DEVICE void values(const Run<Each * width / 8>& run, float (&value)[Each]) {
#if defined(__CUDA_ARCH__)
        if constexpr (is_half_prefix<E, M>) {  // two values an instruction
#pragma unroll
            for (int k = 0; k < Each; k += 2) {
                const u32 halves =
                    width == 16 ? run.word[k / 2] : __byte_perm(run.word[k / 4], 0, k % 4 ? 0x3424 : 0x1404);
                value[k] = half_to_float<0>(halves);
                if (k + 1 < Each) value[k + 1] = half_to_float<1>(halves);
            }
        } else
#endif
        {
#pragma unroll
            for (int k = 0; k < Each; ++k) value[k] = Float32View::value((u32)run.template field<width>(k));
        }
    }

    // Rounds values as `Quantiser` does.
    template <int Each>
    static CPMS_DEVICE Run<Each * width / 8> stored(const float (&value)[Each]) {
        using Store = Quantiser<E, M, rounding>;
        Run<Each * width / 8> run{};
#if defined(__CUDA_ARCH__)
        if constexpr (Store::has_pair_instruction && Each > 1) {
#pragma unroll
            for (int k = 0; k < Each; k += 2) {
                run.word[k * width / 32] |= Store::pair(value[k], value[k + 1]) << k * width % 32;
            }
        } else
#endif
        {
#pragma unroll
            for (int k = 0; k < Each; ++k) run.template put<width>(k, Store::from_float(value[k]));
        }
        return run;
    }
};

// A run of adjacent float64 values.
template <int Count>
struct DoubleRun {
    double of[Count];

    DoubleRun() = default;
    CPMS_DEVICE explicit DoubleRun(const double* at) {
        Float32View<double>::values<Count>(load_run_bytes<8 * Count>((const u8*)at, Default{}), of);
    }
    CPMS_DEVICE void store(double* at) const {
        Run<8 * Count> run{};
#pragma unroll
        for (int k = 0; k < Count; ++k) run.template put<64>(k, bits_of(of[k]));
        store_run_bytes<8 * Count>((u8*)at, run);
    }
};

}  // namespace cpms
