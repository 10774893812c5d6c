// A sweep over the edges of a graph that is in the second-level cache, where a warp has one stretch of a few steps: what
// counts is how soon the last warp is done. So steps bring what is asked for and no more, and the warps of a block tell each
// other in shared memory what they leave of rows that go on.
#pragma once
#include "persistent/segmented_sum.cuh"

namespace cpms {

constexpr int loaded_bytes = 40;  // of AtEnd::Loaded, at most

// What a warp has to do, in every sweep: see Stretch; and the stretch in which the row began that goes on in the next
// block, if one does.
struct Task {
    u32 begin, end, row, first, beyond;
};

// What lies in RoomFor may be overwritten between sweeps; the rest stays.
struct CachedRoom : RoomFor<resident_threads> {
    double left[resident_warps];
    alignas(8) u8 loaded[resident_warps][loaded_bytes];  // of the row that a warp began with
    Task task[resident_warps];

    CPMS_DEVICE Task& mine() { return task[threadIdx.x / 32]; }
    CPMS_DEVICE bool idle() { return mine().begin == mine().end; }

    // Once a launch.
    CPMS_DEVICE void begin(const Edges& edges) {
        if (threadIdx.x % 32 == 0) {
            const u32 stretch = first_stretch(edges.each), next = (blockIdx.x + 1) * edges.each;
            Task& found = mine();
            found = Task{0, 0, 0, 0, next < edges.stretches ? edges.first_stretches[next] : none};
            if (stretch < edges.stretches) {
                found.begin = edges.begins[stretch], found.end = edges.begins[stretch + 1];
                found.row = edges.first_rows[stretch], found.first = edges.first_stretches[stretch];
            }
        }
        __syncwarp();
    }
};

// What a warp has read of a step to come.
struct CachedAhead {
    u32 step, mark;
    NamedIn<InOrder> sources;

    CPMS_DEVICE void begin(const Edges& edges, CachedRoom& room) {
        if (room.idle()) return;
        step = room.mine().begin;
        load_mark(edges);
        sources.load(edges, step);
    }
    CPMS_DEVICE void load_mark(const Edges& edges) {
        reload(mark, edges.marks + lane_of(step), InOrder{});
    }
    CPMS_DEVICE void to_next(const Edges& edges, u32 last) {
        step = smaller(step + 1, last);
        sources.load(edges, step);
    }
};

// Leaves what a warp has of a row that goes on where others look for it; returns what earlier blocks have of the row
// that it began with.
CPMS_DEVICE double leave_in_block(const Edges& edges, CachedRoom& room, const Passing& rows) {
    const u32 in_block = threadIdx.x / 32, lane = threadIdx.x % 32, first_here = blockIdx.x * edges.each;
    const u32 first = room.mine().first;
    const bool goes_on = rows.ends_open();
    if (goes_on && lane == 0) {
        if (first_here + in_block < room.mine().beyond) room.left[in_block] = rows.carry;
        else edges.pieces.leave(first_here + in_block, rows.carry);
    }
    return rows.ended_first() && first < first_here ? edges.pieces.collect(first, first_here, lane) : 0.0;
}

// Ends that row once all warps of the block have left theirs, given what earlier blocks have of it.
template <class AtEnd>
CPMS_DEVICE void settle_in_block(const Edges& edges, CachedRoom& room, AtEnd& at_end, double sum) {
    const u32 in_block = threadIdx.x / 32, first_here = blockIdx.x * edges.each;
    sum += head_in(room.of_warp(in_block));
    for (u32 other = larger(room.mine().first, first_here); other < first_here + in_block; ++other) {
        sum += room.left[other - first_here];
    }
    typename AtEnd::Loaded loaded;
    memcpy(&loaded, room.loaded[in_block], sizeof(loaded));
    at_end.finish(room.mine().row, sum, loaded);
}

// As `walk`, but for what the head of this file says.
template <class F>
struct CachedWalk {
    using Word = typename Raw<F>::Word;

    const Edges& edges;
    CachedAhead& ahead;
    const u8* values;
    CachedRoom& room;
    Word word[slots_each];

    template <bool is_last, class AtEnd>
    CPMS_DEVICE void step(Passing& rows, u32 last, AtEnd& at_end) {
        const u32 in_block = threadIdx.x / 32;
        u8* const of_warp = room.of_warp(in_block);
        put_down(of_warp, word);
        Met<AtEnd, early_rows<Word>> met;
        met.template meet<false>(ahead.mark, rows.row, edges.rows, at_end);
        if constexpr (!is_last) {
            ahead.load_mark(edges);
            ahead.sources.template gather<F>(edges, values, word);
            ahead.to_next(edges, last);
        }
        sum_up<F>(of_warp, met, rows, at_end, [&](double sum, const typename AtEnd::Loaded& loaded) {
            head_in(of_warp) = sum;
            static_assert(sizeof(loaded) <= loaded_bytes, "no room for what was loaded");
            memcpy(room.loaded[in_block], &loaded, sizeof(loaded));
        });
    }

    template <class AtEnd>
    CPMS_DEVICE void over(AtEnd& at_end) {
        const bool idle = room.idle();
        const Task& task = room.mine();
        Passing rows{task.row, task.first < first_stretch(edges.each)};
        double sum = 0.0;
        if (!idle) {
            const u32 last = task.end - 1;
            ahead.sources.template gather<F>(edges, values, word);
            if (u32 left = last - task.begin) {
                ahead.to_next(edges, last);
                do step<false>(rows, last, at_end);
                while (--left > 0);
            }
            step<true>(rows, last, at_end);
            sum = leave_in_block(edges, room, rows);
        }
        __syncthreads();
        if (!idle && rows.ended_first() && threadIdx.x % 32 == 0) settle_in_block(edges, room, at_end, sum);
    }
};

}  // namespace cpms
