// Builds compressed column indices (persistent/compressed_indices.cuh), one warp a tile, and gathers through them
// without any other work, as a lower bound of a sweep's time.
#include "base/stores.cuh"
#include "persistent/compressed_indices.cuh"

namespace cpms {

// Calls work(tile) for each tile of a warp.
template <class Work>
CPMS_DEVICE void for_each_tile(u32 tiles, Work work) {
    const u32 warps = gridDim.x * (blockDim.x / 32);
    for (u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32; tile < tiles; tile += warps) work(tile);
}

// The base of each tile; wide tiles get their place in `high` from the host.
CPMS_DEVICE void compute_bases(const u32* sources, u32 tiles, u32 padding_index, u32* bases) {
    const u32 lane = threadIdx.x % 32;
    for_each_tile(tiles, [&](u32 tile) {
        u32 least = ~0u, most = 0;
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) {
            const u32 source = sources[(u64)tile * tile_entries + 32 * k + lane];
            least = smaller(least, source == padding_index ? ~0u : source);
            most = larger(most, source == padding_index ? 0 : source);
        }
        least = warp_reduce(least, smaller);
        most = warp_reduce(most, larger);
        if (lane == 0) bases[tile] = least > most ? 0 : most - least < 1u << 15 ? least : wide_tile;
    });
}

CPMS_DEVICE void compress_indices(const u32* sources, u32 tiles, u32 padding_index, const u32* bases, Quad* low,
                                  Quad* high) {
    const u32 lane = threadIdx.x % 32;
    for_each_tile(tiles, [&](u32 tile) {
        const u32 base_word = bases[tile];
        const bool wide = base_word & wide_tile;
        Run<16> low_offsets{}, high_offsets{};
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) {
            const u32 source = sources[(u64)tile * tile_entries + 32 * k + lane];
            const u32 offset = wide ? source : source == padding_index ? ~0u : source - base_word;
            low_offsets.put<16>(k, offset);
            high_offsets.put<16>(k, offset >> 16);
        }
        store_run_bytes((u8*)(low + (u64)tile * 32 + lane), low_offsets);
        if (wide) store_run_bytes((u8*)(high + (u64)(base_word & ~wide_tile) * 32 + lane), high_offsets);
    });
}

// sums[t] is the sum of the values that thread t gathered.
template <class Word>
CPMS_DEVICE void gather_compressed(const CompressedIndices& indices, u32 tiles, const Word* values, u64* sums) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, warps = gridDim.x * (blockDim.x / 32), last = tiles - 1;
    TileIndices tile_indices{indices.bases[smaller(thread / 32, last)]};
    tile_indices.load(indices, smaller(thread / 32, last));
    u32 base_word = indices.bases[smaller(thread / 32 + warps, last)];
    u64 sum = 0;
    for_each_tile(tiles, [&](u32 tile) {
        Word found[lane_entries];
        const Word* const from = values + tile_indices.base();
        tile_indices.for_each(indices.padding_index,
                              [&](int k, u32 offset) { found[k] = load_word(from + offset, ReadOnly{}); });
        tile_indices.base_word = base_word;
        tile_indices.load(indices, smaller(tile + warps, last));
        base_word = indices.bases[smaller(tile + 2 * warps, last)];
#pragma unroll
        for (int k = 0; k < lane_entries; ++k) sum += found[k];
    });
    sums[thread] = sum;
}

}  // namespace cpms

#define CPMS_COMPUTE_BASES(NAME)                                                                 \
    extern "C" __global__ void __launch_bounds__(256)                                            \
        NAME(const unsigned* sources, unsigned tiles, unsigned padding_index, unsigned* bases) { \
        cpms::compute_bases(sources, tiles, padding_index, bases);                               \
    }
#define CPMS_COMPRESS_INDICES(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                      \
        NAME(const unsigned* sources, unsigned tiles, unsigned padding_index, const unsigned* bases,       \
             unsigned short* low, unsigned short* high) {                                                  \
        cpms::compress_indices(sources, tiles, padding_index, bases, (cpms::Quad*)low, (cpms::Quad*)high); \
    }
#define CPMS_GATHER_COMPRESSED(NAME, WORD)                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        NAME(const __grid_constant__ cpms::CompressedIndices indices, unsigned tiles, const WORD* values, \
             unsigned long long* sums) {                                                                  \
        cpms::gather_compressed<WORD>(indices, tiles, values, sums);                                      \
    }
