// Sparse product where every warp takes the same number of edges, whatever the rows; then the update.
//
// Edges are counted in slots, 256 a step, and a warp takes `steps` steps, its task. Every row has at
// least one slot: an empty row's holds value 0 and points at a value of x that is always 0, behind the
// rows. One bit a slot tells whether a row ends there. Each lane sums its eight slots, lanes are joined
// by a segmented scan, and finished rows leave through shared memory so that they are written side by
// side. A row that crosses tasks leaves a piece in each, and `split_rows` adds the pieces in order.
#include "update.cuh"
#include "warp.cuh"

namespace cpms {

constexpr int slots_each = 8;
constexpr int step_slots = 32 * slots_each;

CPMS_DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

// Count of earlier lanes' row ends, and of all lanes': from the bits of numbers up to 8.
struct Places {
    u32 before, total;

    CPMS_DEVICE Places(u32 ends, u32 lane) : before(0), total(0) {
        const u32 count = __popc(ends);
#pragma unroll
        for (int bit = 0; bit < 4; ++bit) {
            const u32 lanes = __ballot_sync(all_lanes, count >> bit & 1);
            before += __popc(lanes & ((1u << lane) - 1)) << bit;
            total += __popc(lanes) << bit;
        }
    }
};

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
template <class RowEnd>
CPMS_DEVICE void finish_rows(const RowEnd& at_end, u32 first, const double* sums, u32 begin, u32 end, u32 lane) {
    constexpr int together = 4;
#pragma unroll 1
    for (u32 base = begin; base < end; base += 32 * together) {
        double sum[together], added[together];
        u32 divisor[together];
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u32 i = smaller(base + 32 * j + lane, end - 1);
            sum[j] = sums[i];
            divisor[j] = at_end.divisor(first + i);
            added[j] = at_end.added(first + i);
        }
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u32 i = base + 32 * j + lane;
            if (i < end) at_end.finish(first + i, sum[j], added[j], divisor[j]);
        }
    }
}

template <class F, int R, int W, bool Pattern>
CPMS_DEVICE void spmv_csr_balanced(const u32* sources, const u8* values, const u8* ends, const u32* first_rows,
                                   u32 all_steps, u32 steps, const u8* x, double* heads, double* tails,
                                   const Update& update) {
    __shared__ double shared_sums[block_warps][step_slots];
    const u32 lane = threadIdx.x % 32;
    const u32 task = blockIdx.x * block_warps + threadIdx.x / 32;
    u32 step = task * steps;
    if (step >= all_steps) return;  // the whole warp leaves, and warps never wait for each other
    const u32 last = smaller(step + steps, all_steps);
    double* sums = shared_sums[threadIdx.x / 32];
    constexpr int run_bytes = 4 * slots_each;
    const u8* lane_sources = (const u8*)(sources + lane * slots_each);
    const u64 step_bytes = 4 * step_slots;

    auto source = load_run_bytes<run_bytes>(lane_sources + step * step_bytes, Streaming{});
    u32 row = load_word(first_rows + task, ReadOnly{});
    const u8 end_before = load_word(ends + (step > 0 ? step * 32 - 1 : 0), ReadOnly{});
    bool open = step > 0 && end_before >> 7 == 0;  // the first row began in an earlier task
    const RowEnd<F, W, Pattern> at_end(update);
    double carry = 0.0;
    do {
        const u32 slot = step * step_slots + lane * slots_each;
        const auto now = source;
        const u32 slot_ends = load_word(ends + step * 32 + lane, Streaming{});
        double term[slots_each], factor[slots_each];
        if constexpr (!Pattern) load_run<F, R>(values, slot, all_steps * step_slots, Streaming{}, factor);
#pragma unroll
        for (int k = 0; k < slots_each; ++k) term[k] = load<F, R>(x, now.word[k], update.length, ReadOnly{});
        if (step + 1 < last) {
            source = load_run_bytes<run_bytes>(lane_sources + (step + 1) * step_bytes, Streaming{});
        }
        const Places places(slot_ends, lane);
        double sum = lane == 0 ? carry : 0.0;
        u32 place = places.before;
#pragma unroll
        for (int k = 0; k < slots_each; ++k) {
            if constexpr (Pattern) {
                sum += term[k];
            } else {
                sum += factor[k] * term[k];
            }
            if (slot_ends >> k & 1) {
                sums[place++] = sum;
                sum = 0.0;
            }
        }
        sum = joined(sum, lane, slot_ends != 0);
        const double from_left = __shfl_up_sync(all_lanes, sum, 1);
        if (lane > 0 && slot_ends != 0) sums[places.before] += from_left;
        carry = __shfl_sync(all_lanes, sum, 31);
        __syncwarp();
        const u32 skipped = open && places.total > 0 ? 1 : 0;
        if (skipped && lane == 0) heads[task] = sums[0];
        finish_rows(at_end, row, sums, skipped, places.total, lane);
        __syncwarp();
        open = open && places.total == 0;
        row += places.total;
    } while (++step < last);
    if (lane == 0) tails[task] = carry;
}

// Row rows[i] began in task from[i] and ended in task to[i]: a thread adds its pieces, a warp if many.
template <class F, int W, bool Pattern>
CPMS_DEVICE void split_rows(const u32* rows, const u32* from, const u32* to, u32 count, const double* heads,
                            const double* tails, const Update& update) {
    constexpr u32 many = 16;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 lane = threadIdx.x % 32;
    const u32 at = smaller(i, count - 1);
    const u32 first = from[at], last = to[at];
    double sum = 0.0;
    if (last - first <= many) {
        for (u32 task = first; task < last; ++task) sum += tails[task];
    }
    u32 long_lanes = __ballot_sync(all_lanes, last - first > many);
    while (long_lanes) {
        const u32 owner = __ffs(long_lanes) - 1;
        const u32 begin = __shfl_sync(all_lanes, first, owner), end = __shfl_sync(all_lanes, last, owner);
        double part = 0.0;
        for (u32 task = begin + lane; task < end; task += 32) part += tails[task];
        part = over_warp(part, Add{});
        if (lane == owner) sum = part;
        long_lanes &= long_lanes - 1;
    }
    const RowEnd<F, W, Pattern> at_end(update);
    const u32 row = rows[at];
    const double plus = at_end.added(row);
    const u32 divided_by = at_end.divisor(row);
    if (i < count) at_end.finish(row, sum + heads[last], plus, divided_by);
}

}  // namespace cpms

#define CPMS_SPMV_CSR_BALANCED(NAME, ...)                                                             \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                 \
        NAME(const unsigned* sources, const unsigned char* values, const unsigned char* ends,         \
             const unsigned* first_rows, unsigned all_steps, unsigned steps, const unsigned char* x,  \
             double* heads, double* tails, CPMS_UPDATE_PARAMETERS) {                                  \
        cpms::spmv_csr_balanced<__VA_ARGS__>(sources, values, ends, first_rows, all_steps, steps, x,  \
                                             heads, tails, CPMS_UPDATE);                              \
    }
#define CPMS_SPLIT_ROWS(NAME, ...)                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* rows, const unsigned* from, const unsigned* to, unsigned count,          \
             const double* heads, const double* tails, CPMS_UPDATE_PARAMETERS) {                      \
        cpms::split_rows<__VA_ARGS__>(rows, from, to, count, heads, tails, CPMS_UPDATE);              \
    }
