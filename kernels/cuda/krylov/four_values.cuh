// Accessor of vectors that a pass of conjugate gradients reads, updates and writes: one value, or four neighbouring
// values a lane, so that eight lanes have a block of 32.
//
// Arrays are padded with zeros to whole blocks of 32 values, so no pass tests for the end. The eight lanes of a block
// encode block floats together: three shuffles find the largest absolute value. Arithmetic on block floats is float32
// here, and a block whose absolute values are all below 2^-101 becomes 0.
#pragma once
#include "base/stores.cuh"
#include "base/warp.cuh"
#include "product/block_float.cuh"

namespace cpms {

constexpr int least_block_exponent = -100;  // the unit, 2^-115, is a normal number of float32

// Calls work(i) for the first of each four values, also for some beyond `padded`, since whole warps take part. The loop
// is that of `for_each_warp_values`, whose test would take these passes up to 8 registers more.
template <class Work>
CPMS_DEVICE void for_each_four(u64 padded, Work work) {
    const u64 threads = (u64)gridDim.x * blockDim.x, warps = (padded + 127) / 128;
    for (u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32; warp < warps; warp += threads / 32) {
        work(warp * 128 + threadIdx.x % 32 * 4);
    }
}

// Of native types.
template <class F>
struct FourValues {
    using Real = F;

    static CPMS_DEVICE Real one(const u8* array, u64 i, u64) {
        return Native<Real>::value(load_word((const typename Native<Real>::Word*)array + i, ReadOnly{}));
    }
    static CPMS_DEVICE void load(const u8* array, u64 i, u64, Real (&v)[4]) {
        const auto run = load_run_bytes<4 * sizeof(Real)>(array + sizeof(Real) * i, Default{});
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = Native<Real>::value((typename Native<Real>::Word)run.template field<8 * sizeof(Real)>(k));
        }
    }
    static CPMS_DEVICE void store(u8* array, u64 i, u64, Real (&v)[4], bool inside) {
        if (!inside) return;
        Run<4 * sizeof(Real)> run{};
#pragma unroll
        for (int k = 0; k < 4; ++k) run.template put<8 * sizeof(Real)>(k, Native<Real>::bits(v[k]));
        store_run_bytes(array + sizeof(Real) * i, run);
    }
};

template <>
struct FourValues<BlockFloat<16>> {
    using Real = float;
    using F = BlockFloat<16>;

    static CPMS_DEVICE float one(const u8* array, u64 i, u64 length) {
        const u32 field = load_word((const u16*)words(array, i & ~(u64)1, length) + i % 2, ReadOnly{});
        return number(field, unit((short)load_word((const u16*)array + i / 32, ReadOnly{})));
    }
    static CPMS_DEVICE float number(u32 field, float step) {
        const float size = (float)(field & F::magnitude) * step;
        return field & 0x8000u ? -size : size;
    }
    static CPMS_DEVICE float unit(int exponent) {
        return exponent < least_block_exponent ? 0.0f : single_of((u32)(127 + exponent - 15) << 23);
    }
    static CPMS_DEVICE float larger(float a, float b) { return a >= b || a != a ? a : b; }
    static CPMS_DEVICE u32* words(const u8* array, u64 i, u64 length) {
        return (u32*)(array + F::words_at(length)) + i / 2;
    }
    static CPMS_DEVICE void load(const u8* array, u64 i, u64 length, float (&v)[4]) {
        const int exponent = ((const short*)array)[i / 32];
        const u32* const from = words(array, i, length);
        const u32 word[2] = {from[0], from[1]};
        const float step = unit(exponent);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = number(word[k / 2] >> (16 * (k % 2)) & 0xFFFFu, step);
        }
    }
    // Values are replaced by their stored ones. All lanes of a warp must call this, also those that are not `inside`.
    static CPMS_DEVICE void store(u8* array, u64 i, u64 length, float (&v)[4], bool inside) {
        float largest = 0.0f;
#pragma unroll
        for (int k = 0; k < 4; ++k) largest = larger(largest, fabsf(v[k]));
#pragma unroll
        for (int distance = 4; distance > 0; distance /= 2) {
            largest = larger(largest, __shfl_xor_sync(all_lanes, largest, distance));
        }
        int exponent = (int)(bits_of_single(largest) >> 23 & 0xFF) - 126;
        const bool small = exponent < least_block_exponent;
        // No scaled vector has exponents near 112. Larger values, infinity and NaN become the largest number.
        exponent = exponent > 112 ? 112 : exponent;
        const float steps = small ? 0.0f : single_of((u32)(127 + 15 - exponent) << 23);
        const float step = unit(exponent);
        u32 word[2] = {};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float count = fminf(rintf(fabsf(v[k]) * steps), 32767.0f);
            const u32 sign = bits_of_single(v[k]) >> 31;
            word[k / 2] |= ((u32)count | sign << 15) << (16 * (k % 2));
            v[k] = sign ? -count * step : count * step;
        }
        if (!inside) return;
        u32* const to = words(array, i, length);
        to[0] = word[0];
        to[1] = word[1];
        if (i % 32 == 0) ((short*)array)[i / 32] = (short)(small ? least_exponent : exponent);
    }
};

}  // namespace cpms
