// A sweep over edges in bins: the values that a bin asks for are copied to shared memory, and its edges name
// them there by 16 bits.
//
// A bin is so many steps of 256 slots that one block takes, a stretch of them each warp. It lists the groups of eight
// nodes that its edges begin at. While a bin is summed, the values of the next one and the list of the one after that are
// on their way. A block takes bins that follow one another, so that of the rows that go on from stretch to stretch only
// its first one has a piece elsewhere.
#pragma once
#include "base/shared_staging.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

struct Bins {
    const u32* of_block;      // first bin of each block, and behind the last
    const Quad* stretches;    // of each warp in each bin: first step, how many, row of its first slot
    const u32* list_begins;   // in `lists`, of each bin, and behind the last; multiples of 4
    const u32* lists;         // groups of nodes
    const u16* places;        // of each slot's value among those of its bin
    const u16* marks;
    const u32* first_blocks;  // block in which the first row of each block begins
    u32 capacity, steps, rows;  // groups that a list has at most
    TaskPieces pieces;        // one a block
};

// Shared memory in which lists and values come and go, of two bins at a time.
template <class Word>
struct Stage {
    u32 capacity;

    CPMS_DEVICE Word* values(u32 bin) const { return values_of<Word>(bin, capacity); }
    CPMS_DEVICE u32* list(u32 bin) const {
        return (u32*)(stage_bytes() + 2 * capacity * group_nodes * sizeof(Word)) + (bin & 1) * capacity;
    }
    CPMS_DEVICE void fetch_list(const u32* lists, u32 bin, u32 begin, u32 end) const {
        for (u32 i = 4 * threadIdx.x; i < end - begin; i += 4 * blockDim.x) {
            copy_ahead<16>(list(bin) + i, lists + begin + i);
        }
    }
    CPMS_DEVICE void fetch_values(const u8* z, u32 bin, u32 begin, u32 end) const {
        constexpr u32 bytes = group_nodes * sizeof(Word);
#pragma unroll 4
        for (u32 i = threadIdx.x; i < end - begin; i += blockDim.x) {
            copy_ahead<bytes>((u8*)values(bin) + i * bytes, z + (u64)list(bin)[i] * bytes);
        }
    }
};

// What the warps of a bin leave for the one that finishes rows which go on from stretch to stretch, of two bins.
template <class Loaded>
struct Joints {
    double head[2][resident_warps], tail[2][resident_warps];
    u32 row[2][resident_warps];  // first that ended, or none
    Loaded loaded[2][resident_warps];
    // Of the block: what its open row has got, and the row that began before it.
    double open, pending_head;
    u32 pending;
    bool outside;  // no row has ended yet
};

// What a warp has read of the bins to come before values are there: its next stretch, and the
// two steps that come next.
struct Coming {
    Quad stretch;
    Quad places[2];
    u32 mark[2];

    CPMS_DEVICE static const Quad* stretch_of(const Bins& bins, u32 bin) {
        return bins.stretches + bin * (blockDim.x / 32) + threadIdx.x / 32;
    }
    CPMS_DEVICE void load(int slot, const Bins& bins, u32 step) {
        step = smaller(step, bins.steps - 1);
        places[slot] = load_word((const Quad*)bins.places + lane_of(step), Streaming{});
        reload(mark[slot], bins.marks + lane_of(step), Streaming{});
    }
    template <class Word>
    CPMS_DEVICE void begin(const Bins& bins, Stage<Word> stage) {
        const u32 bin = bins.of_block[blockIdx.x];
        if (bin == bins.of_block[blockIdx.x + 1]) return;
        stage.fetch_list(bins.lists, bin, bins.list_begins[bin], bins.list_begins[bin + 1]);
        stretch = load_word(stretch_of(bins, bin), ReadOnly{});
        load(0, bins, stretch.word[0]);
        load(1, bins, stretch.word[0] + 1);
        await_copies();
    }
};

// Finishes the rows that ended in a bin but began before the stretch in which they ended. By one warp.
template <class Loaded, class AtEnd>
CPMS_DEVICE void join_stretches(Joints<Loaded>& joints, u32 side, AtEnd& at_end) {
    const u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const bool is_stretch = lane > 0 && lane <= warps;
    const u32 row = is_stretch ? joints.row[side][lane - 1] : none;
    const bool ended = row != none, outside = joints.outside;
    double sum = is_stretch ? joints.tail[side][lane - 1] : lane == 0 ? joints.open : 0.0;
    sum = joined(sum, lane, ended || lane == 0);
    const double before = __shfl_up_sync(all_lanes, sum, 1);
    const u32 all_ended = __ballot_sync(all_lanes, ended);
    const bool began_outside = ended && outside && __ffs(all_ended) == (int)lane + 1;
    if (ended) {
        const double whole = joints.head[side][lane - 1] + before;
        if (began_outside) {
            joints.pending = row;
            joints.pending_head = whole;
        } else {
            at_end.finish(row, whole, joints.loaded[side][lane - 1]);
        }
    }
    __syncwarp();
    if (lane == warps) joints.open = sum;
    if (lane == 0) joints.outside = outside && !all_ended;
    __syncwarp();
}

template <class F, class AtEnd>
CPMS_DEVICE void walk_bins(const Bins& bins, Coming& coming, const u8* z, Room& room, AtEnd& at_end) {
    using Word = typename Raw<F>::Word;
    using Loaded = typename AtEnd::Loaded;
    __shared__ Joints<Loaded> joints;
    const u32 in_block = threadIdx.x / 32, warps = blockDim.x / 32;
    const bool leads = threadIdx.x % 32 == 0;
    const u32 first = bins.of_block[blockIdx.x], last = bins.of_block[blockIdx.x + 1];
    if (first == last) {
        if (threadIdx.x == 0) bins.pieces.leave(blockIdx.x, 0.0);
        return;
    }
    const Stage<Word> stage{bins.capacity};
    double* const sums = (double*)room.of_warp(in_block);
    // Where the lists of this bin, the next and the one after that begin, and where the last of these ends.
    u32 begins[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) begins[k] = bins.list_begins[smaller(first + k, last)];
    stage.fetch_values(z, first, begins[0], begins[1]);
    stage.fetch_list(bins.lists, first + 1, begins[1], begins[2]);
    if (threadIdx.x == 0) {
        joints.open = 0.0;
        joints.pending = none;
        joints.outside = true;
    }
    bool ready = true;  // what `coming` holds are the first steps of the stretch to come
    Met<AtEnd, early_rows<Word>> met;
    met.meet(coming.mark[0], coming.stretch.word[2], bins.rows, at_end);
    for (u32 bin = first; bin < last; ++bin) {
        const u32 side = bin & 1;
        await_copies();
        __syncthreads();
        stage.fetch_values(z, bin + 1, begins[1], begins[2]);
        stage.fetch_list(bins.lists, bin + 2, begins[2], begins[3]);
#pragma unroll
        for (int k = 0; k < 3; ++k) begins[k] = begins[k + 1];
        begins[3] = load_word(bins.list_begins + smaller(bin + 4, last), ReadOnly{});
        const u32 step = coming.stretch.word[0], steps = coming.stretch.word[1], first_row = coming.stretch.word[2];
        Passing rows{first_row, true};
        coming.stretch = load_word(Coming::stretch_of(bins, smaller(bin + 1, last - 1)), ReadOnly{});
        if (bin > first && in_block == bin % warps) join_stretches(joints, side ^ 1, at_end);
        if (!ready) {
            coming.load(0, bins, step);
            coming.load(1, bins, step + 1);
            met.meet(coming.mark[0], first_row, bins.rows, at_end);
        }
        ready = steps >= 2;
        const Word* const values = stage.values(bin);
        for (u32 i = 0; i < steps; ++i) {
            const Quad places = coming.places[0];
            const auto now = met;
            coming.places[0] = coming.places[1];
            met.meet(coming.mark[1], i + 1 < steps ? rows.row + now.ended : coming.stretch.word[2], bins.rows, at_end);
            coming.load(1, bins, i + 2 < steps ? step + i + 2 : coming.stretch.word[0] + (i + 2 - steps));
            Word word[slots_each];
#pragma unroll
            for (int k = 0; k < slots_each; ++k) word[k] = values[places.word[k / 2] >> 16 * (k % 2) & 0xFFFF];
            rows.template pass<later_rows<Word>>(
                now, [&](int k) { return Raw<F>::value(word[k]); }, sums, at_end, [&](double sum, const Loaded& loaded) {
                    joints.head[side][in_block] = sum;
                    joints.loaded[side][in_block] = loaded;
                });
        }
        if (leads) {
            joints.tail[side][in_block] = rows.carry;
            joints.row[side][in_block] = rows.ended_first() ? first_row : none;
        }
    }
    __syncthreads();
    if (in_block == 0) {
        join_stretches(joints, (last - 1) & 1, at_end);
        // It leaves its own piece before it waits for others.
        if (leads) bins.pieces.leave(blockIdx.x, joints.open);
        if (joints.pending != none) {
            const Loaded loaded = at_end.load(joints.pending);
            const u32 from = bins.first_blocks[blockIdx.x];
            const double sum = joints.pending_head + bins.pieces.collect(from, blockIdx.x, threadIdx.x % 32);
            if (leads) at_end.finish(joints.pending, sum, loaded);
        }
    }
}

}  // namespace cpms

#define CPMS_BINS_PARAMETERS(OF)                                                                            \
    const unsigned *OF##of_block, const cpms::Quad *OF##stretches, const unsigned *OF##list_begins,         \
        const unsigned *OF##lists, const unsigned short *OF##places, const unsigned short *OF##marks,       \
        const unsigned *OF##first_blocks, unsigned OF##capacity, unsigned OF##steps,                        \
        unsigned long long *OF##pieces
#define CPMS_BINS(OF)                                                                                       \
    cpms::Bins {                                                                                            \
        OF##of_block, OF##stretches, OF##list_begins, OF##lists, OF##places, OF##marks, OF##first_blocks,   \
            OF##capacity, OF##steps, count, cpms::TaskPieces{OF##pieces}                                    \
    }
