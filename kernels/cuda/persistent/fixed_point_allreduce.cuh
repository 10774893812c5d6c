// All-reduce beside the grid barrier. A block adds its part as a fixed-point integer to a 64-bit word whose top byte
// counts arrivals, so a read that finds all arrivals has found the sum. The words order no other memory: the barrier's
// own counter releases and acquires what the sweep stored, and its fence does not delay the words.
//
// Integer sums do not depend on order, so results are bitwise reproducible (as in the reproducible summation of Demmel
// and Nguyen, 2013, here with three words). It saves the read of all partial values after the barrier, one trip to the
// second-level cache, which matters where a sweep is short. At most 255 blocks take part.
#pragma once
#include "base/tile_layout.cuh"
#include "persistent/grid_sync.cuh"

namespace cpms {

#if defined(__CUDA_ARCH__)
CPMS_DEVICE void add_relaxed(u64* at, u64 number) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(number) : "memory");
}
CPMS_DEVICE u64 load_relaxed(const u64* word) {
    u64 found;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(word) : "memory");
    return found;
}
CPMS_DEVICE u32 highest_byte(u64 word) { return (63 - __clzll((long long)word)) / 8; }
#else
CPMS_DEVICE void add_relaxed(u64* at, u64 number) { *at += number; }
CPMS_DEVICE u64 load_relaxed(const u64* word) {
    host::pass();
    return *word;
}
CPMS_DEVICE u32 highest_byte(u64 word) { return (63 - __builtin_clzll(word)) / 8; }
#endif

// The binary exponent of a number, clamped so that its power of two and the inverse neither overflow nor underflow.
CPMS_DEVICE int exponent_of(double number) {
    const int exponent = (int)(bits_of(number) >> 52 & 0x7FF) - 1023;
    return exponent < -900 ? -900 : exponent > 900 ? 900 : exponent;
}

// A block's part of a sum of about 2^exponent, as multiples of 2^(exponent - 11), then of 2^(exponent - 58), then of
// 2^(exponent - 105), in three words, each of which counts up to 255 blocks in its top byte. `word` is the place of one
// among the three. A part is at most 2^47 in size, so that 255 of them stay below 2^55 and cannot overflow the other 56
// bits of a word.
//
// A part beyond 2^(exponent + 36) is clamped. The exponent is that of ||r||_1 one sweep before, so r must have grown
// 2^36 times in a sweep. Then the totals are wrong, and no inner sweep detects that; the next residual sweep does,
// since it computes the residual of the new x.
struct FixedPointSum {
    int exponent, word;

    CPMS_DEVICE int unit(int of_word) const { return exponent - 11 - 47 * of_word; }
    CPMS_DEVICE u64 encode(double part) const {
        double units = 0.0;
#pragma unroll
        for (int w = 0; w < 3; ++w) {
            const double multiple = clamp(part * power_of_two(-unit(w)));
            part -= multiple * power_of_two(unit(w));
            if (w == word) units = multiple;
        }
        return (u64)(long long)units + (1ull << 56);
    }
    // A negative sum borrows one from the count, which the addition of half a count undoes.
    static CPMS_DEVICE u32 arrivals(u64 found) { return (u32)((found + (1ull << 55)) >> 56); }
    CPMS_DEVICE double decode(u64 found) const {
        return (double)((long long)(found << 8) >> 8) * power_of_two(unit(word));
    }

  private:
    static CPMS_DEVICE double clamp(double number) {
        constexpr double limit = 140737488355328.0;  // 2^47
        return rint(fmin(fmax(number, -limit), limit));
    }
};

// A block's part of a maximum: one of 21 histogram buckets, seven a word. Near the expected value a bucket is an
// exponent with the first two mantissa bits, a quarter of a power of two, so that its upper bound is at most 25 % above
// its values; buckets beyond are wider. A byte of a word counts the blocks in a bucket, and the top byte all blocks.
struct FixedPointMax {
    int expected, word;  // binary exponent of the expected value; place among the three words
    static constexpr u32 nothing = 0, below = 1, near = 2, above = 18, far_above = 19, beyond = 20;

    CPMS_DEVICE u64 encode(double part) const {
        const int quarter = (int)((long long)bits_of(part) >> 50) - 4 * (1023 + expected);
        u32 bucket = quarter < -8 ? below : quarter + 8 + near;
        if (quarter >= 8) bucket = quarter < 16 ? above : quarter < 32 ? far_above : beyond;
        if (!(part > 0.0)) bucket = nothing;
        return (1ull << 56) + (bucket / 7 == (u32)word ? 1ull << 8 * (bucket % 7) : 0);
    }
    static CPMS_DEVICE u32 arrivals(u64 found) { return (u32)(found >> 56); }
    // The highest nonempty bucket of this word.
    CPMS_DEVICE u32 bucket(u64 found) const {
        const u64 buckets = found << 8 >> 8;
        return buckets ? 7 * word + highest_byte(buckets) : nothing;
    }
    // An upper bound of the values in a bucket; `fallback` if the bucket is unbounded.
    CPMS_DEVICE double upper_bound(u32 bucket, double fallback) const {
        if (bucket == nothing || bucket == beyond) return bucket == nothing ? 0.0 : fallback;
        const int quarter = bucket == below       ? -9
                            : bucket == above     ? 15
                            : bucket == far_above ? 31
                                                  : (int)(bucket - near) - 8;
        return value_of(((u64)(4 * (1023 + expected) + quarter + 1) << 50) - 1);
    }
};

// Three sums and one maximum over the grid. One warp of each block does it: eight lanes have one of the four numbers,
// three of these a word each. Words only grow, and two of each are used in turn, as in Grid.
struct FixedPointAllReduce {
    static constexpr u32 total_count = 4, words = 3 * total_count;
    u64 before[2][words];  // the words' numbers before the next reduction
    double warp_partials[total_count][persistent_warps], total[total_count];

    // Once a launch, before a grid barrier that precedes the first reduction: no block may have added to a word yet.
    CPMS_DEVICE void begin(const Grid& grid) {
        const u32 half = threadIdx.x / words, at = threadIdx.x % words;
        if (half < 2) before[half][at] = load_relaxed(grid.words(half) + at);
    }

    // As GridReduce::all_reduce, for sums of about `size`, ||r||_1 of the sweep before; `expected` is the largest |r /
    // degree| of that sweep. Both are equal in all blocks. The maximum is an upper bound: at most 25 % above it near
    // `expected`, and the first of the sums far above that.
    template <class Overlapped>
    CPMS_DEVICE void all_reduce(const Grid& grid, GridReduce<4, 1>& of, double size, double expected,
                                Overlapped overlapped) {
        using Each = GridReduce<4, 1>;
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (u32 q = 0; q < total_count; ++q) {
            const double mine = Each::warp_reduced(q, of.value[q]);
            if (lane == 0) warp_partials[q][warp] = mine;
        }
        __syncthreads();
        if (threadIdx.x == 32) grid.arrive();  // another warp adds meanwhile, without a wait for the fence
        const u32 q = lane / 8, part = lane % 8, at = 3 * q + part;
        const FixedPointSum sum{exponent_of(size), (int)part};
        const FixedPointMax largest{exponent_of(expected), (int)part};
        u64* word = nullptr;
        u32 half = 0;
        if (warp == 0) {
            half = grid.parity();
            word = grid.words(half) + at;
            double mine =
                Each::combine(q, warp_partials[q][part], part + 8 < blockDim.x / 32 ? warp_partials[q][part + 8] : 0.0);
#pragma unroll
            for (u32 distance = 4; distance > 0; distance /= 2) {
                mine = Each::combine(q, mine, __shfl_xor_sync(all_lanes, mine, distance));
            }
            if (part < 3) add_relaxed(word, q < 3 ? sum.encode(mine) : largest.encode(mine));
        }
        overlapped();
        if (warp == 0) {
            __syncwarp();  // all lanes have read the parity
            const u32 target = lane == 7 ? grid.advance() : 0;
            u64 found = 0;
            bool complete = true;
            do {
                if (lane == 7) complete = grid.all_arrived(target);  // a lane that polls no word
                if (part < 3) {
                    found = load_relaxed(word) - before[half][at];
                    complete = (q < 3 ? FixedPointSum::arrivals(found) : FixedPointMax::arrivals(found)) == gridDim.x;
                }
            } while (__ballot_sync(all_lanes, complete) != all_lanes);
            if (lane == 7) acquire_memory();
            if (part < 3) before[half][at] += found;
            // The lane of the first word collects those of the other two.
            const double mine = sum.decode(found), second = __shfl_xor_sync(all_lanes, mine, 1);
            const double whole_sum = mine + (second + __shfl_xor_sync(all_lanes, mine, 2));
            const u32 bucket = largest.bucket(found), by_second = __shfl_xor_sync(all_lanes, bucket, 1);
            const u32 highest = larger(bucket, larger(by_second, __shfl_xor_sync(all_lanes, bucket, 2)));
            const double l1 = __shfl_sync(all_lanes, whole_sum, 0);
            if (part == 0) total[q] = q < 3 ? whole_sum : largest.upper_bound(highest, l1);
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < total_count; ++q) of.value[q] = total[q];
    }
};

}  // namespace cpms
