// Sparse product where every warp takes the same number of edges, whatever the rows; then the update.
//
// Edges are counted in slots, 256 a step, and a warp takes `steps` steps, its task. Every row has at
// least one slot: an empty row's holds value 0 and points at a value of x that is always 0, behind the
// rows. For each eight slots, `marks` has one bit a slot where a row ends, and above these bits the
// number of rows that ended in the step before. Lanes gather for slots side by side, so that neighbouring
// edges share a transaction, and turn them over in shared memory; then each lane sums eight slots that
// follow one another, lanes are joined by a segmented scan, and finished rows leave through shared
// memory so that they are written side by side. In memory a lane's sources and values lie side by side
// instead, as many as make a load of 16 bytes (`arrange.for_lanes`).
//
// A row that crosses tasks leaves a piece in each; the task in which it ends waits for the others'
// pieces and adds them in order. Tasks wait only for earlier ones, which started before them.
#include "spmv/carry_out.cuh"
#include "spmv/epilogue.cuh"

namespace cpms {

// A lane's slots of a step that lie side by side in memory: what fills a load of 16 bytes.
CPMS_CONSTANT int run_slots(int bits) { return 128 / bits < slots_each ? 128 / bits : slots_each; }

// Where the run lies that holds a lane's slots 32 * Run * round + 32 * j + lane.
template <int Run>
CPMS_DEVICE u32 first_of_run(int round, u32 lane) {
    return (32 * round + lane) * Run;
}

CPMS_DEVICE void load_sources(const u32* sources, u32 step, u32 lane, u32 (&source)[slots_each]) {
    constexpr int Run = run_slots(32);
#pragma unroll
    for (int round = 0; round < slots_each / Run; ++round) {
        const u8* at = (const u8*)(sources + ((u64)step * step_slots + first_of_run<Run>(round, lane)));
        const auto loaded = load_run_bytes<4 * Run>(at, LastUse{});
#pragma unroll
        for (int j = 0; j < Run; ++j) source[round * Run + j] = loaded.word[j];
    }
}

// Where a step's products lie in shared memory while they are turned over: put down slot by slot and taken up two of a
// lane's eight at a time, without two lanes meeting in a bank.
CPMS_DEVICE u32 turned(u32 slot) { return slot ^ (slot >> 4 & 3) << 1; }

// From slots 32 * k + lane to the lane's eight that follow one another.
CPMS_DEVICE void turn_over(double (&term)[slots_each], double* room, u32 lane) {
#pragma unroll
    for (int k = 0; k < slots_each; ++k) room[turned(32 * k + lane)] = term[k];
    __syncwarp();
#pragma unroll
    for (int k = 0; k < slots_each; k += 2) {
        const auto two = load_run_bytes<16>((const u8*)(room + turned(slots_each * lane + k)), Default{});
        term[k] = value_of(two.field<64>(0));
        term[k + 1] = value_of(two.field<64>(1));
    }
    __syncwarp();
}

// Rows `first` and on from their sums; four a lane at a time, loads before stores.
template <bool Personal, class RowEnd>
CPMS_DEVICE void finish_rows(const RowEnd& at_end, u32 first, const double* sums, u32 begin, u32 end, u32 lane) {
    constexpr int together = 4;
#pragma unroll 1
    for (u32 base = begin; base < end; base += 32 * together) {
        double fresh[together];
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u32 i = smaller(base + 32 * j + lane, end - 1);
            fresh[j] = at_end.template value<Personal>(first + i, sums[i]);
        }
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u32 i = base + 32 * j + lane;
            if (i < end) at_end.write(first + i, fresh[j]);
        }
    }
}

// Vectors are in format F, of which R segments are read and W written; edge values in V, RV of it read.
template <class F, int R, int W, bool Pattern, class V = F, int RV = R>
CPMS_DEVICE void spmv_csr_balanced(const u32* sources, const u8* values, const u16* marks, const u32* first_rows,
                                   const u32* first_tasks, u32 all_steps, u32 steps, const u8* x,
                                   const TaskPieces& pieces, const Update& update) {
    alignas(16) __shared__ double shared_room[block_warps][step_slots];
    const u32 lane = threadIdx.x % 32;
    const u32 task = blockIdx.x * block_warps + threadIdx.x / 32;
    u32 step = task * steps;
    if (step >= all_steps) return;  // the whole warp leaves, and no barrier waits for it
    const u32 last = smaller(step + steps, all_steps);
    double* const room = shared_room[threadIdx.x / 32];
    constexpr int Run = run_slots(V::widest);

    u32 source[slots_each];
    load_sources(sources, step, lane, source);
    u32 row = load_word(first_rows + task, ReadOnly{});
    const u32 first_task = load_word(first_tasks + task, ReadOnly{});
    bool open = first_task < task;  // its first row began in an earlier task
    const RowEnd<F, W, Pattern> at_end(update);
    double carry = 0.0, head = 0.0;
    u32 open_row = row;
    bool ends_open;
    do {
        const u32 mark = load_word(marks + step * 32 + lane, LastUse{});
        double term[slots_each], factor[slots_each / Run][Run];
        if constexpr (!Pattern) {
#pragma unroll
            for (int round = 0; round < slots_each / Run; ++round) {
                const u32 first = step * step_slots + first_of_run<Run>(round, lane);
                load_run<V, RV>(values, first, all_steps * step_slots, LastUse{}, factor[round]);
            }
        }
#pragma unroll
        for (int k = 0; k < slots_each; ++k) term[k] = load<F, R>(x, source[k], update.length, ReadOnly{});
        if (step + 1 < last) load_sources(sources, step + 1, lane, source);
        if constexpr (!Pattern) {
#pragma unroll
            for (int k = 0; k < slots_each; ++k) term[k] *= factor[k / Run][k % Run];
        }
        turn_over(term, room, lane);
        const u32 slot_ends = mark & 0xFF;
        double* const mine = room + (mark >> 8);
        double* put = mine;
        double sum = lane == 0 ? carry : 0.0;
#pragma unroll
        for (int k = 0; k < slots_each; ++k) {
            sum += term[k];
            if (slot_ends >> k & 1) {
                *put++ = sum;
                sum = 0.0;
            }
        }
        sum = joined(sum, lane, slot_ends != 0);
        const double from_left = __shfl_up_sync(all_lanes, sum, 1);
        if (lane > 0 && slot_ends != 0) *mine += from_left;
        carry = __shfl_sync(all_lanes, sum, 31);
        const u32 ended = __shfl_sync(all_lanes, (mark >> 8) + __popc(slot_ends), 31);
        ends_open = __shfl_sync(all_lanes, slot_ends >> 7, 31) == 0;
        __syncwarp();
        const bool completes = open && ended > 0;
        if (completes) head = room[0];
        if (at_end.personal) {
            finish_rows<true>(at_end, row, room, completes, ended, lane);
        } else {
            finish_rows<false>(at_end, row, room, completes, ended, lane);
        }
        __syncwarp();
        open = open && ended == 0;
        row += ended;
    } while (++step < last);
    // Before it waits for others it leaves its own piece, so that chains of tasks do not add up.
    if (ends_open && lane == 0) pieces.leave(task, carry);
    if (first_task < task && !open) {
        const double sum = head + pieces.collect(first_task, task, lane);
        if (lane == 0) at_end.write(open_row, at_end.template value<true>(open_row, sum));
    }
}

}  // namespace cpms

#define CPMS_SPMV_CSR_BALANCED(NAME, BLOCKS, ...)                                                     \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                         \
        NAME(const unsigned* sources, const unsigned char* values, const unsigned short* marks,       \
             const unsigned* first_rows, const unsigned* first_tasks, unsigned all_steps,             \
             unsigned steps, const unsigned char* x, unsigned long long* pieces,                      \
             CPMS_UPDATE_PARAMETERS) {                                                                \
        cpms::spmv_csr_balanced<__VA_ARGS__>(sources, values, marks, first_rows, first_tasks,         \
                                             all_steps, steps, x, cpms::TaskPieces{pieces},           \
                                             CPMS_UPDATE);                                            \
    }
