// State of a segmented sum over a range of tiles: transposes in shared memory, row sums, and the rows' epilogues.
//
// A warp gathers 256 values in the order of memory, transposes them, and each lane sums eight consecutive entries
// (segmented sum, Blelloch 1993). Row sums lie in shared memory in the order of rows, so that epilogues of adjacent
// rows run in adjacent lanes. A tile costs two passes through shared memory and one warp scan.
#pragma once
#include "base/loads.cuh"
#include "base/tile_layout.cuh"
#include "persistent/warp_ranges.cuh"

namespace cpms {

// Layout of a tile in shared memory during the transpose: lanes store entry by entry and load eight consecutive
// entries each, by 16 bytes, in different banks.
template <class Word>
struct Transpose {
    using Staged = Word;
    static CPMS_DEVICE u32 position(u32 entry) {
        return entry / lane_entries * (lane_entries + 4) + entry % lane_entries;
    }
};
template <>
struct Transpose<double> {
    using Staged = double;
    static CPMS_DEVICE u32 position(u32 entry) { return entry + entry / 16 * 2; }
};
// Values of 8 bits are staged as 16, so that a lane's eight are one load of 16 bytes, whose banks need no gap.
struct NarrowTranspose {
    using Staged = u16;
    static CPMS_DEVICE u32 position(u32 entry) { return entry; }
};
template <>
struct Transpose<u8> : NarrowTranspose {};
template <>
struct Transpose<u16> : NarrowTranspose {};

// Stores a lane's values of a tile for the transpose.
template <class Word>
CPMS_DEVICE void transpose_store(u8* buffer, const Word (&word)[lane_entries]) {
    using Staged = typename Transpose<Word>::Staged;
#pragma unroll
    for (int k = 0; k < lane_entries; ++k) {
        ((Staged*)buffer)[Transpose<Word>::position(32 * k + threadIdx.x % 32)] = (Staged)word[k];
    }
}
template <class Word>
CPMS_DEVICE auto transpose_load(const u8* buffer) {
    using Staged = typename Transpose<Word>::Staged;
    constexpr int together = 16 / sizeof(Staged);
    Run<lane_entries * sizeof(Staged)> mine;
#pragma unroll
    for (int k = 0; k < lane_entries; k += together) {
        const Quad some =
            *(const Quad*)((const Staged*)buffer + Transpose<Word>::position(threadIdx.x % 32 * lane_entries + k));
#pragma unroll
        for (int w = 0; w < 4; ++w) mine.word[k * sizeof(Staged) / 4 + w] = some.word[w];
    }
    return mine;
}
// Writes the sums of rows, one after the other.
struct RowSums {
#if defined(__CUDA_ARCH__)
    u32 at;
    CPMS_DEVICE explicit RowSums(double* first) : at((u32)__cvta_generic_to_shared(first)) {}
    // One predicate covers the store, the increment and the reset.
    CPMS_DEVICE void close(u32 ends, double& sum) {
        asm volatile(
            "{.reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p st.shared.f64 [%0], %1;\n @p add.u32 %0, %0, 8;\n"
            " @p mov.f64 %1, 0d0000000000000000;}"
            : "+r"(at), "+d"(sum)
            : "r"(ends)
            : "memory");
    }
#else
    double* at;
    explicit RowSums(double* first) : at(first) {}
    void close(u32 ends, double& sum) {
        if (ends) {
            *at++ = sum;
            sum = 0.0;
        }
    }
#endif
};

// Shared memory of the warps: the range, if any, whose first row waits for other warps' carry-out, with this warp's
// part of that row. Its size is that of the block's warps only, since the first-level cache has the rest. A buffer
// holds a transposed tile of float64, which has a gap of two words after each 16 entries but the last.
constexpr int workspace_bytes = (tile_entries + tile_entries / 8 - 2) * sizeof(double);
struct alignas(16) Workspace {
    double pending_sum[persistent_warps];
    u32 pending_range[persistent_warps];

    // A warp's buffer: the values of a tile during the transpose, or the sums of rows that ended in it, at most one an
    // entry. The partial sum of the row with which the range began outlives both (see first_row_sum).
    CPMS_DEVICE u8* warp_buffer(u32 in_block) { return (u8*)(this + 1) + in_block * workspace_bytes; }
};
template <int Threads>
struct WorkspaceFor : Workspace {
    alignas(16) u8 warp_buffers[Threads / 32 * workspace_bytes];
};
// The partial sum of the row with which a warp's range began lies in the last gap of a transposed tile of float64. Row
// sums and tiles of narrower values end before it.
CPMS_DEVICE double& first_row_sum(u8* buffer) {
    constexpr u32 gap = workspace_bytes / sizeof(double) - 16 - 1;  // before the last 16 entries
    static_assert(gap >= tile_entries, "row sums would overwrite it");
    return ((double*)buffer)[gap];
}

// Known of a tile before its values arrive: which rows end in it, and the operands of the first rows' epilogues
// (epilogue.load(row)).
template <class Epilogue, int early>
struct EpiloguePrefetch {
    u32 row_ends, ends_before, rows_ended;
    typename Epilogue::Operands operands[early];

    // `row` is the row of the tile's first entry, and `flags` the lane's flag word (see Edges); a lane loads the
    // operands of `early` rows in advance. Operands of further rows are prefetched into the second-level cache, a
    // sector at a time, unless they are there anyhow.
    template <bool prefetches = true>
    CPMS_DEVICE void load(u32 flags, u32 row, u32 rows, const Epilogue& epilogue) {
        const u32 lane = threadIdx.x % 32;
        row_ends = flags & 0xFF, ends_before = flags >> 8;
        rows_ended = __shfl_sync(all_lanes, ends_before + __popc(row_ends), 31);
#pragma unroll
        for (int j = 0; j < early; ++j) {
            const u32 i = 32 * j + lane;
            // Loads are unconditional, so that they stay in flight: at the end of a branch the compiler waits for the
            // loads in it. Float64 sweeps (early == 1) lack the registers for that, and branch.
            if (early > 1 || rows_ended > 0)
                operands[j] = epilogue.load(smaller(row + (i < rows_ended ? i : 0), rows - 1));
        }
        if constexpr (prefetches) {
            if (rows_ended <= 32 * early) return;
#pragma unroll 1
            for (u32 i = 32 * early + Epilogue::prefetch_rows * lane; i < rows_ended;
                 i += 32 * Epilogue::prefetch_rows) {
                epilogue.prefetch(row + i);
            }
        }
    }
};

// The rows of a range as its tiles are summed. The first row may have begun in an earlier range; it is `open` until
// it ends.
struct SegmentState {
    u32 row;
    bool open;
    const bool began_open = open;  // `open` at the start of the range
    u32 row_ends = 0;              // of a lane in the last tile
    double carry = 0.0;            // partial sum of the open row, equal in all lanes

    CPMS_DEVICE bool first_row_ended() const { return began_open && !open; }
    // All lanes take part.
    CPMS_DEVICE bool last_row_open() const { return __shfl_sync(all_lanes, row_ends >> (lane_entries - 1), 31) == 0; }

    // Adds a tile: value(k) is a lane's k-th of eight. Calls epilogue.finish(row, sum, operands) for each row that
    // ends; for the first row, if it was open, one lane calls completed(sum, operands) instead.
    template <int later, int early, class Epilogue, class Value, class Completed>
    CPMS_DEVICE void accumulate(const EpiloguePrefetch<Epilogue, early>& prefetched, Value value, double* sums,
                                Epilogue& epilogue, Completed completed) {
        const u32 lane = threadIdx.x % 32, rows_ended = prefetched.rows_ended;
        row_ends = prefetched.row_ends;
        double* const mine = sums + prefetched.ends_before;
        RowSums put(mine);
        double sum = lane == 0 ? carry : 0.0;
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) {
            sum += value(k);
            put.close(row_ends & 1u << k, sum);
        }
        sum = segmented_scan(sum, lane, row_ends != 0);
        const double from_left = __shfl_up_sync(all_lanes, sum, 1);
        if (lane > 0 && row_ends != 0) *mine += from_left;
        carry = __shfl_sync(all_lanes, sum, 31);
        __syncwarp();
        const bool completes = open && rows_ended > 0;
        if (completes && lane == 0) completed(sums[0], prefetched.operands[0]);
#pragma unroll
        for (int j = 0; j < early; ++j) {
            const u32 i = 32 * j + lane;
            if (i >= completes && i < rows_ended) epilogue.finish(row + i, sums[i], prefetched.operands[j]);
        }
#pragma unroll 1
        for (u32 first = 32 * early; first < rows_ended; first += 32 * later) {
            typename Epilogue::Operands more[later];
#pragma unroll
            for (int j = 0; j < later; ++j)
                more[j] = epilogue.load(row + smaller(first + 32 * j + lane, rows_ended - 1));
#pragma unroll
            for (int j = 0; j < later; ++j) {
                const u32 i = first + 32 * j + lane;
                if (i < rows_ended) epilogue.finish(row + i, sums[i], more[j]);
            }
        }
        __syncwarp();
        open = open && rows_ended == 0;
        row += rows_ended;
    }
};

// Rows a lane whose operands are loaded before the sums exist, and rows at a time after that. Wider values leave
// fewer registers.
template <class Word>
constexpr int early_rows = sizeof(Word) == 8 ? 1 : 2;
template <class Word>
constexpr int later_rows = sizeof(Word) == 8 ? 1 : 3;

}  // namespace cpms
