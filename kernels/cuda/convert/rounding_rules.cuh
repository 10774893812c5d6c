// Rounding of a float64 to the numbers of a format, as a float64 again: no code is made. Floats of any split, posits,
// fixed point, and any codec by its load and store.
//
// A float rounds the digits below its last place by an integer addition to the bits of float64, whose carry moves into
// the exponent; below the smallest normal number the last place is fixed. A posit does the same with a last place that
// its regime decides. The rule holds what differs between formats, so that one compiled kernel serves them all.
#pragma once
#include "base/packed_float.cuh"

namespace cpms {

constexpr u64 magnitude_bits = 0x7FFFFFFFFFFFFFFFull;
constexpr u64 infinity_bits = 0x7FF0000000000000ull;
constexpr u64 nan_bits = 0x7FF8000000000000ull;

struct RoundingRule {
    u64 top;       // bits of the largest number; of fixed point, of the largest multiple of the step
    u64 beyond;    // bits of what takes the place of numbers beyond it; of fixed point, of the lowest multiple's size
    u64 infinite;  // bits of what infinity becomes
    u64 seed;      // of stochastic rounding
    u64 limit;     // bits of the largest number of a group, at its largest scale
    double step;   // the smallest positive number
    double steps;  // 1 / step
    u32 dropped;   // bits of float64's mantissa after the last place of a normal number; of a posit without regime
    u32 least;     // exponent field, in float64, of the smallest normal number
    u32 saturates;   // whether the format itself turns what lies beyond the largest number into it
    u32 signless;    // whether zero and NaN have no sign
    u32 exponent;    // of the largest number of a group's elements
    u32 nan_beyond;  // whether a number beyond the limit makes its group NaN
};

// Adds the sign to a rounded size, and treats infinity, NaN and what lies beyond the largest number.
template <class Size>
CPMS_DEVICE u64 with_sign(u64 bits, const RoundingRule& rule, bool& overflows, Size rounded_size) {
    const u64 size = bits & magnitude_bits;
    u64 found = size > infinity_bits ? nan_bits : rule.infinite;
    if (size < infinity_bits) {
        found = rounded_size(size);
        overflows = (rule.saturates ? size : found) > rule.top;
        if (overflows) found = rule.beyond;
    }
    return rule.signless && (found == 0 || found > infinity_bits) ? found : found | (bits ^ size);
}

template <Rounding rounding>
struct FloatRule {
    static CPMS_DEVICE u64 round(u64 bits, const RoundingRule& rule, u64 index, bool& overflows) {
        return with_sign(bits, rule, overflows, [&](u64 size) {
            const int below = (int)rule.least - (int)(size >> 52);
            int shift = (int)rule.dropped;
            u64 digits = size;
            if (below > 0) {
                shift += below;
                digits = subnormal_digits(size, shift);
            }
            const u64 random = rounding == Rounding::stochastic ? random_bits(rule.seed, index) : 0;
            const u64 count = rounded_shift<rounding>(digits, shift, random);
            return below > 0 ? bits_of(exactly((u32)count) * rule.step) : count << shift;
        });
    }
};

struct PositRule {
    static CPMS_DEVICE u64 round(u64 bits, const RoundingRule& rule, u64, bool& overflows) {
        return with_sign(bits, rule, overflows, [&](u64 size) {
            const int field = (int)(size >> 52);
            if (field < (int)rule.least) return size ? (u64)rule.least << 52 : 0;
            if (size >= rule.top) return rule.top;
            const int run = (field - 1023) >> 2;
            const int cut = (int)rule.dropped + (run >= 0 ? run + 2 : 1 - run);
            const u64 digits = size - (1023ull << 52);  // modulo 2^64: exponent, then fraction
            // Ties to an even code. Of a code without digits after its regime, the last bit ends the regime.
            const u64 odd = cut == 54 ? (u64)(run < 0) : digits >> cut & 1;
            return ((digits + (1ull << (cut - 1)) - 1 + odd) >> cut << cut) + (1023ull << 52);
        });
    }
};

struct FixedRule {
    static CPMS_DEVICE u64 round(u64 bits, const RoundingRule& rule, u64, bool& overflows) {
        const double most = value_of(rule.top), lowest = -value_of(rule.beyond), count = value_of(bits) * rule.steps;
        const double clamped = count > lowest ? count < most ? count : most : lowest;
        // 1.5 * 2^52, where the last place of a float64 is 1: the sum is rounded to an integer, ties to even.
        const double whole = clamped + 6755399441055744.0 - 6755399441055744.0;
        // Two's complement may have a negative number more, to which what is half a step away is rounded.
        const double size = count < 0.0 ? -count : count, away = size + lowest;
        const bool is_lowest = whole == lowest && lowest < -most && away <= 0.5 && away >= -0.5;
        overflows = (bits & magnitude_bits) < infinity_bits && size > most && !is_lowest;
        return bits_of(whole * rule.step);
    }
};

// By way of a code. Of what is beyond the largest number, the codec decides.
template <class Codec, int Bytes, int Levels>
struct CodecRule {
    static CPMS_DEVICE u64 round(u64 bits, const RoundingRule&, u64, bool&) {
        return bits_of(Codec::load(Codec::store(value_of(bits)) & (~0ull >> (64 - 8 * Bytes)), Levels));
    }
};

}  // namespace cpms
