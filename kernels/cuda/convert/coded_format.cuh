// A number format that a user brings: a codec in a few lines, load and store of a code, as a storage format.
//
// `Codec` is a struct with static functions `double load(u64 code, int read)` and `u64 store(double value)`. Codes have
// 1, 2, 4 or 8 bytes and lie side by side, so runs of them move in wide words. A value is written whole.
#pragma once
#include "base/segmented_storage.cuh"

namespace cpms {

template <class Codec, int Bytes, int Levels>
struct CodedFormat {
    static constexpr int segments = Levels;
    static constexpr bool scalable = true;
    static constexpr int width = 8 * Bytes;
    static constexpr int widest = width;
    static constexpr int bytes = Bytes;

    template <int R, class Policy, class Index>
    static CPMS_DEVICE double load(const u8* array, Index i, Index) {
        return Codec::load(load_run_bytes<Bytes>(array + (u64)i * Bytes, Policy{}).template field<width>(0), R);
    }

    template <int Written, class Index>
    static CPMS_DEVICE double store(u8* array, Index i, Index, double value, u64) {
        Run<Bytes> run{};
        run.template put<width>(0, Codec::store(value));
        store_run_bytes<Bytes>(array + (u64)i * Bytes, run);
        return Codec::load(run.template field<width>(0), Written);
    }

    template <int Count>
    static CPMS_CONSTANT bool runs() {
        return true;
    }

    template <int R, int Count, class Policy, class Index>
    static CPMS_DEVICE void load_run(const u8* array, Index first, Index, double (&values)[Count]) {
        const auto run = load_run_bytes<Count * Bytes>(array + (u64)first * Bytes, Policy{});
#pragma unroll
        for (int c = 0; c < Count; ++c) values[c] = Codec::load(run.template field<width>(c), R);
    }

    template <int Written, int Count, class Index>
    static CPMS_DEVICE void store_run(u8* array, Index first, Index, const double (&values)[Count], u64) {
        Run<Count * Bytes> run{};
#pragma unroll
        for (int c = 0; c < Count; ++c) run.template put<width>(c, Codec::store(values[c]));
        store_run_bytes(array + (u64)first * Bytes, run);
    }
};

}  // namespace cpms
