// Sources of edges, in steps of 256 slots, by codes: of 16 bits where those of a step lie near each other, of 32 where not.
#pragma once
#include "base/loads.cuh"
#include "base/tile_layout.cuh"

namespace cpms {

constexpr u32 far_step = 0x80000000u;

struct Coded {
    const Quad* low;   // the low halves of each step's codes: a lane's eight are those of slots lane, 32 + lane and so on
    const Quad* high;  // the high halves of far steps' codes, which count from node 0
    const u32* heads;  // of each step: from which node its codes count, or far_step and the step's place in `high`
    u32 nowhere;       // where there is always a 0, behind all that is gathered; in near steps its code is all ones
};

// Bytes of two words, which one each four bits of `which` say, or, where their top bit is set, eight times its sign.
CPMS_DEVICE u32 bytes_of(u32 first, u32 second, u32 which) {
#if defined(__CUDA_ARCH__)
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(first), "r"(second), "r"(which));
    return bytes;
#else
    u32 bytes = 0;
    for (u32 i = 0; i < 4; ++i) {
        const u32 picked = which >> 4 * i, byte = (u32)(((u64)second << 32 | first) >> 8 * (picked & 7)) & 0xFF;
        bytes |= (picked & 8 ? (byte >> 7) * 0xFF : byte) << 8 * i;
    }
    return bytes;
#endif
}

// A lane's codes of a step. Near ones are below 2^15, so that the sign tells nowhere's.
struct Codes {
    u32 head;
    Quad low, high;

    // `head` is the step's. In near steps `high` stays what it was.
    CPMS_DEVICE void load(const Coded& sources, u32 step) {
        low = load_word(sources.low + lane_of(step), Streaming{});
        const Quad* const at = sources.high + lane_of(head & ~far_step);
#if defined(__CUDA_ARCH__)
        asm volatile(
            "{.reg .pred p;\n setp.lt.s32 p, %4, 0;\n @p ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%5];}"
            : "+r"(high.word[0]), "+r"(high.word[1]), "+r"(high.word[2]), "+r"(high.word[3])
            : "r"(head), "l"(at));
#else
        if (head & far_step) high = *at;
#endif
    }
    CPMS_DEVICE u32 base() const { return head & far_step ? 0 : head; }
    // Calls use(k, code) for each of eight slots; its source is base() + code.
    template <class Use>
    CPMS_DEVICE void each(u32 nowhere, Use use) const {
        const bool far = head & far_step;
        const u32 even = far ? 0x5410 : 0x9910, odd = far ? 0x7632 : 0xBB32, most = far ? ~0u : nowhere - head;
#pragma unroll
        for (int k = 0; k < slots_each; ++k) {
            use(k, smaller(bytes_of(low.word[k / 2], high.word[k / 2], k % 2 ? odd : even), most));
        }
    }
};

}  // namespace cpms

#define CPMS_CODED_PARAMETERS const unsigned short *low, const unsigned short *high, const unsigned *heads, unsigned nowhere
#define CPMS_CODED cpms::Coded{(const cpms::Quad*)low, (const cpms::Quad*)high, heads, nowhere}
