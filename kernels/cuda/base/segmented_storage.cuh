// Customized precision by mantissa segmentation: a float64 is cut into segments, and a kernel loads or stores the
// first few only. This header holds the layouts at compile time: load<R>, store<W> and runs of adjacent values.
//
// A segmented array of n values lies in blocks. In the block of `size` values that begins at value `begin`, segment k
// of value begin + lane starts at byte 8 * begin + (bits before segment k) / 8 * size + lane * (bits of segment k) /
// 8. The last block may be shorter; planes are one block of n values. With `Whole` the array is known to hold whole
// blocks only, so that `size` is a constant and an address costs two multiply-adds.
#pragma once
#include "base/packed_float.cuh"
#include "base/stores.cuh"

namespace cpms {

template <int... W>
struct Widths {
    static constexpr int count = sizeof...(W);

    static CPMS_CONSTANT int width(int k) {
        const int all[] = {W...};
        return all[k];
    }
    static CPMS_CONSTANT int before(int k) {  // bits of the segments before k
        int sum = 0;
        for (int j = 0; j < k; ++j) sum += width(j);
        return sum;
    }
    static CPMS_CONSTANT int widest() {
        int most = 0;
        for (int j = 0; j < count; ++j) most = width(j) > most ? width(j) : most;
        return most;
    }
};

CPMS_CONSTANT int least(int a, int b) { return a < b ? a : b; }

// The largest power of two that divides a number, at most 64.
CPMS_CONSTANT int power_of_two_in(u64 number) {
    const u64 lowest = number & (~number + 1);
    return lowest == 0 || lowest > 64 ? 64 : (int)lowest;
}

// A float64 in segments. Block is 0 for planes.
template <class W, u64 Block, Rounding rounding, bool Whole>
struct Segments {
    static constexpr int segments = W::count;
    static constexpr bool scalable = false;  // no power-of-two scale
    static constexpr int widest = W::widest();

    template <int K>
    struct Segment {
        static constexpr int width = W::width(K);
        static constexpr int shift = 64 - W::before(K) - width;
        static constexpr int before_bytes = W::before(K) / 8;
        // Planes of whole arrays begin at multiples of 256 values.
        static constexpr u64 start = (u64)before_bytes * (!Whole ? 1 : Block ? Block : 256);
        // Bytes of which every address of the segment is a multiple.
        static constexpr int aligned = least(power_of_two_in(start), width / 8);
    };

    template <int K, class Index>
    static CPMS_DEVICE u64 offset(Index i, Index n) {
        using S = Segment<K>;
        // A block that no index can leave is a plane.
        constexpr bool planes = Block == 0 || (u64)(Index)Block != Block;
        if constexpr (segments == 1) {
            return (u64)i * 8;
        } else if constexpr (planes) {
            return (u64)n * S::before_bytes + (u64)i * (S::width / 8);
        } else if constexpr (Whole) {
            // The general formula below, in two multiply-adds.
            const int lane = (int)(i % (Index)Block);
            return (u64)i * 8 + (u64)((long long)lane * (S::width / 8 - 8)) + Block * S::before_bytes;
        } else {
            const Index lane = i % (Index)Block;
            const Index begin = i - lane;
            const Index left = n - begin;
            const Index size = left > (Index)Block ? (Index)Block : left;
            return (u64)begin * 8 + (u64)size * S::before_bytes + (u64)lane * (S::width / 8);
        }
    }

    template <int R, class Policy, int K = 0, class Index>
    static CPMS_DEVICE u64 load_bits(const u8* array, Index i, Index n) {
        using S = Segment<K>;
        const u8* at = array + offset<K>(i, n);
        u64 segment = 0;
#pragma unroll
        for (int piece = 0; piece < S::width / 8 / S::aligned; ++piece) {
            const Run<S::aligned> run = load_run_bytes<S::aligned>(at + piece * S::aligned, Policy{});
            segment |= run.template field<8 * S::aligned>(0) << (piece * 8 * S::aligned);
        }
        u64 bits = segment << S::shift;
        if constexpr (K + 1 < R) bits |= load_bits<R, Policy, K + 1>(array, i, n);
        return bits;
    }

    template <int Written, int K = 0, class Index>
    static CPMS_DEVICE void store_bits(u8* array, Index i, Index n, u64 bits) {
        using S = Segment<K>;
        u8* at = array + offset<K>(i, n);
#pragma unroll
        for (int piece = 0; piece < S::width / 8 / S::aligned; ++piece) {
            Run<S::aligned> run{};
            run.template put<8 * S::aligned>(0, bits >> S::shift >> (piece * 8 * S::aligned));
            store_run_bytes<S::aligned>(at + piece * S::aligned, run);
        }
        if constexpr (K + 1 < Written) store_bits<Written, K + 1>(array, i, n, bits);
    }

    // The bits of a value rounded to its first `Written` segments: towards zero where these cut the exponent, too.
    template <int Written>
    static CPMS_DEVICE u64 rounded(u64 bits) {
        constexpr int dropped = 64 - W::before(Written);
        if constexpr (dropped == 0) {
            return bits;
        } else {
            if constexpr (rounding == Rounding::nearest && dropped <= 52) {
                const u64 half = (1ull << (dropped - 1)) - 1 + (bits >> dropped & 1);
                bits += (bits >> 52 & 0x7FF) == 0x7FF ? 0 : half;
            }
            return bits >> dropped << dropped;
        }
    }

    template <int R, class Policy, class Index>
    static CPMS_DEVICE double load(const u8* array, Index i, Index n) {
        return value_of(load_bits<R, Policy>(array, i, n));
    }

    template <int Written, class Index>
    static CPMS_DEVICE double store(u8* array, Index i, Index n, double value, u64) {
        const u64 bits = rounded<Written>(bits_of(value));
        store_bits<Written>(array, i, n, bits);
        return value_of(bits);
    }

    // Whether `Count` consecutive values, the first a multiple of `Count`, lie in one block, and wide words can move
    // each segment's run of them.
    template <int Count, int K = 0>
    static CPMS_CONSTANT bool runs() {
        using S = Segment<K>;
        constexpr int bytes = Count * S::width / 8;
        constexpr int wanted = least(bytes, 16);
        constexpr bool fits =
            Whole && (Block == 0 || (Block % Count == 0 && Block * 8 % wanted == 0)) && S::start % wanted == 0;
        if constexpr (!fits) {
            return false;
        } else if constexpr (K + 1 < segments) {
            return runs<Count, K + 1>();
        } else {
            return true;
        }
    }

    template <int R, int Count, class Policy, int K = 0, class Index>
    static CPMS_DEVICE void load_run_bits(const u8* array, Index first, Index n, u64 (&bits)[Count]) {
        using S = Segment<K>;
        const auto run = load_run_bytes<Count * S::width / 8>(array + offset<K>(first, n), Policy{});
#pragma unroll
        for (int c = 0; c < Count; ++c) {
            const u64 segment = run.template field<S::width>(c) << S::shift;
            bits[c] = K == 0 ? segment : bits[c] | segment;
        }
        if constexpr (K + 1 < R) load_run_bits<R, Count, Policy, K + 1>(array, first, n, bits);
    }

    template <int Written, int Count, int K = 0, class Index>
    static CPMS_DEVICE void store_run_bits(u8* array, Index first, Index n, const u64 (&bits)[Count]) {
        using S = Segment<K>;
        Run<Count * S::width / 8> run{};
#pragma unroll
        for (int c = 0; c < Count; ++c) run.template put<S::width>(c, bits[c] >> S::shift);
        store_run_bytes(array + offset<K>(first, n), run);
        if constexpr (K + 1 < Written) store_run_bits<Written, Count, K + 1>(array, first, n, bits);
    }

    template <int R, int Count, class Policy, class Index>
    static CPMS_DEVICE void load_run(const u8* array, Index first, Index n, double (&values)[Count]) {
        u64 bits[Count];
        load_run_bits<R, Count, Policy>(array, first, n, bits);
#pragma unroll
        for (int c = 0; c < Count; ++c) values[c] = value_of(bits[c]);
    }

    template <int Written, int Count, class Index>
    static CPMS_DEVICE void store_run(u8* array, Index first, Index n, const double (&values)[Count], u64) {
        u64 bits[Count];
#pragma unroll
        for (int c = 0; c < Count; ++c) bits[c] = rounded<Written>(bits_of(values[c]));
        store_run_bits<Written, Count>(array, first, n, bits);
    }
};

// Values that are stored whole, each a code of `Bytes` bytes beside the next, so that runs of them move in wide words.
// `Codec` has the static functions `double decode(u64 code, int read)` and `u64 encode(double value, u64 seed, u64 i)`.
template <class Codec, int Bytes, int Levels>
struct WholeValues {
    static constexpr int segments = Levels;
    static constexpr bool scalable = true;
    static constexpr int width = 8 * Bytes;
    static constexpr int widest = width;
    static constexpr int bytes = Bytes;

    template <int R, class Policy, class Index>
    static CPMS_DEVICE double load(const u8* array, Index i, Index) {
        return Codec::decode(code(load_run_bytes<Bytes>(array + (u64)i * Bytes, Policy{})), R);
    }

    template <int Written, class Index>
    static CPMS_DEVICE double store(u8* array, Index i, Index, double value, u64 seed) {
        Run<Bytes> run{};
        run.template put<width>(0, Codec::encode(value, seed, i));
        store_run_bytes<Bytes>(array + (u64)i * Bytes, run);
        return Codec::decode(code(run), Written);
    }
    static CPMS_DEVICE auto code(const Run<Bytes>& run) {
        if constexpr (Bytes == 8) {
            return run.template field<64>(0);
        } else {
            return run.word[0];  // upper bits are zero: no mask
        }
    }

    template <int Count>
    static CPMS_CONSTANT bool runs() {
        return true;
    }

    template <int R, int Count, class Policy, class Index>
    static CPMS_DEVICE void load_run(const u8* array, Index first, Index, double (&values)[Count]) {
        const auto run = load_run_bytes<Count * Bytes>(array + (u64)first * Bytes, Policy{});
#pragma unroll
        for (int c = 0; c < Count; ++c) values[c] = Codec::decode(run.template field<width>(c), R);
    }

    template <int Written, int Count, class Index>
    static CPMS_DEVICE void store_run(u8* array, Index first, Index, const double (&values)[Count], u64 seed) {
        Run<Count * Bytes> run{};
#pragma unroll
        for (int c = 0; c < Count; ++c) run.template put<width>(c, Codec::encode(values[c], seed, (u64)first + c));
        store_run_bytes(array + (u64)first * Bytes, run);
    }
};

// A packed float as a storage format.
template <int E, int M, Rounding rounding>
struct PackedFloat : WholeValues<PackedFloat<E, M, rounding>, (1 + E + M) / 8, 1> {
    static CPMS_DEVICE double decode(u32 code, int) { return unpack<E, M>(code); }
    static CPMS_DEVICE u32 encode(double value, u64 seed, u64 i) {
        return pack<E, M, rounding>(bits_of(value), rounding == Rounding::stochastic ? random_bits(seed, i) : 0);
    }
};

// Loads value i of an array of n values from its first R segments.
template <class F, int R, class Policy, class Index>
CPMS_DEVICE double load(const u8* array, Index i, Index n, Policy) {
    return F::template load<R, Policy>(array, i, n);
}

// Stores value i in its first W segments; returns the value that a reader of these segments will find.
template <class F, int W, class Index>
CPMS_DEVICE double store(u8* array, Index i, Index n, double value, u64 seed) {
    return F::template store<W>(array, i, n, value, seed);
}

// Loads `Count` values from `first`, a multiple of `Count`, by wide loads where the format permits them.
template <class F, int R, int Count, class Policy, class Index>
CPMS_DEVICE void load_run(const u8* array, Index first, Index n, Policy, double (&values)[Count]) {
    if constexpr (F::template runs<Count>()) {
        F::template load_run<R, Count, Policy>(array, first, n, values);
    } else {
#pragma unroll
        for (int c = 0; c < Count; ++c) values[c] = F::template load<R, Policy>(array, first + (Index)c, n);
    }
}

template <class F, int W, int Count, class Index>
CPMS_DEVICE void store_run(u8* array, Index first, Index n, const double (&values)[Count], u64 seed) {
    if constexpr (F::template runs<Count>()) {
        F::template store_run<W, Count>(array, first, n, values, seed);
    } else {
#pragma unroll
        for (int c = 0; c < Count; ++c) F::template store<W>(array, first + (Index)c, n, values[c], seed);
    }
}

}  // namespace cpms
