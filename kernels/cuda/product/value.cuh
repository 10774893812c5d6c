// Values of a matrix or vector as numbers of the type in which a product is computed.
//
// The accessors of base/segmented_storage.cuh return float64. Here a format is converted to float32 if a device does
// that by one instruction or none: a longer decoding would take more time than the loads. The values of matrices are
// finite, since others are refused; an infinity of x is one in float32, too.
#pragma once
#include "base/segmented_storage.cuh"

namespace cpms {

// A pattern: every entry is 1, and nothing is loaded.
struct Ones {};

// Codes of a byte into 256 values of float64, which lie before them.
struct Codes8 {};

// In two steps, so that a batch of values is on its way before the first is used: `raw` loads, `value` makes a number.
template <class F>
struct Decode {
    template <int R, class Policy>
    static CPMS_DEVICE double raw(const u8* array, u64 i, u64 n, Policy policy) {
        return load<F, R>(array, i, n, policy);
    }
    static CPMS_DEVICE double value(const u8*, double raw) { return raw; }
};

template <>
struct Decode<Ones> {
    template <int R, class Policy>
    static CPMS_DEVICE float raw(const u8*, u64, u64, Policy) {
        return 1.0f;
    }
    static CPMS_DEVICE float value(const u8*, float raw) { return raw; }
};

template <>
struct Decode<Codes8> {
    template <int R, class Policy>
    static CPMS_DEVICE u32 raw(const u8* array, u64 i, u64, Policy policy) {
        return load_word(array + 2048 + i, policy);
    }
    static CPMS_DEVICE double value(const u8* array, u32 raw) {
        return value_of(load_word((const u64*)array + raw, ReadOnly{}));
    }
};

template <int E, int M, Rounding rounding>
struct Decode<PackedFloat<E, M, rounding>> {
    static constexpr int width = 1 + E + M;

    template <int R, class Policy>
    static CPMS_DEVICE u32 raw(const u8* array, u64 i, u64, Policy policy) {
        return load_run_bytes<width / 8>(array + i * (width / 8), policy).word[0];
    }
    static CPMS_DEVICE auto value(const u8*, u32 raw) {
        if constexpr (E == 8) {
            return single_of(raw << (32 - width));
        } else if constexpr (is_half_prefix<E, M>) {
            return half_to_float<0>(raw << (16 - width));
        } else {
            return unpack<E, M>(raw);
        }
    }
};

// Bytes of a value where the values of neighbouring slots can be loaded as one run, which begin `first` bytes after the
// array's begin; 0 bytes where a format keeps the parts of a value apart.
template <class F>
struct InRuns {
    static constexpr int bytes = 0, first = 0;
};

template <>
struct InRuns<Codes8> {
    static constexpr int bytes = 1, first = 2048;
};

template <int E, int M, Rounding rounding>
struct InRuns<PackedFloat<E, M, rounding>> {
    static constexpr int bytes = (1 + E + M) / 8, first = 0;
};

template <u64 Block, Rounding rounding, bool Whole>
struct InRuns<Segments<Widths<64>, Block, rounding, Whole>> {
    static constexpr int bytes = 8, first = 0;
};

// Value `index` of such a run, as `Decode` takes it.
template <class F, int Bytes>
CPMS_DEVICE auto raw_in_run(const Run<Bytes>& run, int index) {
    const u64 field = run.template field<8 * InRuns<F>::bytes>(index);
    if constexpr (InRuns<F>::bytes == 8) {
        return value_of(field);
    } else {
        return (u32)field;
    }
}

// Packed floats of 8 bits with fewer exponent bits than a half, as values of a matrix: their bits are those of a half
// times a power of two. No infinity or NaN is among them.
template <class F>
struct DecodeFinite : Decode<F> {};

template <int E, int M, Rounding rounding>
struct DecodeFinite<PackedFloat<E, M, rounding>> : Decode<PackedFloat<E, M, rounding>> {
    static CPMS_DEVICE auto value(const u8* array, u32 raw) {
        if constexpr (1 + E + M == 8 && E < 5) {
            const u32 sign = (raw & 0x80) << 8, size = (raw & 0x7F) << (10 - M);
            return half_to_float<0>(sign | size) * (float)(1 << (15 - ((1 << (E - 1)) - 1)));
        } else {
            return Decode<PackedFloat<E, M, rounding>>::value(array, raw);
        }
    }
};

// Whether the bits of a format's finite numbers are the first ones of a float64 times a power of two.
template <class F>
struct Widening {
    static constexpr bool fits = false;
};

// One shift aligns the mantissa with that of a float64, and one product with a power of two corrects the exponent:
// exact, subnormals included. Conversions between float32 and float64 have a quarter of the rate of products.
template <int E, int M, Rounding rounding>
struct Widening<PackedFloat<E, M, rounding>> {
    static constexpr bool fits = 1 + E + M <= 16 && E < 11;

    static CPMS_DEVICE double value(u32 raw) {
        constexpr u32 kept = 0x80000000u | ((1u << (20 + E)) - 1);
        const u32 high = (u32)((int)(raw << (31 - E - M)) >> (11 - E)) & kept;
        return value_of((u64)high << 32) * power_of_two(1023 - ((1 << (E - 1)) - 1));
    }
};

template <class Real, class Value>
CPMS_DEVICE Real in_type(Value value) {
    if constexpr (sizeof(value) == sizeof(Real)) {
        return value;
    } else if constexpr (sizeof(Real) == 8) {
        return to_double(value);
    } else {
        return to_float(value);
    }
}

// The number of a matrix, finite, that `raw` holds.
template <class F, class Real, class Raw>
CPMS_DEVICE Real matrix_number(const u8* array, Raw raw) {
    if constexpr (sizeof(Real) == 8 && Widening<F>::fits) return Widening<F>::value(raw);
    return in_type<Real>(DecodeFinite<F>::value(array, raw));
}

// The number of a vector that `raw` holds.
template <class F, class Real, class Raw>
CPMS_DEVICE Real number_of(const u8* array, Raw raw) {
    return in_type<Real>(Decode<F>::value(array, raw));
}

// Number i of a vector of n.
template <class F, int R, class Real, class Policy>
CPMS_DEVICE Real number(const u8* array, u64 i, u64 n, Policy policy) {
    return number_of<F, Real>(array, Decode<F>::template raw<R>(array, i, n, policy));
}

}  // namespace cpms
