// Plain float64 and float32 in device memory, as kernels read them: by words under a cache policy.
#pragma once
#include "base/loads.cuh"

namespace cpms {

template <class Real>
struct Plain;

template <>
struct Plain<double> {
    using Word = u64;
    static CPMS_DEVICE double value(u64 bits) { return value_of(bits); }
};

template <>
struct Plain<float> {
    using Word = u32;
    static CPMS_DEVICE double value(u32 bits) { return (double)single_of(bits); }
};

template <class Real, class Policy>
CPMS_DEVICE double load_plain(const Real* at, Policy policy) {
    return Plain<Real>::value(load_word((const typename Plain<Real>::Word*)at, policy));
}

}  // namespace cpms
