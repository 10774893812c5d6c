// Edges one by one, a thread each, and the rows they are in.
#pragma once
#include "base/words.cuh"

namespace cpms {

// Calls work(edge, row).
template <class Work>
CPMS_DEVICE void for_each_edge(const u32* starts, u32 rows, u32 edges, Work work) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u64 k = blockIdx.x * blockDim.x + threadIdx.x; k < edges; k += threads) {
        u32 low = 0, high = rows;  // starts[low] <= k < starts[high]
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
