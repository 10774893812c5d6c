// Native float64 and float32 in global memory, loaded as words under a cache policy and widened to float64.
#pragma once
#include "base/loads.cuh"

namespace cpms {

template <class Real>
struct NativeLoad;

template <>
struct NativeLoad<double> {
    using Word = u64;
    static CPMS_DEVICE double value(u64 bits) { return value_of(bits); }
};

template <>
struct NativeLoad<float> {
    using Word = u32;
    static CPMS_DEVICE double value(u32 bits) { return (double)single_of(bits); }
};

template <class Real, class Policy>
CPMS_DEVICE double load_native(const Real* at, Policy policy) {
    return NativeLoad<Real>::value(load_word((const typename NativeLoad<Real>::Word*)at, policy));
}

}  // namespace cpms
