// Tiled SpMV: the values that a panel of entries reads are staged in shared memory, and entries refer to them by
// local indices of 16 bits (cache blocking, as in Im and Yelick, 2001, with an explicit list in place of a column
// range).
//
// A panel is a run of 256-entry tiles that one block processes, one range a warp. It lists the octets of nodes that
// its entries read. While a panel is summed, the values of the next one and the list of the one after it are in
// flight. A block takes consecutive panels, so that only its first row needs carry-out from other blocks. An entry
// costs 2 bytes of index and 2 bits of flags and row counts; an octet of a panel costs 4 bytes of list and its values
// once.
#pragma once
#include "base/shared_staging.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

struct Panels {
    const u32* block_panels;   // first panel of each block, and the end of the last
    const Quad* ranges;        // of each warp in each panel: first tile, number of tiles, row of its first entry; 0
    const u32* list_begins;    // of each panel in `lists`, and the end of the last; multiples of 4
    const u32* lists;          // octets of nodes
    const u16* local_indices;  // of each entry's value among those of its panel, in the order of entries
    const u16* row_end_flags;
    const u32* first_blocks;    // block in which the first row of each block begins
    u32 capacity, tiles, rows;  // octets of a list at most
    CarryOut carry_out;         // one a block
};

// Shared memory of the lists and values of two panels.
template <class Word>
struct PanelStaging {
    u32 capacity;

    CPMS_DEVICE Word* values(u32 panel) const { return staged_values<Word>(panel, capacity); }
    CPMS_DEVICE u32* list(u32 panel) const {
        return (u32*)(stage_bytes() + 2 * capacity * octet_nodes * sizeof(Word)) + (panel & 1) * capacity;
    }
    CPMS_DEVICE void fetch_list(const u32* lists, u32 panel, u32 begin, u32 end) const {
        for (u32 i = 4 * threadIdx.x; i < end - begin; i += 4 * blockDim.x) {
            copy_async<16>(list(panel) + i, lists + begin + i);
        }
    }
    CPMS_DEVICE void fetch_values(const u8* x, u32 panel, u32 begin, u32 end) const {
        constexpr u32 bytes = octet_nodes * sizeof(Word);
#pragma unroll 4
        for (u32 i = threadIdx.x; i < end - begin; i += blockDim.x) {
            copy_async<bytes>((u8*)values(panel) + i * bytes, x + (u64)list(panel)[i] * bytes);
        }
    }
};

// Rows that cross the warps' ranges of a panel, of two panels in turn: each warp's partial sums of its first and last
// row, for the warp that finishes these rows.
template <class Operands>
struct BoundaryRows {
    double head[2][persistent_warps], tail[2][persistent_warps];
    u32 row[2][persistent_warps];  // row of the range's first end, or none
    Operands operands[2][persistent_warps];
    // Of the block: the partial sum of its open row, and the row that began in an earlier block.
    double open, pending_sum;
    u32 pending_row;
    bool outside;  // no row has ended yet
};

// A warp's pipeline: its next range, and the indices and flags of the next two tiles.
struct PanelPrefetch {
    Quad range;
    Quad local_indices[2];
    u32 flags[2];

    CPMS_DEVICE static const Quad* range_of(const Panels& panels, u32 panel) {
        return panels.ranges + panel * (blockDim.x / 32) + threadIdx.x / 32;
    }
    CPMS_DEVICE void load(int place, const Panels& panels, u32 tile) {
        tile = smaller(tile, panels.tiles - 1);
        local_indices[place] = load_word((const Quad*)panels.local_indices + lane_part(tile), Streaming{});
        reload(flags[place], panels.row_end_flags + lane_part(tile), Streaming{});
    }
    template <class Word>
    CPMS_DEVICE void begin(const Panels& panels, PanelStaging<Word> staging) {
        const u32 panel = panels.block_panels[blockIdx.x];
        if (panel == panels.block_panels[blockIdx.x + 1]) return;
        staging.fetch_list(panels.lists, panel, panels.list_begins[panel], panels.list_begins[panel + 1]);
        range = load_word(range_of(panels, panel), ReadOnly{});
        load(0, panels, range.word[0]);
        load(1, panels, range.word[0] + 1);
        wait_for_copies();
    }
};

// Finishes the rows that ended in a panel but began before the range in which they ended. One warp does it: lane 0 has
// the row that was open when the panel began, and lane w + 1 the range of warp w, so a block has at most 31 warps.
template <class Operands, class Epilogue>
CPMS_DEVICE void finish_boundary_rows(BoundaryRows<Operands>& boundary, u32 parity, Epilogue& epilogue) {
    const u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const bool is_range = lane > 0 && lane <= warps;
    const u32 row = is_range ? boundary.row[parity][lane - 1] : none;
    const bool rows_ended = row != none, outside = boundary.outside;
    double sum = is_range ? boundary.tail[parity][lane - 1] : lane == 0 ? boundary.open : 0.0;
    sum = segmented_scan(sum, lane, rows_ended || lane == 0);
    const double before = __shfl_up_sync(all_lanes, sum, 1);
    const u32 lanes_ended = __ballot_sync(all_lanes, rows_ended);
    const bool began_outside = rows_ended && outside && __ffs(lanes_ended) == (int)lane + 1;
    if (rows_ended) {
        const double whole = boundary.head[parity][lane - 1] + before;
        if (began_outside) {
            boundary.pending_row = row;
            boundary.pending_sum = whole;
        } else {
            epilogue.finish(row, whole, boundary.operands[parity][lane - 1]);
        }
    }
    __syncwarp();
    if (lane == warps) boundary.open = sum;
    if (lane == 0) boundary.outside = outside && !lanes_ended;
    __syncwarp();
}

// One sweep. PanelPrefetch::begin has run before, in the barrier before the sweep. Lists and values of panels lie in
// two buffers each, by the parity of the panel.
template <class F, class Epilogue>
CPMS_DEVICE void tiled_gather(const Panels& panels, PanelPrefetch& upcoming, const u8* x, Workspace& workspace,
                              Epilogue& epilogue) {
    using Word = typename WideningLoad<F>::Word;
    using Operands = typename Epilogue::Operands;
    __shared__ BoundaryRows<Operands> boundary;
    const u32 in_block = threadIdx.x / 32, warps = blockDim.x / 32;
    const bool leads = threadIdx.x % 32 == 0;
    const u32 first = panels.block_panels[blockIdx.x], last = panels.block_panels[blockIdx.x + 1];
    if (first == last) {
        // A row may begin before this block and end after it, and its gather waits for every block between.
        if (threadIdx.x == 0) panels.carry_out.publish(blockIdx.x, 0.0);
        return;
    }
    const PanelStaging<Word> staging{panels.capacity};
    double* const sums = (double*)workspace.warp_buffer(in_block);
    // Where the lists of this panel, the next and the one after that begin, and where the last of these ends.
    u32 begins[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) begins[k] = panels.list_begins[smaller(first + k, last)];
    staging.fetch_values(x, first, begins[0], begins[1]);
    staging.fetch_list(panels.lists, first + 1, begins[1], begins[2]);
    if (threadIdx.x == 0) {
        boundary.open = 0.0;
        boundary.pending_row = none;
        boundary.outside = true;
    }
    bool ready = true;  // whether `upcoming` holds the first tiles of the next range: not after one tile, or none
    EpiloguePrefetch<Epilogue, early_rows<Word>> prefetched;
    prefetched.load(upcoming.flags[0], upcoming.range.word[2], panels.rows, epilogue);
    for (u32 panel = first; panel < last; ++panel) {
        const u32 parity = panel & 1;
        wait_for_copies();
        __syncthreads();
        staging.fetch_values(x, panel + 1, begins[1], begins[2]);
        staging.fetch_list(panels.lists, panel + 2, begins[2], begins[3]);
#pragma unroll
        for (int k = 0; k < 3; ++k) begins[k] = begins[k + 1];
        begins[3] = load_word(panels.list_begins + smaller(panel + 4, last), ReadOnly{});
        const u32 tile = upcoming.range.word[0], tiles = upcoming.range.word[1], first_row = upcoming.range.word[2];
        SegmentState rows{first_row, true};  // as if open, so that one warp finishes all rows that cross ranges
        upcoming.range = load_word(PanelPrefetch::range_of(panels, smaller(panel + 1, last - 1)), ReadOnly{});
        if (panel > first && in_block == panel % warps) finish_boundary_rows(boundary, parity ^ 1, epilogue);
        if (!ready) {
            upcoming.load(0, panels, tile);
            upcoming.load(1, panels, tile + 1);
            prefetched.load(upcoming.flags[0], first_row, panels.rows, epilogue);
        }
        ready = tiles >= 2;
        const Word* const values = staging.values(panel);
        for (u32 i = 0; i < tiles; ++i) {
            const Quad local_indices = upcoming.local_indices[0];
            const auto now = prefetched;
            upcoming.local_indices[0] = upcoming.local_indices[1];
            prefetched.load(upcoming.flags[1], i + 1 < tiles ? rows.row + now.rows_ended : upcoming.range.word[2],
                            panels.rows, epilogue);
            upcoming.load(1, panels, i + 2 < tiles ? tile + i + 2 : upcoming.range.word[0] + (i + 2 - tiles));
            Word word[lane_entries];
#pragma unroll
            for (int k = 0; k < lane_entries; ++k) word[k] = values[local_indices.word[k / 2] >> 16 * (k % 2) & 0xFFFF];
            rows.template accumulate<later_rows<Word>>(
                now, [&](int k) { return WideningLoad<F>::value(word[k]); }, sums, epilogue,
                [&](double sum, const Operands& operands) {
                    boundary.head[parity][in_block] = sum;
                    boundary.operands[parity][in_block] = operands;
                });
        }
        if (leads) {
            boundary.tail[parity][in_block] = rows.carry;
            boundary.row[parity][in_block] = rows.first_row_ended() ? first_row : none;
        }
    }
    __syncthreads();
    if (in_block == 0) {
        finish_boundary_rows(boundary, (last - 1) & 1, epilogue);
        // A block publishes its own partial sum before it waits for others.
        if (leads) panels.carry_out.publish(blockIdx.x, boundary.open);
        if (boundary.pending_row != none) {
            const Operands operands = epilogue.load(boundary.pending_row);
            const u32 from = panels.first_blocks[blockIdx.x];
            const double sum = boundary.pending_sum + panels.carry_out.gather(from, blockIdx.x, threadIdx.x % 32);
            if (leads) epilogue.finish(boundary.pending_row, sum, operands);
        }
    }
}

}  // namespace cpms
