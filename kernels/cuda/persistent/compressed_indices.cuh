// Sources of edges, in steps of 256 slots, by codes: of 16 bits where those of a step lie near each other, of 32 where not.
#pragma once
#include "base/loads.cuh"
#include "base/tile_layout.cuh"

namespace cpms {

constexpr u32 wide_tile = 0x80000000u;

struct CompressedIndices {
    const Quad*
        low;  // the low halves of each step's codes: a lane's eight are those of slots lane, 32 + lane and so on
    const Quad* high;   // the high halves of far steps' codes, which count from node 0
    const u32* bases;   // of each step: from which node its codes count, or far_step and the step's place in `high`
    u32 padding_index;  // where there is always a 0, behind all that is gathered; in near steps its code is all ones
};

// Bytes of two words, which one each four bits of `which` say, or, where their top bit is set, eight times its sign.
CPMS_DEVICE u32 permute_bytes(u32 first, u32 second, u32 selector) {
#if defined(__CUDA_ARCH__)
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(first), "r"(second), "r"(selector));
    return bytes;
#else
    u32 bytes = 0;
    for (u32 i = 0; i < 4; ++i) {
        const u32 picked = selector >> 4 * i, byte = (u32)(((u64)second << 32 | first) >> 8 * (picked & 7)) & 0xFF;
        bytes |= (picked & 8 ? (byte >> 7) * 0xFF : byte) << 8 * i;
    }
    return bytes;
#endif
}

// A lane's codes of a step. Near ones are below 2^15, so that the sign tells nowhere's.
struct TileIndices {
    u32 base_word;
    Quad low, high;

    // `head` is the step's. In near steps `high` stays what it was.
    CPMS_DEVICE void load(const CompressedIndices& indices, u32 tile) {
        low = load_word(indices.low + lane_part(tile), Streaming{});
        const Quad* const at = indices.high + lane_part(base_word & ~wide_tile);
#if defined(__CUDA_ARCH__)
        asm volatile("{.reg .pred p;\n setp.lt.s32 p, %4, 0;\n @p ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%5];}"
                     : "+r"(high.word[0]), "+r"(high.word[1]), "+r"(high.word[2]), "+r"(high.word[3])
                     : "r"(base_word), "l"(at));
#else
        if (base_word & wide_tile) high = *at;
#endif
    }
    CPMS_DEVICE u32 base() const { return base_word & wide_tile ? 0 : base_word; }
    // Calls use(k, code) for each of eight slots; its source is base() + code.
    template <class Use>
    CPMS_DEVICE void for_each(u32 padding_index, Use use) const {
        const bool wide = base_word & wide_tile;
        const u32 even = wide ? 0x5410 : 0x9910, odd = wide ? 0x7632 : 0xBB32,
                  most = wide ? ~0u : padding_index - base_word;
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) {
            use(k, smaller(permute_bytes(low.word[k / 2], high.word[k / 2], k % 2 ? odd : even), most));
        }
    }
};

}  // namespace cpms

#define CPMS_COMPRESSED_PARAMETERS \
    const unsigned short *low, const unsigned short *high, const unsigned *bases, unsigned padding_index
#define CPMS_COMPRESSED \
    cpms::CompressedIndices { (const cpms::Quad*)low, (const cpms::Quad*)high, bases, padding_index }
