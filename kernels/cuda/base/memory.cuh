// Words of device memory, loaded under a cache policy; on a host, plain C++.
#pragma once

#if defined(__CUDACC__)
#define CPMS_DEVICE __device__ __forceinline__
// For what is run now and then: its registers are no concern of the loops around it.
#define CPMS_APART static __device__ __noinline__
#define CPMS_CONSTANT __host__ __device__ constexpr
#else
#define CPMS_DEVICE inline
#define CPMS_APART static
#define CPMS_CONSTANT constexpr
#endif

namespace cpms {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

struct alignas(8) Pair {
    u32 word[2];
};
struct alignas(16) Quad {
    u32 word[4];
};

// Where a load leaves what it read.
struct Default {};    // in all caches
struct ReadOnly {};   // in all caches, by the read-only path: nothing writes it during the kernel
struct Streaming {};  // first to be evicted: it is read once
struct InOrder {};    // in all caches, as by default, but loads stay in the order they are written in
struct LastUse {};    // not in the first-level cache: it will not be read again

CPMS_DEVICE u64 bits_of(double value) {
#if defined(__CUDA_ARCH__)
    return (u64)__double_as_longlong(value);
#else
    u64 bits;
    __builtin_memcpy(&bits, &value, 8);
    return bits;
#endif
}

CPMS_DEVICE double value_of(u64 bits) {
#if defined(__CUDA_ARCH__)
    return __longlong_as_double((long long)bits);
#else
    double value;
    __builtin_memcpy(&value, &bits, 8);
    return value;
#endif
}

CPMS_DEVICE u32 bits_of_single(float value) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(value);
#else
    u32 bits;
    __builtin_memcpy(&bits, &value, 4);
    return bits;
#endif
}

CPMS_DEVICE float single_of(u32 bits) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
#endif
}

// A number's float64, and its float32, as IEEE 754 has them: compilers are told to take what is below the normal float32
// for 0, and that takes instructions of its own.
CPMS_DEVICE double doubled(float number) {
#if defined(__CUDA_ARCH__)
    double same;
    asm("cvt.f64.f32 %0, %1;" : "=d"(same) : "f"(number));
    return same;
#else
    return (double)number;
#endif
}
CPMS_DEVICE float rounded(double number) {
#if defined(__CUDA_ARCH__)
    float nearest;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(nearest) : "d"(number));
    return nearest;
#else
    return (float)number;
#endif
}

// Volatile: loads stay in the order they are written in, so that several are on their way together.
#if defined(__CUDA_ARCH__)
#define CPMS_LOADS(POLICY, PTX)                                                                           \
    CPMS_DEVICE u8 load_word(const u8* at, POLICY) {                                                      \
        u16 word;                                                                                         \
        asm volatile("ld.global" PTX ".u8 %0, [%1];" : "=h"(word) : "l"(at));                             \
        return (u8)word;                                                                                  \
    }                                                                                                     \
    CPMS_DEVICE u16 load_word(const u16* at, POLICY) {                                                    \
        u16 word;                                                                                         \
        asm volatile("ld.global" PTX ".u16 %0, [%1];" : "=h"(word) : "l"(at));                            \
        return word;                                                                                      \
    }                                                                                                     \
    CPMS_DEVICE u32 load_word(const u32* at, POLICY) {                                                    \
        u32 word;                                                                                         \
        asm volatile("ld.global" PTX ".u32 %0, [%1];" : "=r"(word) : "l"(at));                            \
        return word;                                                                                      \
    }                                                                                                     \
    CPMS_DEVICE u64 load_word(const u64* at, POLICY) {                                                    \
        u64 word;                                                                                         \
        asm volatile("ld.global" PTX ".u64 %0, [%1];" : "=l"(word) : "l"(at));                            \
        return word;                                                                                      \
    }                                                                                                     \
    CPMS_DEVICE Pair load_word(const Pair* at, POLICY) {                                                  \
        Pair p;                                                                                           \
        asm volatile("ld.global" PTX ".v2.u32 {%0, %1}, [%2];" : "=r"(p.word[0]), "=r"(p.word[1]) : "l"(at));\
        return p;                                                                                         \
    }                                                                                                     \
    CPMS_DEVICE Quad load_word(const Quad* at, POLICY) {                                                  \
        Quad q;                                                                                           \
        asm volatile("ld.global" PTX ".v4.u32 {%0, %1, %2, %3}, [%4];"                                    \
            : "=r"(q.word[0]), "=r"(q.word[1]), "=r"(q.word[2]), "=r"(q.word[3])                          \
            : "l"(at));                                                                                   \
        return q;                                                                                         \
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
CPMS_DEVICE void fetch_ahead(const void* at) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

// Where a store leaves what it wrote: in the second-level cache, or there first to be evicted.
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

// Of what is written to be read once and written again, more than the second-level cache holds: some lines stay there, as
// all others are first to be evicted. With a third or half of them kept that gained less, on an H100. (ptxas counts 16ths.)
struct SomeKept {
#if defined(__CUDA_ARCH__)
    u64 policy;
    CPMS_DEVICE SomeKept() {
        asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, 0.15;" : "=l"(policy));
    }
#endif
};
#if defined(__CUDA_ARCH__)
CPMS_DEVICE void store_word(Pair* at, const Pair& p, const SomeKept& kept) {
    asm volatile("st.global.L2::cache_hint.v2.u32 [%0], {%1, %2}, %3;" ::"l"(at), "r"(p.word[0]), "r"(p.word[1]),
                 "l"(kept.policy)
                 : "memory");
}
CPMS_DEVICE void store_word(Quad* at, const Quad& q, const SomeKept& kept) {
    asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(at), "r"(q.word[0]), "r"(q.word[1]),
                 "r"(q.word[2]), "r"(q.word[3]), "l"(kept.policy)
                 : "memory");
}
#else
template <class Word>
CPMS_DEVICE void store_word(Word* at, const Word& word, const SomeKept&) {
    *at = word;
}
#endif

// Copies to shared memory that go on by themselves until they are awaited, each thread its own. What is read is not kept
// in the first-level cache where 16 bytes are copied at once.
template <int Bytes>
CPMS_DEVICE void copy_ahead(void* to, const void* from) {
#if defined(__CUDA_ARCH__)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(Bytes) : "memory");
    }
#else
    __builtin_memcpy(to, from, Bytes);
#endif
}
CPMS_DEVICE void copy_quad_ahead(void* to, const void* from, const SomeKept& kept) {
#if defined(__CUDA_ARCH__)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "l"(kept.policy)
                 : "memory");
#else
    copy_ahead<16>(to, from);
#endif
}
CPMS_DEVICE void await_copies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// A run of bytes as 32-bit words, by the widest loads its alignment (its own size, at most 16) allows.
template <int Bytes>
struct Run {
    static constexpr int words = Bytes < 4 ? 1 : Bytes / 4;
    u32 word[words];

    // Field `index` of `Width` bits, counted from the run's first byte.
    template <int Width>
    CPMS_DEVICE u64 field(int index) const {
        if constexpr (Width == 64) {
            return (u64)word[2 * index + 1] << 32 | word[2 * index];
        } else if constexpr (Width == 32) {
            return word[index];
        } else {
            return word[index * Width / 32] >> (index * Width % 32) & ((1u << Width) - 1);
        }
    }

    template <int Width>
    CPMS_DEVICE void put(int index, u64 bits) {  // into a run of zeros
        if constexpr (Width == 64) {
            word[2 * index] = (u32)bits;
            word[2 * index + 1] = (u32)(bits >> 32);
        } else if constexpr (Width == 32) {
            word[index] = (u32)bits;
        } else {
            word[index * Width / 32] |= (u32)(bits & ((1u << Width) - 1)) << (index * Width % 32);
        }
    }
};

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

// Values at places that a thread has read, side by side.
template <int Count, class Word, class Policy>
CPMS_DEVICE Run<Count * sizeof(Word)> side_by_side(const Word* values, const u32 (&places)[Count], Policy policy) {
    Run<Count * sizeof(Word)> run{};
#pragma unroll
    for (int k = 0; k < Count; ++k) {
        run.template put<8 * sizeof(Word)>(k, load_word(values + places[k], policy));
    }
    return run;
}

}  // namespace cpms
