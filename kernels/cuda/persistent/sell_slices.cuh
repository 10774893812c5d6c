// Row sums over binned values in SELL-C-sigma slices (Kreutzer et al., 2014) with C = 32.
//
// A lane sums a chunk: a row, or a part of a long row. Within a window of rows, chunks are sorted by length and
// grouped by 32 into slices, one chunk a lane, padded to a multiple of four columns (a column group). The values of a
// bin are staged in shared memory, where 16 bits name one; those of the next bin are in flight. The sums of a
// window's chunks lie in shared memory until the window is complete, and then threads finish its rows in order. An
// entry costs 2 bytes of index and its value in shared memory.
#pragma once
#include "base/shared_staging.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

struct SellSlices {
    const u32* block_windows;  // first window of each block, and the end of the last
    const u32* window_bins;    // bin of each window
    const u32* value_begins;   // of each bin, in octets of values, and the end of the last; multiples of 4
    const u32* chunk_begins;   // first chunk of each window, and the end of the last
    const u32* first_rows;     // row of that chunk; after the last window, the number of rows
    const Pair* warp_starts;   // first slice, and its first column group, of each warp of each block
    // Column groups of each slice, and a bit at a warp's last slice of a window; a warp has at least one slice in each.
    const u32* slice_words;
    const u16* slice_chunks;   // of each lane of each slice, among those of its window; or no_chunk
    const u16* local_indices;  // by column group, then by lane, of four values among those of a bin
    const u16* last_chunks;    // of each row among the chunks of its window; null where every row is one chunk
    const u32* first_blocks;   // block in which the first row of each block begins
    u32 capacity;              // octets of a bin at most, and one more at the end, to which padding refers
    CarryOut carry_out;        // one a block, of rows that continue in the next

    static constexpr u32 last_of_window = 1u << 31;
    static constexpr u16 no_chunk = 0xFFFF;
};

constexpr u32 max_window_sums = 2560;  // chunks of a window
// Shared memory of two windows' sums; segmented sums use it between sweeps.
struct SellWorkspace : Workspace {
    alignas(16) double sums[2 * max_window_sums];
    static_assert(sizeof(WorkspaceFor<persistent_threads>::warp_buffers) <= sizeof(sums), "no room for segmented sums");
};

// Shared memory of the values of two bins.
template <class Word>
struct BinValues {
    u32 capacity;

    CPMS_DEVICE Word* of(u32 bin) const { return staged_values<Word>(bin, capacity); }
    CPMS_DEVICE void fetch(const u8* binned, u32 bin, u32 begin, u32 end) const {
        constexpr u32 bytes = octet_nodes * sizeof(Word), in_flight = 16;
        const u32 copies = (end - begin) * bytes / in_flight;
        const u8* const from = binned + (u64)begin * bytes;
        const FractionalL2 hint;
#pragma unroll 4
        for (u32 i = threadIdx.x; i < copies; i += blockDim.x) {
            copy_async_hinted((u8*)of(bin) + i * in_flight, from + i * in_flight, hint);
        }
    }
    // The value to which padding refers.
    CPMS_DEVICE void clear_last() const {
        if (threadIdx.x < 2) of(threadIdx.x)[capacity * octet_nodes - 1] = Word(0);
    }
};

// A warp's slices in sequence; the indices of the next one are in flight.
struct SliceSums {
    static constexpr u32 loaded_groups = 6;  // column groups in registers
    static constexpr u32 prefetched = 12;    // column groups and slices ahead, prefetched into the second-level cache
    static constexpr u32 in_flight = 4;      // further column groups in flight
    u32 slice, column_group, slice_word, chunk, next_slice_word, next_chunk;
    Run<8> local_indices[loaded_groups];

    CPMS_DEVICE void begin(const SellSlices& of) {
        const Pair at = load_word(of.warp_starts + blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, ReadOnly{});
        slice = at.word[0];
        column_group = at.word[1];
        load_next(of, slice);
        load(of);
    }
    // Sums the slices of a window.
    template <class F, class Word>
    CPMS_DEVICE void sum(const SellSlices& of, const Word* values, double* sums) {
        bool more;
        do {
            const u32 column_groups = slice_word & ~SellSlices::last_of_window, mine = chunk, first = column_group;
            more = !(slice_word & SellSlices::last_of_window);
            Run<8> now[loaded_groups];
#pragma unroll
            for (u32 j = 0; j < loaded_groups; ++j) now[j] = local_indices[j];
            column_group += column_groups;
            ++slice;
            load(of);
            double even = 0.0, odd = 0.0;
#pragma unroll
            for (u32 j = 0; j < loaded_groups; ++j) {
                if (j < column_groups) add<F>(values, now[j], even, odd);
            }
            for (u32 r = first + loaded_groups; r < first + column_groups; r += in_flight) {
                Run<8> more_indices[in_flight];
#pragma unroll
                for (u32 j = 0; j < in_flight; ++j)
                    more_indices[j] = indices_of(of, smaller(r + j, first + column_groups - 1));
#pragma unroll
                for (u32 j = 0; j < in_flight; ++j) {
                    if (r + j < first + column_groups) add<F>(values, more_indices[j], even, odd);
                }
            }
            if (mine != SellSlices::no_chunk) sums[mine] = even + odd;
        } while (more);
    }

  private:
    static CPMS_DEVICE Run<8> indices_of(const SellSlices& of, u32 column_group) {
        return load_run_bytes<8>((const u8*)of.local_indices + ((u64)column_group * 32 + threadIdx.x % 32) * 8,
                                 Streaming{});
    }
    CPMS_DEVICE void load_next(const SellSlices& of, u32 to) {
        next_slice_word = load_word(of.slice_words + to, Streaming{});
        next_chunk = load_word(of.slice_chunks + (u64)to * 32 + threadIdx.x % 32, Streaming{});
    }
    CPMS_DEVICE void load(const SellSlices& of) {
        slice_word = next_slice_word;
        chunk = next_chunk;
        const u32 column_groups = slice_word & ~SellSlices::last_of_window;
#pragma unroll
        for (u32 j = 0; j < loaded_groups; ++j) {
            if (j < column_groups) local_indices[j] = indices_of(of, column_group + j);
        }
        // A line of 128 bytes holds half of a column group's indices, or the chunks of two slices.
        const u32 line = threadIdx.x % 32;
        if (line < 2 * column_groups)
            prefetch_l2(of.local_indices + ((u64)(column_group + prefetched) * 128 + line * 64));
        if (line == 31 && slice % 2 == 0) prefetch_l2(of.slice_chunks + (u64)(slice + prefetched) * 32);
        load_next(of, slice + 1);
    }
    template <class F, class Word>
    static CPMS_DEVICE void add(const Word* values, const Run<8>& four, double& even, double& odd) {
        Word value[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) value[k] = values[four.template field<16>(k)];
        even += WideningLoad<F>::value(value[0]);
        odd += WideningLoad<F>::value(value[1]);
        even += WideningLoad<F>::value(value[2]);
        odd += WideningLoad<F>::value(value[3]);
    }
};

// State across windows where rows have several chunks: the partial sum of the open row, and that of the block's first
// row if it began in an earlier block. The former is volatile, since compilers would otherwise let threads read it that
// do not need it, while the first warp writes it.
struct OpenRow {
    volatile double sum;
    double first_sum;
    u32 first;  // the first row if it began in an earlier block, or none
};

// The rows that end in a window, several a thread. The operands of the first ones are loaded before their sums exist.
template <class Word, class Epilogue>
struct WindowRows {
    static constexpr u32 in_flight = sizeof(Word) == 8 ? 2 : 5;
    u32 row, count;  // first row that ends in the window; rows that do
    typename Epilogue::Operands operands[in_flight];

    // 16 adjacent float64 operands share a cache line.
    CPMS_DEVICE void prefetch(const SellSlices& of, const Epilogue& epilogue) const {
        for (u32 i = 16 * threadIdx.x; i < count; i += 16 * blockDim.x) {
            epilogue.prefetch(row + i);
            if (of.last_chunks) prefetch_l2(of.last_chunks + row + i);
        }
    }
    CPMS_DEVICE void load(u32 base, const Epilogue& epilogue) {
#pragma unroll
        for (u32 j = 0; j < in_flight; ++j) {
            const u32 i = base + j * blockDim.x;
            if (i < count) operands[j] = epilogue.load(row + i);
        }
    }
    CPMS_DEVICE void finish(const SellSlices& of, const double* sums, OpenRow& open, Epilogue& epilogue) {
        for (u32 base = threadIdx.x; base < count; base += in_flight * blockDim.x) {
            if (base >= in_flight * blockDim.x) load(base, epilogue);
#pragma unroll
            for (u32 j = 0; j < in_flight; ++j) {
                const u32 i = base + j * blockDim.x;
                if (i >= count) break;
                const double sum = of.last_chunks ? sum_of(of, i, sums, open) : sums[i];
                if (i == 0 && row == open.first) {
                    open.first_sum = sum;
                } else {
                    epilogue.finish(row + i, sum, operands[j]);
                }
            }
        }
    }
    // Carries the chunks after the last row that ended. The warp that finished the first row does it.
    CPMS_DEVICE void carry_open(const SellSlices& of, u32 window_chunks, const double* sums, OpenRow& open) const {
        __syncwarp();
        double sum = 0.0;
        for (u32 chunk = chunks_before(of, count) + threadIdx.x % 32; chunk < window_chunks; chunk += 32)
            sum += sums[chunk];
        sum = warp_reduce(sum, Add{});
        if (threadIdx.x % 32 == 0) open.sum = count ? sum : open.sum + sum;
    }

  private:
    CPMS_DEVICE u32 chunks_before(const SellSlices& of, u32 i) const {
        return i ? of.last_chunks[row + i - 1] + 1u : 0;
    }
    CPMS_DEVICE double sum_of(const SellSlices& of, u32 i, const double* sums, const OpenRow& open) const {
        const u32 end = chunks_before(of, i + 1);
        double sum = i ? 0.0 : open.sum;
        for (u32 chunk = chunks_before(of, i); chunk < end; ++chunk) sum += sums[chunk];
        return sum;
    }
};

// One sweep over a block's windows. The rows of a window are finished while the next window's values are in flight.
template <class F, class Epilogue>
CPMS_DEVICE void sum_slices(const SellSlices& of, SliceSums& slice_sums, const u8* binned, SellWorkspace& workspace,
                            Epilogue& epilogue) {
    using Word = typename WideningLoad<F>::Word;
    __shared__ OpenRow open;
    const u32 first = of.block_windows[blockIdx.x], last = of.block_windows[blockIdx.x + 1],
              from = of.first_blocks[blockIdx.x];
    const u32 last_bin = first < last ? of.window_bins[last - 1] + 1 : 0;
    const BinValues<Word> values{of.capacity};
    // Data of later windows and bins are loaded one window early.
    const auto of_window = [&](const u32* all, u32 window) {
        return load_word(all + smaller(window, last), ReadOnly{});
    };
    const auto begin_of = [&](u32 bin) { return load_word(of.value_begins + smaller(bin, last_bin), ReadOnly{}); };
    u32 row_end = of_window(of.first_rows, first + 1), next_bin = of_window(of.window_bins, first), bin = next_bin - 1;
    u32 end = begin_of(next_bin + 1), next_end = begin_of(next_bin + 2);
    WindowRows<Word, Epilogue> rows;
    rows.row = of_window(of.first_rows, first);
    rows.count = 0;
    if (threadIdx.x == 0) {
        open.sum = 0.0;
        open.first = from < blockIdx.x ? rows.row : none;
    }
    values.clear_last();
    values.fetch(binned, next_bin, begin_of(next_bin), end);
    for (u32 window = first; first < last; ++window) {
        rows.load(threadIdx.x, epilogue);
        const bool begins_bin = next_bin != bin && window < last;
        if (begins_bin) wait_for_copies();
        __syncthreads();
        if (begins_bin) {
            bin = next_bin;
            values.fetch(binned, bin + 1, end, next_end);
            end = next_end;
            next_end = begin_of(bin + 3);
        }
        const double* const before = workspace.sums + (~window & 1) * max_window_sums;  // of the previous window
        rows.finish(of, before, open, epilogue);
        if (of.last_chunks && threadIdx.x < 32 && window > first) {
            rows.carry_open(of, of.chunk_begins[window] - of.chunk_begins[window - 1], before, open);
        }
        if (window == last) break;
        rows.row += rows.count;
        rows.count = row_end - rows.row;
        row_end = of_window(of.first_rows, window + 2);
        next_bin = of_window(of.window_bins, window + 1);
        rows.prefetch(of, epilogue);
        slice_sums.sum<F>(of, values.of(bin), workspace.sums + (window & 1) * max_window_sums);
    }
    if (of.last_chunks) {
        __syncthreads();
        if (threadIdx.x < 32) {
            // A block publishes its own partial sum before it waits for others.
            if (threadIdx.x == 0) of.carry_out.publish(blockIdx.x, open.sum);
            if (open.first < of.first_rows[last]) {
                const typename Epilogue::Operands operands = epilogue.load(open.first);
                const double sum = open.first_sum + of.carry_out.gather(from, blockIdx.x, threadIdx.x);
                if (threadIdx.x == 0) epilogue.finish(open.first, sum, operands);
            }
        }
    }
}

}  // namespace cpms
