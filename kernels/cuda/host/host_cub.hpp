// CUB's block primitives as plain loops, for tests on a processor: the same interface, sums from left to right.
#pragma once

namespace cub {

// Shared memory where every thread stores a value and reads any of them.
template <class Value, int Threads>
struct Stored {
    Value of[Threads];

    void put(const Value& value) {
        of[threadIdx.x] = value;
        __syncthreads();
    }
};

enum BlockScanAlgorithm { BLOCK_SCAN_WARP_SCANS };

template <class Value, int Threads, BlockScanAlgorithm>
struct BlockScan {
    using TempStorage = Stored<Value, Threads>;
    TempStorage& stored;

    explicit BlockScan(TempStorage& storage) : stored(storage) {}

    template <class Operation>
    void ExclusiveScan(const Value& mine, Value& before, const Value& initial, Operation join, Value& whole) {
        stored.put(mine);
        before = initial;
        for (unsigned t = 0; t < threadIdx.x; ++t) before = join(before, stored.of[t]);
        whole = stored.of[0];
        for (unsigned t = 1; t < (unsigned)Threads; ++t) whole = join(whole, stored.of[t]);
        __syncthreads();
    }
};

template <class Value, int Threads>
struct BlockReduce {
    using TempStorage = Stored<Value, Threads>;
    TempStorage& stored;

    explicit BlockReduce(TempStorage& storage) : stored(storage) {}

    template <class Operation>
    Value Reduce(const Value& mine, Operation join) {
        stored.put(mine);
        Value all = stored.of[0];
        if (threadIdx.x == 0) {
            for (unsigned t = 1; t < (unsigned)Threads; ++t) all = join(all, stored.of[t]);
        }
        return all;
    }
};

template <class Value, int Threads, int Items>
struct BlockExchange {
    struct TempStorage {
        Value of[Threads * Items];
    };
    TempStorage& stored;

    explicit BlockExchange(TempStorage& storage) : stored(storage) {}

    // From items 32 apart within a warp's part to consecutive items.
    void WarpStripedToBlocked(const Value (&striped)[Items], Value (&blocked)[Items]) {
        const unsigned lane = threadIdx.x % 32, first = (threadIdx.x - lane) * Items;
        for (int k = 0; k < Items; ++k) stored.of[first + 32 * k + lane] = striped[k];
        __syncwarp();
        for (int k = 0; k < Items; ++k) blocked[k] = stored.of[first + lane * Items + k];
    }
};

}  // namespace cub
