// Loads.
#pragma once
#include "base/words.cuh"

namespace cpms {

// Where a load leaves what it read.
struct Default {};    // in all caches
struct ReadOnly {};   // in all caches, by the read-only path: nothing writes it during the kernel
struct Streaming {};  // first to be evicted: it is read once
struct InOrder {};    // in all caches, as by default, but loads stay in the order they are written in
struct LastUse {};    // not in the first-level cache: it will not be read again

// Volatile: loads stay in the order they are written in, so that several are on their way together.
#if defined(__CUDA_ARCH__)
#define CPMS_LOADS(POLICY, PTX)                                                                               \
    CPMS_DEVICE u8 load_word(const u8* at, POLICY) {                                                          \
        u16 word;                                                                                             \
        asm volatile("ld.global" PTX ".u8 %0, [%1];" : "=h"(word) : "l"(at));                                 \
        return (u8)word;                                                                                      \
    }                                                                                                         \
    CPMS_DEVICE u16 load_word(const u16* at, POLICY) {                                                        \
        u16 word;                                                                                             \
        asm volatile("ld.global" PTX ".u16 %0, [%1];" : "=h"(word) : "l"(at));                                \
        return word;                                                                                          \
    }                                                                                                         \
    CPMS_DEVICE u32 load_word(const u32* at, POLICY) {                                                        \
        u32 word;                                                                                             \
        asm volatile("ld.global" PTX ".u32 %0, [%1];" : "=r"(word) : "l"(at));                                \
        return word;                                                                                          \
    }                                                                                                         \
    CPMS_DEVICE u64 load_word(const u64* at, POLICY) {                                                        \
        u64 word;                                                                                             \
        asm volatile("ld.global" PTX ".u64 %0, [%1];" : "=l"(word) : "l"(at));                                \
        return word;                                                                                          \
    }                                                                                                         \
    CPMS_DEVICE Pair load_word(const Pair* at, POLICY) {                                                      \
        Pair p;                                                                                               \
        asm volatile("ld.global" PTX ".v2.u32 {%0, %1}, [%2];" : "=r"(p.word[0]), "=r"(p.word[1]) : "l"(at)); \
        return p;                                                                                             \
    }                                                                                                         \
    CPMS_DEVICE Quad load_word(const Quad* at, POLICY) {                                                      \
        Quad q;                                                                                               \
        asm volatile("ld.global" PTX ".v4.u32 {%0, %1, %2, %3}, [%4];"                                        \
                     : "=r"(q.word[0]), "=r"(q.word[1]), "=r"(q.word[2]), "=r"(q.word[3])                     \
                     : "l"(at));                                                                              \
        return q;                                                                                             \
    }
CPMS_LOADS(ReadOnly, ".nc")
CPMS_LOADS(Streaming, ".cs")
CPMS_LOADS(InOrder, "")
CPMS_LOADS(LastUse, ".nc.L1::no_allocate")
#undef CPMS_LOADS

template <class Word>
CPMS_DEVICE Word load_word(const Word* at, Default) {
    return *at;
}
#else
template <class Word, class Policy>
CPMS_DEVICE Word load_word(const Word* at, Policy) {
    return *at;
}
#endif

// Loads a word over an older one. Were it another variable, the compiler might copy it from register to register as soon
// as it has been asked for, and wait for it there.
#if defined(__CUDA_ARCH__)
CPMS_DEVICE void reload(u32& word, const u16* at, Streaming) {
    asm volatile("ld.global.cs.u16 %0, [%1];" : "+r"(word) : "l"(at));
}
CPMS_DEVICE void reload(u32& word, const u16* at, InOrder) {
    asm volatile("ld.global.u16 %0, [%1];" : "+r"(word) : "l"(at));
}
#else
template <class Policy>
CPMS_DEVICE void reload(u32& word, const u16* at, Policy) {
    word = *at;
}
#endif

// Asks for what will be loaded soon: the second-level cache has it by then.
CPMS_DEVICE void prefetch_l2(const void* at) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

CPMS_DEVICE double load_double(const double* at) { return value_of(load_word((const u64*)at, ReadOnly{})); }

template <int ByteDegrees, class Policy>
CPMS_DEVICE Run<ByteDegrees> load_run_bytes(const u8* at, Policy policy) {
    static_assert(ByteDegrees == 1 || ByteDegrees == 2 || ByteDegrees == 4 || ByteDegrees == 8 || ByteDegrees % 16 == 0,
                  "not a run");
    Run<ByteDegrees> run;
    if constexpr (ByteDegrees == 1) {
        run.word[0] = load_word(at, policy);
    } else if constexpr (ByteDegrees == 2) {
        run.word[0] = load_word((const u16*)at, policy);
    } else if constexpr (ByteDegrees == 4) {
        run.word[0] = load_word((const u32*)at, policy);
    } else if constexpr (ByteDegrees == 8) {
        const Pair p = load_word((const Pair*)at, policy);
        run.word[0] = p.word[0];
        run.word[1] = p.word[1];
    } else {
#pragma unroll
        for (int q = 0; q < ByteDegrees / 16; ++q) {
            const Quad four = load_word((const Quad*)at + q, policy);
#pragma unroll
            for (int w = 0; w < 4; ++w) run.word[4 * q + w] = four.word[w];
        }
    }
    return run;
}

// Values at places that a thread has read, side by side.
template <int Degree, class Word, class Policy>
CPMS_DEVICE Run<Degree * sizeof(Word)> gather_run(const Word* values, const u32 (&places)[Degree], Policy policy) {
    Run<Degree * sizeof(Word)> run{};
#pragma unroll
    for (int k = 0; k < Degree; ++k) {
        run.template put<8 * sizeof(Word)>(k, load_word(values + places[k], policy));
    }
    return run;
}

}  // namespace cpms
