// Totals of a low sweep as integers that count their blocks themselves: who waits for all blocks has the totals once all
// have come, without another trip to memory. Sums of integers do not depend on the order of blocks either.
#pragma once
#include "base/tile_layout.cuh"
#include "persistent/grid_sync.cuh"

namespace cpms {

#if defined(__CUDA_ARCH__)
CPMS_DEVICE void count(u64* at, u64 number) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(number) : "memory");
}
CPMS_DEVICE u64 glimpsed(const u64* word) {
    u64 found;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(word) : "memory");
    return found;
}
CPMS_DEVICE u32 highest_byte(u64 word) { return (63 - __clzll((long long)word)) / 8; }
#else
CPMS_DEVICE void count(u64* at, u64 number) { *at += number; }
CPMS_DEVICE u64 glimpsed(const u64* word) {
    host::pass();
    return *word;
}
CPMS_DEVICE u32 highest_byte(u64 word) { return (63 - __builtin_clzll(word)) / 8; }
#endif

// The exponent of a number, of those that are far from overflow and underflow.
CPMS_DEVICE int exponent_of(double number) {
    const int exponent = (int)(bits_of(number) >> 52 & 0x7FF) - 1023;
    return exponent < -900 ? -900 : exponent > 900 ? 900 : exponent;
}

// Three words serve a number, each of which counts blocks, up to 255, in its upper byte.

// A block's part of a sum: so many 2^(size - 11), of what is left so many 2^(size - 58), and so many 2^(size - 105), where
// sums are about as large as 2^size. Of the 56 bits that a word has for the sum a part takes 48 at most: those beyond
// 2^(size + 36) are cut.
struct CountedSum {
    int size, word;

    CPMS_DEVICE int unit(int of_word) const { return size - 11 - 47 * of_word; }
    CPMS_DEVICE u64 of_block(double part) const {
        double units = 0.0;
#pragma unroll
        for (int w = 0; w < 3; ++w) {
            const double here = cut(part * power_of_two(-unit(w)));
            part -= here * power_of_two(unit(w));
            if (w == word) units = here;
        }
        return (u64)(long long)units + (1ull << 56);
    }
    static CPMS_DEVICE u32 blocks(u64 found) { return (u32)((found + (1ull << 55)) >> 56); }
    CPMS_DEVICE double of_all(u64 found) const {
        return (double)((long long)(found << 8) >> 8) * power_of_two(unit(word));
    }

  private:
    static CPMS_DEVICE double cut(double number) {
        constexpr double most = 140737488355328.0;  // 2^47
        return rint(fmin(fmax(number, -most), most));
    }
};

// A block's part of a largest value: its place among the quarters of octaves near the one expected, and wider ones beyond.
// A byte of a word counts the blocks of a place.
struct CountedLargest {
    int expected, word;
    static constexpr u32 nothing = 0, below = 1, near = 2, above = 18, far_above = 19, beyond = 20;

    CPMS_DEVICE u64 of_block(double part) const {
        const int quarter = (int)((long long)bits_of(part) >> 50) - 4 * (1023 + expected);
        u32 place = quarter < -8 ? below : quarter + 8 + near;
        if (quarter >= 8) place = quarter < 16 ? above : quarter < 32 ? far_above : beyond;
        if (!(part > 0.0)) place = nothing;
        return (1ull << 56) + (place / 7 == (u32)word ? 1ull << 8 * (place % 7) : 0);
    }
    static CPMS_DEVICE u32 blocks(u64 found) { return (u32)(found >> 56); }
    // The highest place of this word with a block.
    CPMS_DEVICE u32 place(u64 found) const {
        const u64 places = found << 8 >> 8;
        return places ? 7 * word + highest_byte(places) : nothing;
    }
    // What nothing in that place exceeds; `most` if it has no end.
    CPMS_DEVICE double end(u32 place, double most) const {
        if (place == nothing || place == beyond) return place == nothing ? 0.0 : most;
        const int quarter = place == below ? -9 : place == above ? 15 : place == far_above ? 31 : (int)(place - near) - 8;
        return value_of(((u64)(4 * (1023 + expected) + quarter + 1) << 50) - 1);
    }
};

// Three sums and a largest value over a grid, by one warp of each block: eight lanes have one of the four each, three of
// these a word each. Words go on and on, and two of each are in use in turn, as in Grid.
struct Counted {
    static constexpr u32 totals = 4, words = 3 * totals;
    u64 before[2][words];
    double of_warps[totals][resident_warps], total[totals];

    CPMS_DEVICE void begin(const Grid& grid) {
        const u32 half = threadIdx.x / words, at = threadIdx.x % words;
        if (half < 2) before[half][at] = glimpsed(grid.words(half) + at);
    }

    // As Totals::over_grid, for sums that are about as large as `size`. What all get for the largest value none exceeds:
    // near what is expected a quarter of an octave more at most, and far above it the first of the sums.
    template <class Meanwhile>
    CPMS_DEVICE void over_grid(const Grid& grid, Totals<4, 1>& of, double size, double expected, Meanwhile meanwhile) {
        using Each = Totals<4, 1>;
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (u32 q = 0; q < totals; ++q) {
            const double mine = Each::joined(q, of.value[q]);
            if (lane == 0) of_warps[q][warp] = mine;
        }
        __syncthreads();
        if (threadIdx.x == 32) grid.come();
        const u32 q = lane / 8, part = lane % 8, at = 3 * q + part;
        const CountedSum sum{exponent_of(size), (int)part};
        const CountedLargest largest{exponent_of(expected), (int)part};
        u64* word = nullptr;
        u32 half = 0;
        if (warp == 0) {
            half = grid.which();
            word = grid.words(half) + at;
            double mine = Each::join(q, of_warps[q][part], part + 8 < blockDim.x / 32 ? of_warps[q][part + 8] : 0.0);
#pragma unroll
            for (u32 distance = 4; distance > 0; distance /= 2) {
                mine = Each::join(q, mine, __shfl_xor_sync(all_lanes, mine, distance));
            }
            if (part < 3) count(word, q < 3 ? sum.of_block(mine) : largest.of_block(mine));
        }
        meanwhile();
        if (warp == 0) {
            __syncwarp();  // all know which half
            const u32 all = lane == 7 ? grid.goes_on() : 0;
            u64 found = 0;
            bool here = true;
            do {
                if (lane == 7) here = grid.came_by(all);
                if (part < 3) {
                    found = glimpsed(word) - before[half][at];
                    here = (q < 3 ? CountedSum::blocks(found) : CountedLargest::blocks(found)) == gridDim.x;
                }
            } while (__ballot_sync(all_lanes, here) != all_lanes);
            if (lane == 7) acquire_memory();
            if (part < 3) before[half][at] += found;
            // What the first of three words gets from the others.
            const double mine = sum.of_all(found), second = __shfl_xor_sync(all_lanes, mine, 1);
            const double all_three = mine + (second + __shfl_xor_sync(all_lanes, mine, 2));
            const u32 place = largest.place(found), by_second = __shfl_xor_sync(all_lanes, place, 1);
            const u32 highest = larger(place, larger(by_second, __shfl_xor_sync(all_lanes, place, 2)));
            const double l1 = __shfl_sync(all_lanes, all_three, 0);
            if (part == 0) total[q] = q < 3 ? all_three : largest.end(highest, l1);
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < totals; ++q) of.value[q] = total[q];
    }
};

}  // namespace cpms
