// A loop over all entries of a CSR matrix with one thread an entry. Each thread finds its row by binary search in the
// row offsets, so that the work is balanced for rows of any length; an entry costs log2(rows) loads that caches serve.
#pragma once
#include "base/words.cuh"

namespace cpms {

// Calls work(edge, row) for every entry.
template <class Work>
CPMS_DEVICE void for_each_edge(const u32* starts, u32 rows, u32 edges, Work work) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u64 k = blockIdx.x * blockDim.x + threadIdx.x; k < edges; k += threads) {
        u32 low = 0, high = rows;  // invariant: starts[low] <= k < starts[high]
        while (high - low > 1) {
            const u32 middle = low + (high - low) / 2;
            if (starts[middle] <= k) {
                low = middle;
            } else {
                high = middle;
            }
        }
        work((u32)k, low);
    }
}

}  // namespace cpms
