// Sorted lists of (value, place) pairs in shared memory, larger values first and smaller places first among equals,
// and their merge without branches by a bitonic network (Batcher, 1968). A merge of n pairs costs log2(n) passes.
#pragma once
#include "base/loads.cuh"
#include "base/warp.cuh"

namespace cpms {

// An integer key with the order of the values. Both zeros are equal; NaN is `nothing`, below all numbers.
template <class Real>
struct Order : Native<Real> {
    using Key = typename Native<Real>::Word;
    static constexpr Key sign = (Key)1 << (8 * sizeof(Key) - 1);
    static constexpr Key infinity = sizeof(Key) == 8 ? (Key)(0x7FFull << 52) : (Key)(0xFFu << 23);
};

constexpr u32 nothing = 0;
constexpr u32 no_place = 0xFFFFFFFFu;

template <class Real, class Key = typename Order<Real>::Key>
CPMS_DEVICE Key key_of(Real value) {
    // By bits alone, since CuPy compiles with flush-to-zero for float32.
    constexpr Key sign = Order<Real>::sign;
    const Key bits = Order<Real>::bits(value), size = bits & ~sign;
    return size > Order<Real>::infinity ? (Key)nothing : bits & sign && size ? ~bits : size | sign;
}

// The least number whose key is at least `key`, which is not `nothing`; NaN if there is none.
template <class Real, class Key = typename Order<Real>::Key>
CPMS_DEVICE Real least_number(Key key) {
    constexpr Key sign = Order<Real>::sign, lowest = ~(sign | Order<Real>::infinity);  // key of -infinity
    const Key kept = key < lowest ? lowest : key;
    return Order<Real>::value(kept & sign ? kept ^ sign : ~kept);
}

template <class Key>
struct Entry {
    Key key;
    u32 place;

    CPMS_DEVICE bool precedes(const Entry& other) const {
        return (key > other.key) | ((key == other.key) & (place < other.place));
    }
};

// Calls work(i) for 0 to Count - 1, by the threads of a block.
template <u32 Count, class Work>
CPMS_DEVICE void for_each_in_block(Work work) {
#pragma unroll
    for (u32 base = 0; base < Count; base += block_threads) {
        const u32 i = base + threadIdx.x;
        if (Count % block_threads == 0 || i < Count) work(i);
    }
}

template <class Key, int Length>
struct Entries {
    Key key[Length];
    u32 place[Length];

    CPMS_DEVICE Entry<Key> at(u32 i) const { return {key[i], place[i]}; }
    CPMS_DEVICE void put(u32 i, const Entry<Key>& entry) {
        key[i] = entry.key;
        place[i] = entry.place;
    }
    CPMS_DEVICE void clear(u32 from) {
        for_each_in_block<Length>([&](u32 i) {
            if (i >= from) put(i, {nothing, no_place});
        });
    }

    // One step of a bitonic network: compares pairs at this distance; runs of `size` entries alternate between
    // descending and ascending order. At distances up to 32 a warp accesses the same 64 entries.
    CPMS_DEVICE void exchange(u32 size, u32 distance) {
        for_each_in_block<Length / 2>([&](u32 pair) {
            const u32 low = (pair & ~(distance - 1)) * 2 | (pair & (distance - 1)), high = low | distance;
            const Entry<Key> a = at(low), b = at(high);
            const bool swaps = b.precedes(a) == ((low & size) == 0);
            put(low, swaps ? b : a);
            put(high, swaps ? a : b);
        });
        if (distance > 32) {
            __syncthreads();
        } else {
            __syncwarp();
        }
    }

    // Sorts bitonic runs of `size` entries.
    CPMS_DEVICE void merge_bitonic(u32 size) {
        if (size > 64) __syncthreads();
#pragma unroll 1
        for (u32 distance = size / 2; distance > 0; distance /= 2) exchange(size, distance);
    }

    CPMS_DEVICE void sort() {
        __syncthreads();
#pragma unroll 1
        for (u32 size = 2; size <= Length; size *= 2) merge_bitonic(size);
        __syncthreads();
    }

    // Keeps the best of two sorted lists; one of a[i] and b[Length - 1 - i] is among them.
    template <int More>
    CPMS_DEVICE void merge(const Entries<Key, More>& other) {
        static_assert(More >= Length, "the other list must be as long");
        for_each_in_block<Length>([&](u32 i) {
            const Entry<Key> a = at(i), b = other.at(Length - 1 - i);
            put(i, b.precedes(a) ? b : a);
        });
        __syncthreads();
        merge_bitonic(Length);
        __syncthreads();
    }
};

}  // namespace cpms
