// COO edges (target, source, value), sorted by target, and the segmented reduction of a thread's consecutive edges.
//
// Edges lie in tasks, each the work of a warp or a block. The sum of a row within a task is stored directly. A task
// carries out the rows in which it begins and ends, and `coo_carry_out` adds these partial sums in their order. No
// two tasks write one place, and sums do not depend on which task ends first.
#pragma once
#include "base/loads.cuh"
#include "base/tile_layout.cuh"

namespace cpms {

template <class Real>
struct Coo {
    // The padding past the last edge has the last target, value 0, and a source at which x is always 0.
    const u32 *targets, *sources;
    const Real *values, *x;
    // two a task: of the row in which it begins, if that ends in it, and of the row in which it ends
    double* carry_out;
    Real* sums;  // P x; rows without edges keep the zeros of the allocation
};

// The sums of the rows among a thread's consecutive edges. The first row may continue from the left, the last row to
// the right.
struct ThreadRows {
    double open;   // of the last row
    double first;  // of the first row, if it ends here
    u32 first_row;
    bool ended;  // whether a row ends here
};

// `previous` is the target of the edge before, `sum` the partial sum of its row.
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
