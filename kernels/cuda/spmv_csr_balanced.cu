// Sparse product where every warp takes the same number of edges, whatever the rows; then the update.
//
// Edges are counted in slots, 256 a step, and a warp takes `steps` steps, its task. Every row has at
// least one slot: an empty row's holds value 0 and points at a value of x that is always 0, behind the
// rows. For each eight slots, `marks` has one bit a slot where a row ends, and above these bits the
// number of rows that ended in the step before. Each lane sums its eight slots, lanes are joined by a
// segmented scan, and finished rows leave through shared memory so that they are written side by side.
//
// A row that crosses tasks leaves a piece in each; the task in which it ends waits for the others'
// pieces and adds them in order. Tasks wait only for earlier ones, which started before them, and raise
// flags that the one that waits lowers again.
#include "update.cuh"
#include "warp.cuh"

namespace cpms {

constexpr int slots_each = 8;
constexpr int step_slots = 32 * slots_each;

CPMS_DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

// Sum of a lane's value and those of the lanes before it, back to the last one where a row ended.
CPMS_DEVICE double joined(double value, u32 lane, bool has_end) {
    // Bit L of `inside`: lanes L - distance + 1 to L are in one row with the lane before them.
    u32 inside = ~__ballot_sync(all_lanes, has_end) & ~1u;
    for (u32 distance = 1; inside; distance *= 2) {
        const double earlier = __shfl_up_sync(all_lanes, value, distance);
        if (inside >> lane & 1) value += earlier;
        inside &= inside << distance;
    }
    return value;
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

// The pieces of an open row, a word each in device memory that other warps read and write.
struct Pieces {
    volatile double* value;
    volatile u32* ready;

    CPMS_DEVICE void leave(u32 task, double sum) const {
        value[task] = sum;
        __threadfence();
        ready[task] = 1;
    }

    // Sum of those of tasks `from` to `task` - 1, over the warp.
    CPMS_DEVICE double collect(u32 from, u32 task, u32 lane) const {
        double sum = 0.0;
        for (u32 other = from + lane; other < task; other += 32) {
            while (ready[other] == 0) wait_a_little();
            __threadfence();
            sum += value[other];
            ready[other] = 0;
        }
        return over_warp(sum, Add{});
    }
};

template <class F, int R, int W, bool Pattern>
CPMS_DEVICE void spmv_csr_balanced(const u32* sources, const u8* values, const u16* marks, const u32* first_rows,
                                   const u32* first_tasks, u32 all_steps, u32 steps, const u8* x,
                                   const Pieces& pieces, const Update& update) {
    __shared__ double shared_sums[block_warps][step_slots];
    const u32 lane = threadIdx.x % 32;
    const u32 task = blockIdx.x * block_warps + threadIdx.x / 32;
    u32 step = task * steps;
    if (step >= all_steps) return;  // the whole warp leaves, and no barrier waits for it
    const u32 last = smaller(step + steps, all_steps);
    double* sums = shared_sums[threadIdx.x / 32];
    constexpr int run_bytes = 4 * slots_each;
    const u8* lane_sources = (const u8*)(sources + lane * slots_each);
    const u64 step_bytes = 4 * step_slots;

    auto source = load_run_bytes<run_bytes>(lane_sources + step * step_bytes, Streaming{});
    u32 row = load_word(first_rows + task, ReadOnly{});
    const u32 first_task = load_word(first_tasks + task, ReadOnly{});
    bool open = first_task < task;  // its first row began in an earlier task
    const RowEnd<F, W, Pattern> at_end(update);
    double carry = 0.0, head = 0.0;
    u32 open_row = row;
    bool ends_open;
    do {
        const u32 slot = step * step_slots + lane * slots_each;
        const auto now = source;
        const u32 mark = load_word(marks + step * 32 + lane, Streaming{});
        double term[slots_each], factor[slots_each];
        if constexpr (!Pattern) load_run<F, R>(values, slot, all_steps * step_slots, Streaming{}, factor);
#pragma unroll
        for (int k = 0; k < slots_each; ++k) term[k] = load<F, R>(x, now.word[k], update.length, ReadOnly{});
        if (step + 1 < last) {
            source = load_run_bytes<run_bytes>(lane_sources + (step + 1) * step_bytes, Streaming{});
        }
        const u32 slot_ends = mark & 0xFF;
        double* const mine = sums + (mark >> 8);
        double* put = mine;
        double sum = lane == 0 ? carry : 0.0;
#pragma unroll
        for (int k = 0; k < slots_each; ++k) {
            if constexpr (Pattern) {
                sum += term[k];
            } else {
                sum += factor[k] * term[k];
            }
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
        if (completes) head = sums[0];
        if (at_end.personal) {
            finish_rows<true>(at_end, row, sums, completes, ended, lane);
        } else {
            finish_rows<false>(at_end, row, sums, completes, ended, lane);
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

#define CPMS_SPMV_CSR_BALANCED(NAME, ...)                                                             \
    extern "C" __global__ void __launch_bounds__(256, 4)                                              \
        NAME(const unsigned* sources, const unsigned char* values, const unsigned short* marks,       \
             const unsigned* first_rows, const unsigned* first_tasks, unsigned all_steps,             \
             unsigned steps, const unsigned char* x, double* piece, unsigned* ready,                  \
             CPMS_UPDATE_PARAMETERS) {                                                                \
        cpms::spmv_csr_balanced<__VA_ARGS__>(sources, values, marks, first_rows, first_tasks,         \
                                             all_steps, steps, x, cpms::Pieces{piece, ready},         \
                                             CPMS_UPDATE);                                            \
    }
