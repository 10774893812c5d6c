// Stores to global memory under a cache policy: words, and runs of bytes.
#pragma once
#include "base/loads.cuh"

namespace cpms {

// Stores a word with write-back caching, or with evict-first priority.
template <class Word>
CPMS_DEVICE void store_word(Word* at, const Word& word, Default) {
    *at = word;
}
#if defined(__CUDA_ARCH__)
CPMS_DEVICE void store_word(u8* at, u8 word, Streaming) {
    asm volatile("st.global.cs.u8 [%0], %1;" ::"l"(at), "h"((u16)word));
}
CPMS_DEVICE void store_word(u16* at, u16 word, Streaming) {
    asm volatile("st.global.cs.u16 [%0], %1;" ::"l"(at), "h"(word));
}
CPMS_DEVICE void store_word(u32* at, u32 word, Streaming) {
    asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(at), "r"(word));
}
CPMS_DEVICE void store_word(Pair* at, const Pair& p, Streaming) {
    asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(p.word[0]), "r"(p.word[1]));
}
CPMS_DEVICE void store_word(Quad* at, const Quad& q, Streaming) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(q.word[0]), "r"(q.word[1]),
                 "r"(q.word[2]), "r"(q.word[3]));
}
#else
template <class Word>
CPMS_DEVICE void store_word(Word* at, const Word& word, Streaming) {
    *at = word;
}
#endif

// An L2 policy for data that are written once and read once, and exceed the second-level cache: a fraction of the
// lines has evict-last priority and stays, the others have evict-first priority. A larger fraction kept fewer lines
// until their use. ptxas rounds the fraction to sixteenths.
struct FractionalL2 {
#if defined(__CUDA_ARCH__)
    u64 policy;
    CPMS_DEVICE FractionalL2() {
        asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, 0.15;" : "=l"(policy));
    }
#endif
};
#if defined(__CUDA_ARCH__)
CPMS_DEVICE void store_word(Pair* at, const Pair& p, const FractionalL2& hint) {
    asm volatile("st.global.L2::cache_hint.v2.u32 [%0], {%1, %2}, %3;" ::"l"(at), "r"(p.word[0]), "r"(p.word[1]),
                 "l"(hint.policy)
                 : "memory");
}
CPMS_DEVICE void store_word(Quad* at, const Quad& q, const FractionalL2& hint) {
    asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(at), "r"(q.word[0]),
                 "r"(q.word[1]), "r"(q.word[2]), "r"(q.word[3]), "l"(hint.policy)
                 : "memory");
}
#else
template <class Word>
CPMS_DEVICE void store_word(Word* at, const Word& word, const FractionalL2&) {
    *at = word;
}
#endif

template <int Bytes, class Policy = Default>
CPMS_DEVICE void store_run_bytes(u8* at, const Run<Bytes>& run, Policy policy = {}) {
    if constexpr (Bytes == 1) {
        store_word(at, (u8)run.word[0], policy);
    } else if constexpr (Bytes == 2) {
        store_word((u16*)at, (u16)run.word[0], policy);
    } else if constexpr (Bytes == 4) {
        store_word((u32*)at, run.word[0], policy);
    } else if constexpr (Bytes == 8) {
        store_word((Pair*)at, Pair{{run.word[0], run.word[1]}}, policy);
    } else {
#pragma unroll
        for (int q = 0; q < Bytes / 16; ++q) {
            const u32* w = run.word + 4 * q;
            store_word((Quad*)at + q, Quad{{w[0], w[1], w[2], w[3]}}, policy);
        }
    }
}

}  // namespace cpms
