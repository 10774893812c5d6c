// What the host asks of rounds of method refine in one launch.
#pragma once
#include "pagerank/sweep_log.cuh"
#include "pagerank/node_passes.cuh"
#include "pagerank/sweep_epilogues.cuh"

namespace cpms {

struct RefineRequest {
    double inner_reduction, tolerance, noise_tolerance;
    double inner_reach, inner_noise;  // see low_until
    u32 norm;                         // 0, 1, 2: l1, l2, linf
    u32 max_sweeps;                   // sweeps in all
    u32 max_inner_sweeps;             // low sweeps in a round; see low_limit
    QuantiserSettings settings;
};

// What a round knows of itself; in shared memory, since walks have few registers left.
struct OuterState {
    double l1, previous_l1, predicted_l1, tolerance;
    u32 residual_sweep;  // sweeps up to the full one
    u32 history_begin;   // sweeps when the first z was made of those that are kept
    u32 vectors;         // that are combined, two once extrapolation does not pay

    // Whether another round follows: as long as full sweeps find about what low sweeps promised, and these reach their
    // goal; else the host has to think.
    CPMS_DEVICE bool continues(const RefineRequest& request, u32 count) const {
        return l1 < previous_l1 && l1 <= request.noise_tolerance * predicted_l1 && count < request.max_sweeps &&
               count - residual_sweep < request.max_inner_sweeps;
    }
    // What low sweeps ended with is promised: combinations overshoot their goal, rounding does not.
    CPMS_DEVICE void close(const RefineRequest& request, double inner_l1) {
        previous_l1 = l1;
        predicted_l1 = Larger{}(inner_l1, request.inner_reduction * l1);
    }
};

// Until which ||r||_1 low sweeps go on, after a full one that found l1, and `size` in the norm of the plan; `reach` and
// `noise` are those of cpms/low_until.py, which says why.
CPMS_DEVICE double inner_tolerance(const RefineRequest& request, double l1, double norm) {
    const double noise_floor = norm == l1 ? request.inner_reach - request.inner_noise * l1 : 0.0;
    return Larger{}(request.inner_reduction * l1, Larger{}(0.5 * request.tolerance * l1 / norm, noise_floor));
}

}  // namespace cpms
