// Binary searches in ascending lists, and a loop over all entries of a CSR matrix with one thread an entry. Each thread
// finds its row in the row offsets, so that the work is balanced for rows of any length; an entry costs log2(rows)
// loads that caches serve.
#pragma once
#include "base/words.cuh"

namespace cpms {

// The first number from `low` to before `high` for which `is_before` does not hold, or `high`. It holds for the numbers
// before that, and for none after (std::partition_point).
template <class IsBefore>
CPMS_DEVICE u32 partition_point(u32 low, u32 high, IsBefore is_before) {
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (is_before(middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The row of an entry, where row k has the entries starts[k] to starts[k + 1] - 1; it is `low` or later and before
// `high`.
CPMS_DEVICE u32 row_of(const u32* starts, u32 low, u32 high, u32 entry) {
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        (starts[middle] <= entry ? low : high) = middle;
    }
    return low;
}

// Calls work(edge, row) for every entry.
template <class Work>
CPMS_DEVICE void for_each_edge(const u32* starts, u32 rows, u32 edges, Work work) {
    for_each_index(edges, [&](u32 edge) { work(edge, row_of(starts, 0, rows, edge)); });
}

}  // namespace cpms
