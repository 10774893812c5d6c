// Packing of float64 into floats of 8, 16 or 32 bits with any split between exponent and mantissa (IEEE 754
// semantics: subnormals, infinities and NaN), and unpacking. Rounding is to zero, to nearest even, or stochastic.
//
// Integer arithmetic does it for every split; conversions of the hardware exist for a few formats only.
#pragma once
#include "base/words.cuh"

namespace cpms {

enum class Rounding { zero, nearest, stochastic };

// The mixing function of splitmix64 (Steele, Lea and Flood, 2014): a counter-based generator, whose numbers do not
// depend on the number of threads.
CPMS_DEVICE u64 random_bits(u64 seed, u64 index) {
    u64 z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// The mantissa of a float64 that is subnormal in a format: the implicit one becomes an explicit digit. A shift beyond
// 62 leaves 0; stochastic rounding would round up with a probability below 2^-10.
CPMS_DEVICE u64 subnormal_digits(u64 size, int& shift) {
    const u64 digits = shift > 62 ? 0 : (size & 0x000FFFFFFFFFFFFFull) | 0x0010000000000000ull;
    shift = shift > 62 ? 62 : shift;
    return digits;
}

// digits / 2^shift as an integer. A carry out of the mantissa moves into the exponent above it.
template <Rounding rounding>
CPMS_DEVICE u64 rounded_shift(u64 digits, int shift, u64 random) {
    if constexpr (rounding == Rounding::nearest) {
        digits += (1ull << (shift - 1)) - 1 + (digits >> shift & 1);
    } else if constexpr (rounding == Rounding::stochastic) {
        digits += random & ((1ull << shift) - 1);
    }
    return digits >> shift;
}

template <int ExponentBits, int MantissaBits, Rounding rounding>
CPMS_DEVICE u32 pack(u64 bits, u64 random) {
    constexpr int bias = (1 << (ExponentBits - 1)) - 1;
    constexpr u64 top = ((1ull << ExponentBits) - 1) << MantissaBits;
    const u64 sign = bits >> 63 << (ExponentBits + MantissaBits);
    const u64 size = bits & 0x7FFFFFFFFFFFFFFFull;
    if (size >= 0x7FF0000000000000ull) {
        const u64 quiet = size > 0x7FF0000000000000ull ? 1ull << (MantissaBits - 1) : 0;
        return (u32)(sign | top | quiet);
    }
    const int exponent = (int)(size >> 52) - 1023 + bias;
    u64 digits;
    int shift;
    if (ExponentBits == 11 || exponent >= 1) {
        digits = size - ((u64)(1023 - bias) << 52);
        shift = 52 - MantissaBits;
    } else {
        shift = 53 - MantissaBits - exponent;
        digits = subnormal_digits(size, shift);
    }
    u64 packed = rounded_shift<rounding>(digits, shift, random);
    if (packed >= top) packed = rounding == Rounding::zero ? top - 1 : top;
    return (u32)(sign | packed);
}

template <int ExponentBits, int MantissaBits>
CPMS_DEVICE double unpack(u32 word) {
    constexpr int bias = (1 << (ExponentBits - 1)) - 1;
    constexpr u64 top = ((1ull << ExponentBits) - 1) << MantissaBits;
    constexpr u64 rescale = (u64)(2046 - bias) << 52;  // 2^(1023 - bias), an exact factor for subnormals, too
    const u64 size = word & ((1ull << (ExponentBits + MantissaBits)) - 1);
    const u64 moved = size << (52 - MantissaBits);
    const u64 finite = bits_of(value_of(moved) * value_of(rescale));
    const u64 sign = (u64)(word >> (ExponentBits + MantissaBits)) << 63;
    return value_of((size >= top ? moved | 0x7FF0000000000000ull : finite) | sign);
}

// Formats whose values are the upper bits of a half, which one instruction converts to float32.
template <int ExponentBits, int MantissaBits>
constexpr bool is_half_prefix = ExponentBits == 5 && MantissaBits <= 10;

// Converts the lower (0) or upper (1) of two halves.
template <int Which>
CPMS_DEVICE float half_to_float(u32 both) {
#if defined(__CUDA_ARCH__)
    float value;
    if constexpr (Which == 0) {
        asm("{.reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a;}" : "=f"(value) : "r"(both));
    } else {
        asm("{.reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, b;}" : "=f"(value) : "r"(both));
    }
    return value;
#else
    return (float)unpack<5, 10>(both >> 16 * Which & 0xFFFF);
#endif
}

}  // namespace cpms
