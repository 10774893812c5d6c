// Edges in COO: target, source and value of each, sorted by target.
//
// They lie in tiles, each the work of a warp or a block. The sum of a row that lies within a tile goes to
// its place; of the rows in which a tile begins and ends it leaves pieces, and `coo_mend` adds these up in
// their order. So no two add to one place, and sums do not depend on which tile is done first.
#pragma once
#include "base/native_load.cuh"
#include "base/tile_layout.cuh"

namespace cpms {

template <class Real>
struct Coo {
    // Padding behind the edges has the last target, value 0, and a source where x is always 0.
    const u32 *targets, *sources;
    const Real *values, *x;
    double* carry_out;  // two a tile: of the row it begins in, where that ends in it, and of the row it ends in
    Real* sums;         // P x; where no edge ends, zeros that stay
};

// The sums of rows among edges that follow one another in a thread, its first row left open to the left and
// its last one to the right.
struct ThreadRows {
    double open;   // of the last row
    double first;  // of the first row, where that ends here
    u32 first_row;
    bool ended;  // a row ends here
};

// `before` is the target of the edge before, `sum` what is there already of its row.
template <class Real, int Edges>
CPMS_DEVICE ThreadRows add_rows(const u32 (&target)[Edges], const double (&term)[Edges], u32 previous, double sum,
                                Real* sums) {
    ThreadRows found{0.0, 0.0, previous, false};
#pragma unroll
    for (int k = 0; k < Edges; ++k) {
        if (target[k] != previous) {
            if (found.ended) {
                sums[previous] = (Real)sum;
            } else {
                found.first = sum;
                found.ended = true;
            }
            sum = 0.0;
            previous = target[k];
        }
        sum += term[k];
    }
    found.open = sum;
    return found;
}

}  // namespace cpms
