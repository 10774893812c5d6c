// What ranks tell each other with their values.
#pragma once
#include "persistent/grid_sync.cuh"
#include "multi_gpu/peer_signals.cuh"

namespace cpms {

// What a rank tells the others. The first five are summed over ranks, in their order; of the next two the
// largest counts; the others are the same on all: how z is scaled, the ||r||_1 that ends a round, its low sweeps
// so far, and whether combining them pays. These are told and not given, so that the launches of all sweeps are the same.
struct Told {
    enum Which { mass, left_over, l1, squares, sum, linf, largest, scale, until, sweeps, combines, count };
};  // left over: dangling mass, or mass that rounding lost

struct Heard {
    const double* by_rank;
    u32 ranks;

    CPMS_DEVICE double operator[](Told::Which which) const {
        double all = by_rank[which];
        for (u32 rank = 1; rank < ranks && which < Told::scale; ++rank) {
            const double one = by_rank[rank * Told::count + which];
            all = which < Told::linf ? all + one : Larger{}(all, one);
        }
        return all;
    }
};

CPMS_DEVICE void tell(double* to, const double (&numbers)[Told::count]) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int q = 0; q < Told::count; ++q) to[q] = numbers[q];
    }
}

// A sweep that has nothing to do says so to the one behind it.
CPMS_DEVICE void tell_nothing(double* to) { tell(to, {}); }

// Values that ranks read of each other, and what they told with them.
struct Vector {
    const u8* all;
    u8* own;        // this rank's stretch
    double* heard;  // what all ranks told
    const u64 *values_to, *told_to;
};

// Exchanges that a kernel sees to: of ranks that write into each other's memory, or of one alone.
struct Exchanges {
    Talk talk;

    CPMS_DEVICE Heard heard(const Vector& vector) const { return Heard{vector.heard, talk.ranks}; }
    CPMS_DEVICE double* told(const Vector& vector, u32 count = Told::count) const {
        return vector.heard + talk.rank * count;
    }

    CPMS_DEVICE void begin() const {
        if (threadIdx.x == 0) number() = talk.ranks > 1 ? talk.counts[1] : 0;
        __syncthreads();
    }
    CPMS_DEVICE void end() const {
        if (talk.ranks > 1 && blockIdx.x == 0 && threadIdx.x == 0) talk.counts[1] = number();
    }
    // Of values that blocks of this grid wrote before the last wait, and of what block 0 has told since.
    template <class Word, class Meanwhile>
    CPMS_DEVICE void values(const Vector& vector, const Grid& grid, Meanwhile meanwhile) const {
        if (talk.ranks > 1) {
            talk.write_values((const Word*)vector.own, vector.values_to, Default{});
            __syncthreads();
            if (threadIdx.x == 0) fence_system();
        }
        numbers(vector, grid, meanwhile);
    }
    // Of what block 0 has told alone, so many numbers a rank.
    template <class Meanwhile>
    CPMS_DEVICE void numbers(const Vector& vector, const Grid& grid, Meanwhile meanwhile, u32 count = Told::count) const {
        grid.wait(meanwhile);
        if (talk.ranks == 1) return;
        const u32 now = number() + 1;
        if (blockIdx.x == 0) {
            talk.write_told(told(vector, count), count, vector.told_to);
            __syncthreads();
            talk.signal_all(now);
        }
        talk.await_all(now);
        if (threadIdx.x == 0) number() = now;
    }

  private:
    static CPMS_DEVICE u32& number() {
        __shared__ u32 of_block;
        return of_block;
    }
};

}  // namespace cpms
