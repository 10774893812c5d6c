// A block of 32 values in block floating point, encoded by a warp.
#pragma once
#include "base/warp.cuh"
#include "product/block_float.cuh"

namespace cpms {

// Stores the values of the warp's lanes as one block of an array of n values; returns what a reader will find. `inside`
// is false for lanes beyond the end of the array.
template <int Width>
CPMS_DEVICE double store_block(u8* array, u64 block, u64 n, double value, bool inside) {
    using F = BlockFloat<Width>;
    const u32 lane = threadIdx.x % 32;
    const u64 bits = inside ? bits_of(value) : 0;
    const u64 size = bits & 0x7FFFFFFFFFFFFFFFull;
    const double largest = warp_reduce(value_of(size), Larger{});
    const int found = (int)(bits_of(largest) >> 52) - 1022;
    const int exponent = found < least_exponent ? least_exponent : found;
    // Exact but for what rounds to 0 anyway; ties to even, as the default rounding has them.
    const double steps = rint(value_of(size) * power_of_two(Width - 1 - exponent));
    const u32 count = steps > (double)F::magnitude ? F::magnitude : (u32)steps;
    const u32 field = (bits >> 63 ? F::magnitude + 1 : 0) | count;
    if (lane == 0) ((u16*)array)[block] = (u16)(short)exponent;
    u32* const words = (u32*)(array + F::words_at(n)) + block * Width;
    if constexpr (Width == 32) {
        words[lane] = field;
    } else if constexpr (Width == 16) {
        ((u16*)words)[lane] = (u16)field;
    } else {
        // Word `lane` has parts of up to three fields.
        const int first = 32 * (int)lane / Width;
        u32 word = 0;
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            const int other = first + c, at = other * Width - 32 * (int)lane;
            const u32 its = __shfl_sync(all_lanes, field, other < 32 ? other : 31);
            if (other < 32 && at < 32) word |= at >= 0 ? its << at : its >> -at;
        }
        if (lane < Width) words[lane] = word;
    }
    return Decode<F>::value(nullptr, BlockField{field, exponent});
}

}  // namespace cpms
