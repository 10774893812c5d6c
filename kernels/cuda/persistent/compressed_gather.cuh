// A sweep over sources that are named by codes.
#pragma once
#include "persistent/compressed_indices.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

struct CodedEdges : Edges {
    Coded coded;            // sources, in place of those of Edges
    const Pair* following;  // the step that a warp walks behind each, and its head
};

// A lane's codes of a step. What codes count from is known a step before, so that nothing waits for it.
struct NamedByCodes {
    Codes codes;
    Pair following;

    CPMS_DEVICE void begin(const CodedEdges& edges, u32 step) {
        codes.head = edges.coded.heads[step];
        read(edges, step);
    }
    CPMS_DEVICE u32 second(const CodedEdges&, u32) const { return following.word[0]; }
    CPMS_DEVICE u32 third(const CodedEdges&, u32, u32, u32) const { return following.word[0]; }
    CPMS_DEVICE void load(const CodedEdges& edges, u32 step) {
        codes.head = following.word[1];
        read(edges, step);
    }
    template <class F, class Word>
    CPMS_DEVICE void gather(const CodedEdges& edges, const u8* values, Word (&word)[slots_each]) const {
        const Word* const from = kept_apart((const Word*)values + codes.base());
        codes.each(edges.coded.nowhere, [&](int k, u32 code) { word[k] = from[code]; });
    }

  private:
    CPMS_DEVICE void read(const CodedEdges& edges, u32 step) {
        codes.load(edges.coded, step);
        following = load_word(edges.following + step, ReadOnly{});
    }
};

}  // namespace cpms

#define CPMS_CODED_EDGES_PARAMETERS CPMS_EDGES_PARAMETERS, CPMS_CODED_PARAMETERS, const unsigned* following
#define CPMS_CODED_EDGES cpms::CodedEdges{CPMS_EDGES, CPMS_CODED, (const cpms::Pair*)following}
