// Totals that ranks exchange with their values, and the all-reduce over ranks, which every rank evaluates in the same
// order. An exchange sends 11 numbers for each rank.
#pragma once
#include "persistent/grid_sync.cuh"

namespace cpms {

// A rank's totals. The first five are summed over ranks; of the next two the maximum counts; the others are equal on
// all ranks: the scale's exponent, the tolerance of the outer step, its number of inner sweeps, and whether
// acceleration is worthwhile. They travel as data and not as kernel arguments, so that all sweeps have equal
// launches.
struct RankTotals {
    enum Which { mass, lost_mass, l1, squares, sum, linf, largest, scale, tolerance, inner_sweeps, worthwhile, count };
};  // lost_mass: dangling mass, or mass lost by rounding

struct ReceivedTotals {
    const double* by_rank;
    u32 ranks;

    CPMS_DEVICE double operator[](RankTotals::Which which) const {
        double all = by_rank[which];
        for (u32 rank = 1; rank < ranks && which < RankTotals::scale; ++rank) {
            const double one = by_rank[rank * RankTotals::count + which];
            all = which < RankTotals::linf ? all + one : Larger{}(all, one);
        }
        return all;
    }
    // Whether the last inner sweep ended the outer step.
    CPMS_DEVICE bool outer_step_ended() const { return !((*this)[RankTotals::l1] > (*this)[RankTotals::tolerance]); }
};

// Publishes a rank's totals, in the order of RankTotals. Norms that no sweep has found yet are infinite, so that the
// next sweep has work.
CPMS_DEVICE void publish_totals(double* to, const double (&totals)[RankTotals::count]) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int q = 0; q < RankTotals::count; ++q) to[q] = totals[q];
    }
}

// A sweep without work passes that on to the next one: norms of 0.
CPMS_DEVICE void publish_idle(double* to) { publish_totals(to, {}); }

// A vector that ranks read of each other, and the totals that travel with it.
struct RankVector {
    const u8* all;
    u8* own;           // this rank's part
    double* received;  // totals of all ranks
};

}  // namespace cpms
