// SpMV in CSR with an equal number of entries for each warp, for rows of any length (load balancing as in merge-based
// CSR of Merrill and Garland, 2016; segmented sum of Blelloch, 1993), followed by the epilogue.
//
// Entries are counted in tiles of 256; a task is `task_tiles` tiles of one warp. Every row has at least one entry:
// that of an empty row has value 0 and refers to a value of x past the last row that is always 0. For each eight
// entries, `row_end_flags` holds one bit an entry at which a row ends, and above these bits the number of rows that
// ended before in the tile. Lanes gather adjacent entries, so that neighbouring edges share a transaction, and
// transpose the products in shared memory. Then each lane sums eight consecutive entries, a segmented scan joins the
// lanes, and finished rows pass through shared memory so that stores are coalesced. In memory, a lane's indices and
// values are adjacent, as many as fill a load of 16 bytes (`for_lanes` of cpms/backends/cuda/spmv/padded_csr.py).
//
// A row that crosses tasks is carried out by each; the task in which it ends waits for the others' partial sums. Tasks
// wait only for earlier ones, which started before them. All carry-outs are missing between launches, so that launches
// with tasks of different lengths share their memory. An entry costs its index, its value and one gather; the flags and
// counts of row ends cost 2 bits an entry.
#include "spmv/carry_out.cuh"
#include "spmv/epilogue.cuh"

namespace cpms {

// Entries of a lane that are adjacent in memory: they fill a load of 16 bytes.
CPMS_CONSTANT int run_entries(int bits) { return 128 / bits < lane_entries ? 128 / bits : lane_entries; }

// The place in memory, within a tile, of a lane's run of entries 32 * Each * group + 32 * j + lane, for j below Each.
template <int Each>
CPMS_DEVICE u32 first_of_run(int group, u32 lane) {
    return (32 * group + lane) * Each;
}

CPMS_DEVICE void load_sources(const u32* sources, u32 tile, u32 lane, u32 (&source)[lane_entries]) {
    constexpr int each = run_entries(32);
#pragma unroll
    for (int group = 0; group < lane_entries / each; ++group) {
        const u8* at = (const u8*)(sources + ((u64)tile * tile_entries + first_of_run<each>(group, lane)));
        const auto loaded = load_run_bytes<4 * each>(at, LastUse{});
#pragma unroll
        for (int j = 0; j < each; ++j) source[group * each + j] = loaded.word[j];
    }
}

// The position of an entry in shared memory during the transpose. The exclusive-or avoids bank conflicts both when
// lanes store entry by entry and when they load two of their eight at a time.
CPMS_DEVICE u32 transposed(u32 entry) { return entry ^ (entry >> 4 & 3) << 1; }

// Transposes entries 32 * k + lane into a lane's eight consecutive entries.
CPMS_DEVICE void transpose(double (&term)[lane_entries], double* workspace, u32 lane) {
#pragma unroll
    for (int k = 0; k < lane_entries; ++k) workspace[transposed(32 * k + lane)] = term[k];
    __syncwarp();
#pragma unroll
    for (int k = 0; k < lane_entries; k += 2) {
        const auto two = load_run_bytes<16>((const u8*)(workspace + transposed(lane_entries * lane + k)), Default{});
        term[k] = value_of(two.field<64>(0));
        term[k + 1] = value_of(two.field<64>(1));
    }
    __syncwarp();
}

// Applies the epilogue to the rows from `first` on; four rows a lane at a time, loads before stores.
template <bool Personal, class RowEpilogue>
CPMS_DEVICE void finish_rows(const RowEpilogue& row_epilogue, u32 first, const double* sums, u32 begin, u32 end,
                             u32 lane) {
    constexpr int together = 4;
#pragma unroll 1
    for (u32 base = begin; base < end; base += 32 * together) {
        double fresh[together];
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u32 i = smaller(base + 32 * j + lane, end - 1);
            fresh[j] = row_epilogue.template value<Personal>(first + i, sums[i]);
        }
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u32 i = base + 32 * j + lane;
            if (i < end) row_epilogue.write(first + i, fresh[j]);
        }
    }
}

// Vectors have format F, of which R segments are read and W written; matrix values have format V, of which RV are
// read.
template <class F, int R, int W, bool Pattern, class V = F, int RV = R>
CPMS_DEVICE void spmv_csr_balanced(const u32* sources, const u8* values, const u16* row_end_flags,
                                   const u32* first_rows, const u32* first_tasks, u32 all_tiles, u32 task_tiles,
                                   const u8* x, const CarryOut& carry_out, const Epilogue& epilogue) {
    alignas(16) __shared__ double workspaces[block_warps][tile_entries];
    const u32 lane = threadIdx.x % 32;
    const u32 task = blockIdx.x * block_warps + threadIdx.x / 32;
    u32 tile = task * task_tiles;
    if (tile >= all_tiles) return;  // the whole warp returns, and no barrier waits for it
    const u32 last = smaller(tile + task_tiles, all_tiles);
    double* const workspace = workspaces[threadIdx.x / 32];
    constexpr int each = run_entries(V::widest);

    u32 source[lane_entries];
    load_sources(sources, tile, lane, source);
    u32 row = load_word(first_rows + task, ReadOnly{});
    const u32 first_task = load_word(first_tasks + task, ReadOnly{});
    bool open = first_task < task;  // its first row began in an earlier task
    const RowEpilogue<F, W, Pattern> row_epilogue(epilogue);
    double carry = 0.0, first_sum = 0.0;
    u32 first_row = row;
    bool last_row_open;
    do {
        const u32 flags = load_word(row_end_flags + tile * 32 + lane, LastUse{});
        double term[lane_entries], factor[lane_entries / each][each];
        if constexpr (!Pattern) {
#pragma unroll
            for (int group = 0; group < lane_entries / each; ++group) {
                const u32 first = tile * tile_entries + first_of_run<each>(group, lane);
                load_run<V, RV>(values, first, all_tiles * tile_entries, LastUse{}, factor[group]);
            }
        }
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) term[k] = load<F, R>(x, source[k], epilogue.length, ReadOnly{});
        if (tile + 1 < last) load_sources(sources, tile + 1, lane, source);
        if constexpr (!Pattern) {
#pragma unroll
            for (int k = 0; k < lane_entries; ++k) term[k] *= factor[k / each][k % each];
        }
        transpose(term, workspace, lane);
        const u32 row_ends = flags & 0xFF;
        double* const mine = workspace + (flags >> 8);
        double* put = mine;
        double sum = lane == 0 ? carry : 0.0;
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) {
            sum += term[k];
            if (row_ends >> k & 1) {
                *put++ = sum;
                sum = 0.0;
            }
        }
        sum = segmented_scan(sum, lane, row_ends != 0);
        const double from_left = __shfl_up_sync(all_lanes, sum, 1);
        if (lane > 0 && row_ends != 0) *mine += from_left;
        carry = __shfl_sync(all_lanes, sum, 31);
        const u32 rows_ended = __shfl_sync(all_lanes, (flags >> 8) + __popc(row_ends), 31);
        last_row_open = __shfl_sync(all_lanes, row_ends >> 7, 31) == 0;
        __syncwarp();
        const bool completes = open && rows_ended > 0;
        if (completes) first_sum = workspace[0];
        if (row_epilogue.personal) {
            finish_rows<true>(row_epilogue, row, workspace, completes, rows_ended, lane);
        } else {
            finish_rows<false>(row_epilogue, row, workspace, completes, rows_ended, lane);
        }
        __syncwarp();
        open = open && rows_ended == 0;
        row += rows_ended;
    } while (++tile < last);
    // A task publishes its own partial sum before it waits for others, so that waits do not chain. What is open at the
    // end of the last task is padding, whose sum no task would gather and mark missing again.
    if (last_row_open && last < all_tiles && lane == 0) carry_out.publish(task, carry);
    if (first_task < task && !open) {
        const double sum = first_sum + carry_out.gather(first_task, task, lane);
        if (lane == 0) row_epilogue.write(first_row, row_epilogue.template value<true>(first_row, sum));
    }
}

}  // namespace cpms

#define CPMS_SPMV_CSR_BALANCED(NAME, BLOCKS, ...)                                                                \
    CPMS_KERNEL(256, BLOCKS) NAME(const unsigned* sources, const unsigned char* values,                          \
                                  const unsigned short* row_end_flags, const unsigned* first_rows,               \
                                  const unsigned* first_tasks, unsigned all_tiles, unsigned task_tiles,          \
                                  const unsigned char* x, unsigned long long* carry_out,                         \
                                  const cpms::Epilogue epilogue) {                                               \
        cpms::spmv_csr_balanced<__VA_ARGS__>(sources, values, row_end_flags, first_rows, first_tasks, all_tiles, \
                                             task_tiles, x, cpms::CarryOut{carry_out}, epilogue);                \
    }
