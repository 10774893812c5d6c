// The index loader of a persistent sweep over compressed column indices (persistent/compressed_indices.cuh). It
// halves the bytes of indices where most tiles are narrow, for a few integer instructions an entry.
#pragma once
#include "persistent/compressed_indices.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

struct CompressedEdges : Edges {
    CompressedIndices indices;  // in place of Edges::sources
    const Pair* next_tiles;     // the tile that a warp processes after each one, and its base
};

// A lane's compressed indices of a tile. The base of a tile is known one tile earlier, so that no load waits for it.
struct CompressedIndexLoader {
    TileIndices tile_indices;
    Pair next_tiles;

    CPMS_DEVICE void begin(const CompressedEdges& edges, u32 tile) {
        tile_indices.base_word = edges.indices.bases[tile];
        read(edges, tile);
    }
    CPMS_DEVICE u32 second_tile(const CompressedEdges&, u32) const { return next_tiles.word[0]; }
    CPMS_DEVICE u32 third_tile(const CompressedEdges&, u32, u32, u32) const { return next_tiles.word[0]; }
    CPMS_DEVICE void load(const CompressedEdges& edges, u32 tile) {
        tile_indices.base_word = next_tiles.word[1];
        read(edges, tile);
    }
    template <class F, class Word>
    CPMS_DEVICE void gather(const CompressedEdges& edges, const u8* values, Word (&word)[lane_entries]) const {
        const Word* const from = opaque_base((const Word*)values + tile_indices.base());
        tile_indices.for_each(edges.indices.padding_index, [&](int k, u32 offset) { word[k] = from[offset]; });
    }

  private:
    CPMS_DEVICE void read(const CompressedEdges& edges, u32 tile) {
        tile_indices.load(edges.indices, tile);
        next_tiles = load_word(edges.next_tiles + tile, ReadOnly{});
    }
};

}  // namespace cpms
