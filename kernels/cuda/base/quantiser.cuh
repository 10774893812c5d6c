// Quantiser Q of inner sweeps: rounds a scaled value to a packed float, and saturates at the largest finite number.
//
// All values of a vector share one power-of-two scale, as in block floating point, so that formats with few exponent
// bits suffice for residuals of any size. Formats of at most 8 exponent bits are rounded by way of float32, unless they
// round at random, or towards zero with 23 mantissa bits. That double rounding changes a stored value by one unit at
// most, and the lost mass is computed from the value as stored.
#pragma once
#include "base/widening_load.cuh"

namespace cpms {

// The exponent of the scale with which a vector of this largest absolute value is stored;
// cpms/formats/quantization.py derives it. `top` is the exponent bias less the headroom: 3 powers of two, or 1 with at
// most 4 exponent bits. The scaled largest value is below 2^top and the largest finite number almost 2^(bias + 1), so a
// value may grow nearly 2^(headroom + 1) times before it saturates. No bound says that this suffices; the part of a
// value that saturation cuts off counts as rounding error.
CPMS_DEVICE int shared_exponent(bool scaled, int top, double largest) {
    const int field = (int)(bits_of(largest) >> 52 & 0x7FF);
    if (!scaled || field == 0 || field == 0x7FF) return 0;
    const int exponent = top - (field - 1022);
    return exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
}

// Rounding to one packed format, with saturation.
template <int E, int M, Rounding rounding>
struct Quantiser {
    using F = PackedFloat<E, M, rounding>;
    static constexpr int bias = (1 << (E - 1)) - 1;
    static constexpr bool by_float32 =
        E <= 8 && (rounding == Rounding::nearest || (rounding == Rounding::zero && M < 23));
    // Whether float32 holds a scaled value times any degree, with an error far below that of the format, and 1 / scale
    // as a normal number. With 6 exponent bits that holds while the largest |r / degree| is above 2^-98; below it
    // ||r||_1 is less than float64 resolves beside x.
    static constexpr bool scaled_in_float32 = by_float32 && E < 7 && M <= 12;
    // Whether the format has range for contributions of dangling nodes, which no degree divides. No edge reads them,
    // but deferred updates and Anderson combinations do, which add stored vectors to x (cpms/precision/anderson.py).
    static constexpr bool stores_dangling = E >= 5;
    static CPMS_DEVICE bool has_contribution(u32 degree) { return stores_dangling || degree; }

    static CPMS_DEVICE double largest_finite() {  // one step below infinity
        return value_of(((u64)(1023 + bias) << 52) | (((1ull << M) - 1) << (52 - M)));
    }

#if defined(__CUDA_ARCH__)
    // Whether the device has an instruction that rounds two values as from_float rounds one.
    static constexpr bool has_pair_instruction =
        E == 5 && rounding == Rounding::nearest &&
        ((M == 10 && __CUDA_ARCH__ >= 800) || (M == 2 && __CUDA_ARCH__ >= 890));
    static CPMS_DEVICE u32 pair(float first, float second) {
        if constexpr (M == 10) {
            u32 halves;
            asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
            return halves;
        } else {
            u16 bytes;
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(second), "f"(first));
            return bytes;
        }
    }
#endif

    static CPMS_DEVICE u32 from_float(float value) {
#if defined(__CUDA_ARCH__)
        if constexpr (has_pair_instruction) return pair(value, 0.0f);  // the instruction for a single value is slower
#endif
        constexpr u32 limit = ((u32)(127 + bias) << 23) | (((1u << M) - 1) << (23 - M));
        const u32 bits = bits_of_single(value), sign = bits >> 31 << (E + M);
        u32 size = bits & 0x7FFFFFFFu;
        size = size < limit ? size : limit;
        if constexpr (E == 8 && M == 23) return size | sign;
        const int exponent = (int)(size >> 23) - 127 + bias;
        u32 digits = size - ((u32)(127 - bias) << 23);
        int shift = 23 - M;
        if (E < 8 && exponent < 1) {  // subnormal in the format
            shift = 24 - M - exponent;
            digits = shift > 30 ? 0 : (size & 0x007FFFFFu) | 0x00800000u;
            shift = shift > 30 ? 30 : shift;
        }
        if constexpr (rounding == Rounding::nearest) digits += (1u << (shift - 1)) - 1 + (digits >> shift & 1);
        return digits >> shift | sign;
    }

    static CPMS_DEVICE u32 packed(float value, u64, u32) { return from_float(value); }
    static CPMS_DEVICE u32 packed(double value, u64 seed, u32 i) {
        if constexpr (rounding != Rounding::stochastic && E == 11) {
            return (u32)pack<E, M, rounding>(bits_of(value), 0);
        } else if constexpr (by_float32) {
            return from_float((float)value);
        } else {
            const double limit = largest_finite();
            return F::encode(value > limit ? limit : value < -limit ? -limit : value, seed, i);
        }
    }

    // Stores a value and returns the widened value (without its unit) that a reader will find.
    template <class Real>
    static CPMS_DEVICE double store(u8* out, u32 i, Real value, u64 seed) {
        Run<F::bytes> run;
        run.word[0] = packed(value, seed, i);
        store_run_bytes<F::bytes>(out + (u64)i * F::bytes, run);
        return WideningLoad<F>::value(run.word[0]);
    }
};

template <class F>
struct QuantiserOf;
template <int E, int M, Rounding rounding>
struct QuantiserOf<PackedFloat<E, M, rounding>> {
    using Type = Quantiser<E, M, rounding>;
};

// The parameters of quantisation that stay the same for a solve.
struct QuantiserSettings {
    u32 scaled;  // whether values have a power-of-two scale
    int top;     // exponent bias less the headroom
    u64 seed;    // of stochastic rounding; seed_of in pagerank/persistent_refine.cu derives each vector's seed from it
};

}  // namespace cpms
