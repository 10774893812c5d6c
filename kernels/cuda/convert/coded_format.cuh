// A number format that a user brings: a codec in a few lines, load and store of a code, as a storage format.
//
// `Codec` is a struct with static functions `double load(u64 code, int read)` and `u64 store(double value)`. Codes have
// 1, 2, 4 or 8 bytes and lie side by side, so runs of them move in wide words. A value is written whole.
#pragma once
#include "base/segmented_storage.cuh"

namespace cpms {

template <class Codec, int Bytes, int Levels>
struct CodedFormat : WholeValues<CodedFormat<Codec, Bytes, Levels>, Bytes, Levels> {
    static CPMS_DEVICE double decode(u64 code, int read) { return Codec::load(code, read); }
    static CPMS_DEVICE u64 encode(double value, u64, u64) { return Codec::store(value); }
};

}  // namespace cpms
