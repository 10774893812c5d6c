// Gather with hub caching: the vector's first values, those of the nodes with most out-edges after reordering, are
// staged in shared memory.
//
// Power-law graphs read few nodes most of the time. Shared memory serves a warp's 32 random reads in a cycle or a
// few, where the first-level cache serves one 128-byte line at a time. A sweep costs one copy of the hubs to each
// block.
#pragma once
#include "base/shared_staging.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

template <class Word>
struct HubValues {
    const u8* x;
    u32 count;  // values in shared memory
};

#if defined(__CUDA_ARCH__)
// Two predicated loads, one from each memory, and no branch: all loads of a lane are in flight together.
#define CPMS_LOAD_EITHER(PTX, CONSTRAINT, TYPE, WORD)                                                                \
    CPMS_DEVICE WORD load_either(u32 i, u32 count, u32 table, const WORD* x) {                                       \
        TYPE word;                                                                                                   \
        asm volatile("{.reg .pred p;\n setp.lt.u32 p, %1, %2;\n @p ld.shared." PTX " %0, [%3];\n @!p ld.global." PTX \
                     " %0, [%4];}"                                                                                   \
                     : CONSTRAINT(word)                                                                              \
                     : "r"(i), "r"(count), "r"(table + (u32)sizeof(WORD) * i), "l"(x + i)                            \
                     : "memory");                                                                                    \
        return (WORD)word;                                                                                           \
    }
CPMS_LOAD_EITHER("u8", "=h", u16, u8)
CPMS_LOAD_EITHER("u16", "=h", u16, u16)
CPMS_LOAD_EITHER("u32", "=r", u32, u32)
CPMS_LOAD_EITHER("f64", "=d", double, double)
#undef CPMS_LOAD_EITHER
#endif

template <class F, class Word>
CPMS_DEVICE Word value_at(const HubValues<Word>& values, u32 i) {
#if defined(__CUDA_ARCH__)
    return load_either(i, values.count, (u32)__cvta_generic_to_shared(stage_bytes()), (const Word*)values.x);
#else
    return ((const Word*)(i < values.count ? stage_bytes() : values.x))[i];
#endif
}

}  // namespace cpms
