// The k largest of many values by filtering and merging: a block compares each value with the last entry of its own
// list and with the best last entry of any block; the few that pass are collected in shared memory and merged into the
// list when there are enough of them (as in Shanbhag, Pirk and Madden, 2018). The block that arrives last merges the
// blocks' lists. Values are read once.
#include "topk/bitonic_merge.cuh"

namespace cpms {

// State of the grid: the entry that k values are known to reach, and the number of finished blocks; both 0 between
// launches.
struct GridState {
    u64* threshold;
    u32* blocks_done;
};

// That entry in 64 bits, in order; with its place, if the key leaves room for it.
template <class Key>
struct ThresholdCode {
    static CPMS_DEVICE u64 of(const Entry<Key>& entry) { return entry.key; }
    static CPMS_DEVICE Entry<Key> entry(u64 threshold) { return {threshold, no_place}; }
};
template <>
struct ThresholdCode<u32> {
    static CPMS_DEVICE u64 of(const Entry<u32>& entry) { return (u64)entry.key << 32 | (u32)~entry.place; }
    static CPMS_DEVICE Entry<u32> entry(u64 threshold) { return {(u32)(threshold >> 32), ~(u32)threshold}; }
};

// A block's best K entries so far, of which k count, and the candidates for the next merge.
template <class Key, int K>
struct Selection {
    static constexpr u32 capacity = K > block_threads ? K : block_threads;
    static constexpr bool filters = K <= block_threads;  // else the threads' best entries say nothing about the k-th
    Entries<Key, K> best;
    Entries<Key, capacity> candidates;
    u64 seen[2];  // the grid's threshold, one tile old: one is read while the other is written
    u32 count;    // of candidates

    CPMS_DEVICE void begin() {
        best.clear(0);
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
    }

    CPMS_DEVICE void merge(u32 k, const GridState& grid) {
        candidates.clear(count);
        candidates.sort();
        best.merge(candidates);
        if (threadIdx.x == 0) {
            count = 0;
            const u64 reached = ThresholdCode<Key>::of(best.at(k - 1));
            // Either of `seen` will do: an old one costs an atomic operation that changes nothing.
            if (reached > seen[0]) atomicMax(grid.threshold, reached);
        }
        __syncthreads();
    }

    // Every thread offers its entries whose bit is set; returns whether the block had any. Where many threads have
    // some, each offers its best one first, since few of the others will then pass.
    template <int Each, class EntryOf>
    CPMS_DEVICE bool offer(u32 mask, u32 k, const GridState& grid, EntryOf entry_of) {
        bool any = false;
        while (const u32 threads = (u32)__syncthreads_count(mask != 0)) {
            any = true;
            const bool many = filters && Each > 1 && threads >= k && threads >= block_threads / 2;
            const u32 offered = many ? best_of<Each>(mask, entry_of) : mask;
            mask = (mask & ~offered) | append<Each>(offered, k, entry_of);
            __syncthreads();
            if (!many && count < capacity) break;
            merge(k, grid);
            if constexpr (filters) mask = beating<Each>(mask, best.at(k - 1), entry_of);
        }
        return any;
    }

  private:
    template <int Each, class EntryOf>
    static CPMS_DEVICE u32 best_of(u32 mask, EntryOf entry_of) {
        u32 which = 0;
        Entry<Key> best_one{nothing, no_place};
#pragma unroll
        for (int j = 0; j < Each; ++j) {
            const Entry<Key> entry = entry_of(j);
            const bool better = (mask >> j & 1) && (which == 0 || entry.precedes(best_one));
            which = better ? 1u << j : which;
            best_one = better ? entry : best_one;
        }
        return which;
    }

    template <int Each, class EntryOf>
    static CPMS_DEVICE u32 beating(u32 mask, const Entry<Key>& last, EntryOf entry_of) {
        u32 left = 0;
#pragma unroll
        for (int j = 0; j < Each; ++j) left |= (u32)((mask >> j & 1) && entry_of(j).precedes(last)) << j;
        return left;
    }

    // Returns the entries for which there is no room.
    template <int Each, class EntryOf>
    CPMS_DEVICE u32 append(u32 mask, u32 k, EntryOf entry_of) {
        const u32 lane = threadIdx.x % 32;
        const Entry<Key> last = best.at(k - 1);
        u32 waiting = 0;
#pragma unroll
        for (int j = 0; j < Each; ++j) {
            const Entry<Key> entry = entry_of(j);
            const bool passes = (mask >> j & 1) && entry.precedes(last);
            const u32 votes = __ballot_sync(all_lanes, passes);
            if (votes == 0) continue;
            const int leader = __ffs((int)votes) - 1;
            u32 at = 0;
            if (lane == (u32)leader) at = atomicAdd(&count, (u32)__popc(votes));
            at = __shfl_sync(all_lanes, at, leader) + __popc(votes & ((1u << lane) - 1));
            if (passes && at < capacity) candidates.put(at, entry);
            waiting |= (u32)(passes && at >= capacity) << j;
        }
        return waiting;
    }
};

template <class Real>
struct Tile {
    static constexpr int loads = 4, wide = 16 / sizeof(Real), each = loads * wide;
    static constexpr u32 values = block_threads * each;
    Run<16> part[loads];

    CPMS_DEVICE void load(const u8* first) {
#pragma unroll
        for (int q = 0; q < loads; ++q) {
            part[q] = load_run_bytes<16>(first + (q * block_threads + threadIdx.x) * 16, LastUse{});
        }
    }
    CPMS_DEVICE Real value(int j) const {
        using Key = typename Order<Real>::Key;
        return Order<Real>::value((Key)part[j / wide].template field<8 * sizeof(Real)>(j % wide));
    }
    static CPMS_DEVICE u32 place(int j) { return (j / wide * block_threads + threadIdx.x) * wide + j % wide; }
};

// Whole tiles of values. A block takes every gridDim.x-th in a permuted order: tile i is i * stride mod count, so
// that the first tiles are a sample of all values whatever their order.
struct Tiles {
    u32 begin;  // the first value at a multiple of 16 bytes
    u32 count;
    u32 stride;  // coprime to count
    u32 step;    // gridDim.x * stride mod count
};

template <class Real, int K, class Key>
CPMS_DEVICE void select_tiles(const Real* values, const Tiles& tiles, u32 k, const GridState& grid,
                              Selection<Key, K>& selection) {
    using Values = Tile<Real>;
    if (blockIdx.x >= tiles.count) return;
    const Real* const aligned = values + tiles.begin;
    u32 number = (u32)((u64)blockIdx.x * tiles.stride % tiles.count);
    Values next;
    next.load((const u8*)(aligned + (u64)number * Values::values));
    u64 threshold = 0;
    u32 side = 0;
#pragma unroll 1
    for (u32 i = blockIdx.x; i < tiles.count; i += gridDim.x) {
        const Values tile = next;
        const u32 first = tiles.begin + number * Values::values;
        number += number + tiles.step >= tiles.count ? tiles.step - tiles.count : tiles.step;
        if (i + gridDim.x < tiles.count) next.load((const u8*)(aligned + (u64)number * Values::values));
        const auto least_of = [first](const Entry<Key>& last) { return last.key + (Key)(first > last.place); };
        const Key own = least_of(selection.best.at(k - 1)),
                  seen = least_of(ThresholdCode<Key>::entry(selection.seen[side]));
        const Key least = own > seen ? own : seen;
        const bool all = least == nothing;
        const Real least_value = least_number<Real>(least);
        u32 mask = 0;
#pragma unroll
        for (int j = 0; j < Values::each; ++j) mask |= (u32)(all || tile.value(j) >= least_value) << j;
        if (threadIdx.x == 0) {  // the threshold loaded one tile ago has arrived
            selection.seen[side ^ 1] = threshold;
            threshold = *(const volatile u64*)grid.threshold;
        }
        side ^= 1;
        selection.template offer<Values::each>(
            mask, k, grid, [&](int j) { return Entry<Key>{key_of(tile.value(j)), first + Values::place(j)}; });
    }
}

// The few values before and after whole tiles.
template <class Real, int K, class Key>
CPMS_DEVICE void select_rest(const Real* values, u32 count, const Tiles& tiles, u32 k, const GridState& grid,
                             Selection<Key, K>& selection) {
    const u32 begin = tiles.begin, end = begin + tiles.count * Tile<Real>::values;
    const u32 rest = begin + (count - end);
#pragma unroll 1
    for (u32 base = 0; base < rest; base += block_threads) {
        const u32 i = base + threadIdx.x, at = i < rest ? i : rest - 1, place = at < begin ? at : at - begin + end;
        const Entry<Key> entry{key_of(values[place]), place};
        selection.template offer<1>(i < rest, k, grid, [&](int) { return entry; });
    }
}

// The blocks' lists, all first entries, then all second ones, and so on. Lists descend, so when one whole level has
// no candidate, no later one has.
template <int K, class Key>
CPMS_DEVICE void select_of_lists(const Key* keys, const u32* places, u32 k, const GridState& grid,
                                 Selection<Key, K>& selection) {
    constexpr u32 each = 4;
    const volatile Key* const list_key = keys;
    const volatile u32* const list_place = places;
    const u32 entries = k * gridDim.x;
    const Key threshold = ThresholdCode<Key>::entry(*(const volatile u64*)grid.threshold).key;
    bool any = true;
#pragma unroll 1
    for (u32 base = 0; any && base < entries; base += each * block_threads) {  // at least gridDim.x at a time
        Entry<Key> entry[each];
        u32 mask = 0;
#pragma unroll
        for (u32 j = 0; j < each; ++j) {
            const u32 i = base + j * block_threads + threadIdx.x, at = i < entries ? i : entries - 1;
            entry[j] = Entry<Key>{list_key[at], list_place[at]};
            mask |= (u32)(i < entries && entry[j].key >= threshold && entry[j].precedes(selection.best.at(k - 1))) << j;
        }
        any = selection.template offer<each>(mask, k, grid, [&](int j) { return entry[j]; });
    }
}

template <class Real, int K>
CPMS_DEVICE void topk(const Real* values, u32 count, const Tiles& tiles, u32 k, typename Order<Real>::Key* keys,
                      u32* places, const GridState& grid, Real* top, long long* top_places) {
    using Key = typename Order<Real>::Key;
    __shared__ Selection<Key, K> selection;
    __shared__ bool last;
    if (threadIdx.x == 0) selection.seen[0] = 0;
    selection.begin();
    select_tiles(values, tiles, k, grid, selection);
    if (blockIdx.x == gridDim.x - 1) select_rest(values, count, tiles, k, grid, selection);
    __syncthreads();
    selection.merge(k, grid);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < k; i += block_threads) {
        keys[i * gridDim.x + blockIdx.x] = selection.best.key[i];
        places[i * gridDim.x + blockIdx.x] = selection.best.place[i];
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(grid.blocks_done, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    selection.begin();
    select_of_lists(keys, places, k, grid, selection);
    __syncthreads();
    selection.merge(k, grid);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < k; i += block_threads) {
        const u32 place = selection.best.place[i];
        top[i] = values[place];
        top_places[i] = place;
    }
    if (threadIdx.x == 0) *grid.threshold = 0;
}

}  // namespace cpms

// `tiles` is passed on by reference; __grid_constant__ keeps the compiler from copying it to local memory for that.
#define CPMS_TOPK(NAME, REAL, K)                                                                                 \
    CPMS_KERNEL(256, 4) NAME(const REAL* values, unsigned count, const __grid_constant__ cpms::Tiles tiles,      \
                             unsigned k, cpms::Order<REAL>::Key* keys, unsigned* places,                         \
                             unsigned long long* threshold, unsigned* blocks_done, REAL* top,                    \
                             long long* top_places) {                                                            \
        cpms::topk<REAL, K>(values, count, tiles, k, keys, places, cpms::GridState{threshold, blocks_done}, top, \
                            top_places);                                                                         \
    }
