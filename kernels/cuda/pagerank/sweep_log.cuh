// The log of a persistent launch: norms, totals and time of each sweep, written by one thread for the host to read
// after the launch (report_buffer of cpms/backends/cuda/persistent/refinement.py). It costs 48 bytes a sweep.
#pragma once
#include "persistent/grid_sync.cuh"

namespace cpms {

// In place of a sum of squares: marks an inner sweep, or one from a rounded initial guess.
constexpr double inner_sweep_mark = -1.0, rounded_start_mark = -2.0;

// Layout: number of sweeps, time of the begin in ns; then of each sweep ||r||_1, sum of squares, mass, sum of r,
// largest |r|, and time of its end.
struct SweepLog {
    double* out;
    bool writes;
    u32 count = 0;

    CPMS_DEVICE explicit SweepLog(double* buffer) : out(buffer), writes(blockIdx.x == 0 && threadIdx.x == 0) {
        if (writes) out[1] = nanoseconds();
    }
    CPMS_DEVICE void record(double l1, double squares, double mass, double sum, double linf) {
        if (writes) {
            const double row[6] = {l1, squares, mass, sum, linf, nanoseconds()};
            for (int q = 0; q < 6; ++q) out[2 + 6 * count + q] = row[q];
            out[0] = (double)(count + 1);
        }
        ++count;
    }
};

// The array that holds the contributions after a launch: each residual sweep swaps the two arrays.
CPMS_DEVICE const double* final_contributions(const double* first, const double* other, const double* report) {
    __shared__ u32 swaps;
    if (threadIdx.x == 0) swaps = 0;
    __syncthreads();
    const u32 sweeps = (u32)report[0];
    for (u32 k = threadIdx.x; k < sweeps; k += blockDim.x) {
        const double squares = report[2 + 6 * k + 1];
        if (squares != inner_sweep_mark && squares != rounded_start_mark) atomicAdd(&swaps, 1u);
    }
    __syncthreads();
    return swaps % 2 ? other : first;
}

}  // namespace cpms
