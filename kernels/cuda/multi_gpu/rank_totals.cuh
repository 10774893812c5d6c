// Totals that ranks exchange with their values, and the all-reduce over ranks, which every rank evaluates in the same
// order. It costs 11 numbers a rank and exchange.
#pragma once
#include "persistent/grid_sync.cuh"
#include "multi_gpu/peer_signals.cuh"

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
};

CPMS_DEVICE void publish_totals(double* to, const double (&totals)[RankTotals::count]) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int q = 0; q < RankTotals::count; ++q) to[q] = totals[q];
    }
}

// A sweep without work passes that on to the next one.
CPMS_DEVICE void publish_idle(double* to) { publish_totals(to, {}); }

// A vector that ranks read of each other, and the totals that travel with it.
struct RankVector {
    const u8* all;
    u8* own;                           // this rank's part
    double* received;                  // totals of all ranks
    const u64 *values_to, *totals_to;  // addresses in the memory of each rank
};
template <int N>
struct RankVectors {
    RankVector of[N];
};

// Exchanges by a kernel: among ranks that write into each other's memory, or of a single rank.
struct Exchange {
    PeerSignals peers;

    CPMS_DEVICE ReceivedTotals received(const RankVector& vector) const {
        return ReceivedTotals{vector.received, peers.ranks};
    }
    CPMS_DEVICE double* own_totals(const RankVector& vector, u32 count = RankTotals::count) const {
        return vector.received + peers.rank * count;
    }

    CPMS_DEVICE void begin() const {
        if (threadIdx.x == 0) epoch() = peers.ranks > 1 ? peers.counts[1] : 0;
        __syncthreads();
    }
    CPMS_DEVICE void end() const {
        if (peers.ranks > 1 && blockIdx.x == 0 && threadIdx.x == 0) peers.counts[1] = epoch();
    }
    // Exchanges values that blocks of this grid wrote before the last barrier, and totals that block 0 has published
    // since.
    template <class Word, class Overlapped>
    CPMS_DEVICE void values(const RankVector& vector, const Grid& grid, Overlapped overlapped) const {
        if (peers.ranks > 1) {
            peers.write_values((const Word*)vector.own, vector.values_to, Default{});
            __syncthreads();
            if (threadIdx.x == 0) fence_system();
        }
        totals(vector, grid, overlapped);
    }
    // Exchanges totals of block 0 only, `count` a rank.
    template <class Overlapped>
    CPMS_DEVICE void totals(const RankVector& vector, const Grid& grid, Overlapped overlapped,
                            u32 count = RankTotals::count) const {
        grid.sync(overlapped);
        if (peers.ranks == 1) return;
        const u32 now = epoch() + 1;
        if (blockIdx.x == 0) {
            peers.write_totals(own_totals(vector, count), count, vector.totals_to);
            __syncthreads();
            peers.signal_all(now);
        }
        peers.await_all(now);
        if (threadIdx.x == 0) epoch() = now;
    }

  private:
    static CPMS_DEVICE u32& epoch() {
        __shared__ u32 of_block;
        return of_block;
    }
};

}  // namespace cpms
