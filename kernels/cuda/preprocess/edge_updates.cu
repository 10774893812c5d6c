// A graph in CSR by target after some of its edges are removed and others added, by merging sorted lists (Knuth, The
// Art of Computer Programming 3, section 5.2.4). Changes are few beside edges, so each warp takes a run of stored
// entries, finds by binary search which changes lie in its run, and moves its entries by as many places as the changes
// before them require. That reads and writes each stored entry once, with consecutive lanes at consecutive addresses.
#include "base/for_each_edge.cuh"
#include "base/warp.cuh"

namespace cpms {

constexpr u64 entries_of_a_warp = 1024;  // in a run

// Returns how many of an ascending list are below a value, or at most the value, if the number is from `low` to `high`.
template <bool or_equal>
CPMS_DEVICE u32 count_below(const u32* ascending, u32 low, u32 high, u64 value) {
    return partition_point(low, high, [&](u32 k) { return or_equal ? ascending[k] <= value : ascending[k] < value; });
}

// The entries of an ascending list from number `low` to before number `high`.
struct Part {
    u32 low, high;
};

// Returns the part of an ascending list whose values are from `begin` to below `end`.
CPMS_DEVICE Part part_within(const u32* ascending, u32 count, u64 begin, u64 end) {
    const u32 low = count_below<false>(ascending, 0, count, begin);
    return {low, count_below<false>(ascending, low, count, end)};
}

// Calls `copy(begin, end)` for runs of entries, one warp a run.
template <class Copy>
CPMS_DEVICE void for_each_run(u64 entries, Copy copy) {
    const u64 warps = (u64)gridDim.x * block_warps, warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (u64 begin = warp * entries_of_a_warp; begin < entries; begin += warps * entries_of_a_warp) {
        copy(begin, begin + entries_of_a_warp < entries ? begin + entries_of_a_warp : entries);
    }
}

// Finds where the copies of each edge (source, target) are stored: from first[k], and before after[k].
CPMS_KERNEL(256) find_edges(const u32* indptr, const u32* stored, const u32* sources, const u32* targets, u32 count,
                            u32* first, u32* after) {
    for_each_index(count, [&](u32 k) {
        const u32 low = indptr[targets[k]], high = indptr[targets[k] + 1];
        first[k] = count_below<false>(stored, low, high, sources[k]);
        after[k] = count_below<true>(stored, first[k], high, sources[k]);
    });
}

// Writes row pointers: a row begins later by each edge added to earlier rows, and earlier by each edge removed there.
// `entries` is the number of row pointers; `added` and `removed` are the rows of the changes, ascending.
CPMS_KERNEL(256) shift_rows(const u32* indptr, u64 entries, const u32* added, u32 added_count, const u32* removed,
                            u32 removed_count, u32* out) {
    for_each_run(entries, [&](u64 begin, u64 end) {
        const Part more = part_within(added, added_count, begin, end);
        const Part less = part_within(removed, removed_count, begin, end);
        for (u64 row = begin + threadIdx.x % 32; row < end; row += 32) {
            out[row] = indptr[row] + count_below<false>(added, more.low, more.high, row) -
                       count_below<false>(removed, less.low, less.high, row);
        }
    });
}

// Writes the sources of all edges that are left and of those that are new, and changes the out-degrees. `gone` are the
// places of removed edges, ascending; before[j] stored edges come before new edge j.
CPMS_KERNEL(256) merge_edges(const u32* stored, u64 edges, const u32* gone, u32 gone_count, const u32* before,
                             const u32* new_sources, u32 new_count, u32* degree, u32* out) {
    for_each_run(edges, [&](u64 begin, u64 end) {
        const Part less = part_within(gone, gone_count, begin, end), more = part_within(before, new_count, begin, end);
        for (u64 k = begin + threadIdx.x % 32; k < end; k += 32) {
            const u32 earlier = count_below<false>(gone, less.low, less.high, k);
            if (earlier < less.high && gone[earlier] == k) {
                atomicAdd(degree + stored[k], 0xFFFFFFFFu);  // subtracts 1 modulo 2^32
            } else {
                out[k - earlier + count_below<true>(before, more.low, more.high, k)] = stored[k];
            }
        }
    });
    for_each_index(new_count, [&](u32 j) {
        out[before[j] - count_below<false>(gone, 0, gone_count, before[j]) + j] = new_sources[j];
        atomicAdd(degree + new_sources[j], 1u);
    });
}

}  // namespace cpms
