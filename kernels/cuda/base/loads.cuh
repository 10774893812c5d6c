// Loads from global memory under a cache policy, and prefetches into the second-level cache.
//
// A policy is a type, so that a kernel chooses one at compile time; it costs no instruction. On a host every policy
// is a plain load.
#pragma once
#include "base/words.cuh"

namespace cpms {

// Cache policies of loads.
struct Default {};    // all caches
struct ReadOnly {};   // all caches, by the read-only path: no thread writes these data during the kernel
struct Streaming {};  // evict first: the data are read once in a sweep
struct InOrder {};    // all caches, as Default, but loads keep their order in the program
struct LastUse {};    // no allocation in the first-level cache: the data are not read again

// The assembly is volatile so that loads keep their order and several are in flight at once.
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

// Loads a word into the register of an older one. With a second variable the compiler might copy the register right
// after the load was issued, and wait for the data there.
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

// Prefetches a line into the second-level cache.
CPMS_DEVICE void prefetch_l2(const void* at) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

// A native float64 or float32 as float64.
template <class Real, class Policy>
CPMS_DEVICE double load_native(const Real* at, Policy policy) {
    return (double)Native<Real>::value(load_word((const typename Native<Real>::Word*)at, policy));
}
CPMS_DEVICE double load_double(const double* at) { return load_native(at, ReadOnly{}); }

template <int Bytes, class Policy>
CPMS_DEVICE Run<Bytes> load_run_bytes(const u8* at, Policy policy) {
    static_assert(Bytes == 1 || Bytes == 2 || Bytes == 4 || Bytes == 8 || Bytes % 16 == 0, "not a run");
    Run<Bytes> run;
    if constexpr (Bytes == 1) {
        run.word[0] = load_word(at, policy);
    } else if constexpr (Bytes == 2) {
        run.word[0] = load_word((const u16*)at, policy);
    } else if constexpr (Bytes == 4) {
        run.word[0] = load_word((const u32*)at, policy);
    } else if constexpr (Bytes == 8) {
        const Pair p = load_word((const Pair*)at, policy);
        run.word[0] = p.word[0];
        run.word[1] = p.word[1];
    } else {
#pragma unroll
        for (int q = 0; q < Bytes / 16; ++q) {
            const Quad four = load_word((const Quad*)at + q, policy);
#pragma unroll
            for (int w = 0; w < 4; ++w) run.word[4 * q + w] = four.word[w];
        }
    }
    return run;
}

// Gathers the values at `places` into one run.
template <int Count, class Word, class Policy>
CPMS_DEVICE Run<Count * sizeof(Word)> gather_run(const Word* values, const u32 (&places)[Count], Policy policy) {
    Run<Count * sizeof(Word)> run{};
#pragma unroll
    for (int k = 0; k < Count; ++k) {
        run.template put<8 * sizeof(Word)>(k, load_word(values + places[k], policy));
    }
    return run;
}

}  // namespace cpms
