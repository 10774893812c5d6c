// Words of memory, the bits of floats, exact arithmetic on them, and runs of bytes in registers. Every other header
// rests on this one. On a host it is plain C++.
#pragma once

#if defined(__CUDACC__)
#define CPMS_DEVICE __device__ __forceinline__
// For code that runs rarely: a call keeps its registers out of the loops around it.
#define CPMS_NOINLINE static __device__ __noinline__
#define CPMS_CONSTANT __host__ __device__ constexpr
#else
#define CPMS_DEVICE inline
#define CPMS_NOINLINE static
#define CPMS_CONSTANT constexpr
#endif

// A kernel, with the threads of a block and perhaps the blocks that a multiprocessor holds at once. Where kernels have
// template arguments, a macro CPMS_<NAME> makes those that a program asks for (cpms/backends/cuda/kernels/template.py).
#define CPMS_KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)

namespace cpms {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// The unsigned integer of 8, 16 or 32 bits.
template <int Bits>
struct WordOf {
    using Type = u32;
};
template <>
struct WordOf<16> {
    using Type = u16;
};
template <>
struct WordOf<8> {
    using Type = u8;
};

struct alignas(8) Pair {
    u32 word[2];
};
struct alignas(16) Quad {
    u32 word[4];
};

CPMS_DEVICE u64 bits_of(double value) {
#if defined(__CUDA_ARCH__)
    return (u64)__double_as_longlong(value);
#else
    u64 bits;
    __builtin_memcpy(&bits, &value, 8);
    return bits;
#endif
}

CPMS_DEVICE double value_of(u64 bits) {
#if defined(__CUDA_ARCH__)
    return __longlong_as_double((long long)bits);
#else
    double value;
    __builtin_memcpy(&value, &bits, 8);
    return value;
#endif
}

CPMS_DEVICE u32 bits_of_single(float value) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(value);
#else
    u32 bits;
    __builtin_memcpy(&bits, &value, 4);
    return bits;
#endif
}

CPMS_DEVICE float single_of(u32 bits) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
#endif
}

// The bits of either, for code of both types.
template <class Real>
struct Native;
template <>
struct Native<double> {
    using Word = u64;
    static CPMS_DEVICE Word bits(double value) { return bits_of(value); }
    static CPMS_DEVICE double value(Word bits) { return value_of(bits); }
};
template <>
struct Native<float> {
    using Word = u32;
    static CPMS_DEVICE Word bits(float value) { return bits_of_single(value); }
    static CPMS_DEVICE float value(Word bits) { return single_of(bits); }
};

// Conversions between float32 and float64 as IEEE 754 defines them. CuPy compiles with flush-to-zero for float32,
// which would add instructions and lose subnormals.
CPMS_DEVICE double to_double(float number) {
#if defined(__CUDA_ARCH__)
    double same;
    asm("cvt.f64.f32 %0, %1;" : "=d"(same) : "f"(number));
    return same;
#else
    return (double)number;
#endif
}
CPMS_DEVICE float to_float(double number) {
#if defined(__CUDA_ARCH__)
    float nearest;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(nearest) : "d"(number));
    return nearest;
#else
    return (float)number;
#endif
}

CPMS_DEVICE double infinity() { return value_of(0x7FF0000000000000ull); }

// 2^exponent, for exponents of normal numbers.
CPMS_DEVICE double power_of_two(int exponent) { return value_of((u64)(1023 + exponent) << 52); }

// The float64 of an integer below 2^32, by one addition; a conversion instruction would wait for a slower unit.
CPMS_DEVICE double exactly(u32 number) { return value_of(0x4330000000000000ull | number) - 4503599627370496.0; }

CPMS_DEVICE float approximate_reciprocal(u32 number) {
#if defined(__CUDA_ARCH__)
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"((float)number));
    return inverse;
#else
    return 1.0f / (float)number;
#endif
}

// 1 / number, correct to the last bit or the one before: two steps of Newton's method from an approximate reciprocal,
// which are four fused multiply-adds in place of a division.
CPMS_DEVICE double reciprocal(u32 number) {
#if defined(__CUDA_ARCH__)
    const double d = (double)number;
    double r = (double)approximate_reciprocal(number);
    r = fma(r, fma(-d, r, 1.0), r);
    return fma(r, fma(-d, r, 1.0), r);
#else
    return 1.0 / number;
#endif
}

// Calls work(i) for i from 0 to count - 1, which the threads of the grid take in turn (a grid-stride loop).
template <class Work>
CPMS_DEVICE void for_each_index(u64 count, Work work) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) work(i);
}

// A run of adjacent bytes in 32-bit registers. Loads and stores of it are as wide as its alignment permits: its own
// size, at most 16 bytes.
template <int Bytes>
struct Run {
    static constexpr int words = (Bytes + 3) / 4;
    u32 word[words];

    // Field `index` of `Width` bits, counted from the first byte of the run.
    template <int Width>
    CPMS_DEVICE u64 field(int index) const {
        if constexpr (Width == 64) {
            return (u64)word[2 * index + 1] << 32 | word[2 * index];
        } else if constexpr (Width == 32) {
            return word[index];
        } else {
            return word[index * Width / 32] >> (index * Width % 32) & ((1u << Width) - 1);
        }
    }

    template <int Width>
    CPMS_DEVICE void put(int index, u64 bits) {  // the run must hold zeros there
        if constexpr (Width == 64) {
            word[2 * index] = (u32)bits;
            word[2 * index + 1] = (u32)(bits >> 32);
        } else if constexpr (Width == 32) {
            word[index] = (u32)bits;
        } else {
            word[index * Width / 32] |= (u32)(bits & ((1u << Width) - 1)) << (index * Width % 32);
        }
    }
};

}  // namespace cpms
