// Warp ranges.
#pragma once
#include "persistent/grid_sync.cuh"
#include "base/widening_load.cuh"
#include "spmv/carry_out.cuh"

namespace cpms {

// The edges, and their stretches: warp w walks stretches w, w + warps, … All warps are there and none waits for
// a later stretch, so every wait ends. Where there are fewer stretches than warps, `each` of a block have one, and
// the block's others none. Within a step, sources lie so that a
// lane's eight loads are two wide ones: the four from 128 * half + 4 * lane are slots 32 * (4 * half + k) + lane.
struct Edges {
    const u32* sources;
    const u16* marks;
    const u32* begins;            // first step of each stretch, and behind the last
    const u32* first_rows;        // row of its first slot
    const u32* first_stretches;   // stretch in which that row begins
    u32 stretches, steps, rows, each;
    TaskPieces pieces;            // one a stretch
};

CPMS_DEVICE u32 first_stretch(u32 each) { return threadIdx.x / 32 < each ? blockIdx.x * each + threadIdx.x / 32 : none; }
CPMS_DEVICE u32 all_warps() { return gridDim.x * (blockDim.x / 32); }

// Where a stretch begins and ends, its first row, and whether that began before it.
struct Stretch {
    u32 begin, end, row;
    bool open;

    Stretch() = default;
    CPMS_DEVICE Stretch(const Edges& edges, u32 stretch)
        : begin(edges.begins[stretch]),
          end(edges.begins[stretch + 1]),
          row(edges.first_rows[stretch]),
          open(edges.first_stretches[stretch] < stretch) {}
};

// A value from caches; Hot values lie elsewhere (persistent/hub_cache.cuh).
template <class F>
CPMS_DEVICE typename Raw<F>::Word value_at(const u8* z, u32 i) {
    return ((const typename Raw<F>::Word*)z)[i];
}

// A lane's sources of a step, 32 bits each.
template <class Policy>
struct NamedIn {
    u32 source[slots_each];

    CPMS_DEVICE void begin(const Edges& edges, u32 step) { load(edges, step); }
    CPMS_DEVICE u32 second(const Edges& edges, u32 step) const { return smaller(step + 1, edges.steps - 1); }
    // The step after the next of a stretch of which `left` are left: stretches have two steps or more, but for the last.
    CPMS_DEVICE u32 third(const Edges& edges, u32 step, u32 stretch, u32 left) const {
        const u32 next = stretch + all_warps();
        if (left == 2 && next < edges.stretches) return edges.begins[next];
        return second(edges, step);
    }
    CPMS_DEVICE void load(const Edges& edges, u32 step) {
        const Quad* const at = (const Quad*)edges.sources + (step * (step_slots / 4) + threadIdx.x % 32);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Quad four = load_word(at + 32 * half, Policy{});
#pragma unroll
            for (int k = 0; k < 4; ++k) source[4 * half + k] = four.word[k];
        }
    }
    template <class F, class Values, class Word>
    CPMS_DEVICE void gather(const Edges&, Values values, Word (&word)[slots_each]) const {
#pragma unroll
        for (int k = 0; k < slots_each; ++k) word[k] = value_at<F>(values, source[k]);
    }
};
using Named = NamedIn<Streaming>;

// What a warp has read of a step to come, and of its first stretch. The first may be read before the values that it asks
// for are there. Sources are Named, or as in persistent/compressed_gather.cuh.
template <class Sources>
struct AheadBy {
    u32 step, mark;
    Sources sources;
    Stretch first;

    template <class Edges>
    CPMS_DEVICE void begin(const Edges& edges) {
        if (first_stretch(edges.each) >= edges.stretches) return;
        first = Stretch(edges, first_stretch(edges.each));
        step = first.begin;
        load_mark(edges);
        sources.begin(edges, step);
    }
    template <class Edges>
    CPMS_DEVICE void to_second(const Edges& edges) {
        step = sources.second(edges, step);
        sources.load(edges, step);
    }
    template <class Edges>
    CPMS_DEVICE void to_third(const Edges& edges, u32 stretch, u32 left) {
        step = sources.third(edges, step, stretch, left);
        sources.load(edges, step);
    }
    CPMS_DEVICE void load_mark(const cpms::Edges& edges) {
        reload(mark, edges.marks + lane_of(step), Streaming{});
    }
};
using Ahead = AheadBy<Named>;

}  // namespace cpms

#define CPMS_EDGES_PARAMETERS                                                                               \
    const unsigned *sources, const unsigned short *marks, const unsigned *begins,                           \
        const unsigned *first_rows, const unsigned *first_stretches, unsigned stretches,                    \
        unsigned steps, unsigned each, unsigned long long *pieces
#define CPMS_EDGES                                                                                          \
    cpms::Edges { sources, marks, begins, first_rows, first_stretches, stretches, steps, count, each, cpms::TaskPieces{pieces} }
