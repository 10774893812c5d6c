// Compressed column indices: for each tile of 256 entries a base, and an offset of 16 bits an entry where all columns
// of the tile lie within 2^15 of the base; wide tiles keep 32 bits (frame of reference, as in delta-compressed CSR of
// Kourtis et al., 2008). A narrow entry costs 2 bytes in place of 4.
#pragma once
#include "base/loads.cuh"
#include "base/tile_layout.cuh"

namespace cpms {

constexpr u32 wide_tile = 0x80000000u;

struct CompressedIndices {
    const Quad* low;    // low halves of the offsets; a lane's eight are those of entries lane, 32 + lane, ...
    const Quad* high;   // high halves of wide tiles' offsets, whose base is 0
    const u32* bases;   // of each tile: the base, or wide_tile and its place in `high`
    u32 padding_index;  // the column of padding, whose value is always 0; its narrow offset is all ones
};

// The byte permutation of PTX (prmt): each four bits of `selector` select a byte of two words, or, with their top
// bit, eight copies of its sign.
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

// A lane's offsets of a tile. Narrow offsets are below 2^15, so a set sign marks padding.
struct TileIndices {
    u32 base_word;
    Quad low, high;

    // `base_word` is that of the tile. In narrow tiles `high` keeps its old contents.
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
    // Calls use(k, offset) for each of a lane's eight entries; the column is base() + offset.
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
