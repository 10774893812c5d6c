// What the host asks of rounds of method refine in one launch.
#pragma once
#include "pagerank/sweep_log.cuh"
#include "pagerank/node_passes.cuh"
#include "pagerank/sweep_epilogues.cuh"

namespace cpms {

struct Plan {
    double gain, tol, trust;
    double reach, noise;  // see low_until
    u32 norm;    // 0, 1, 2: l1, l2, linf
    u32 most;    // sweeps in all
    u32 lows;    // low sweeps in a round; see low_limit
    Storing storing;
};

// What a round knows of itself; in shared memory, since walks have few registers left.
struct Course {
    double l1, before, promised, until;
    u32 full;     // sweeps up to the full one
    u32 began;    // sweeps when the first z was made of those that are kept
    u32 vectors;  // that are combined, two once extrapolation does not pay

    // Whether another round follows: as long as full sweeps find about what low sweeps promised, and these reach their
    // goal; else the host has to think.
    CPMS_DEVICE bool goes_on(const Plan& plan, u32 count) const {
        return l1 < before && l1 <= plan.trust * promised && count < plan.most && count - full < plan.lows;
    }
    // What low sweeps ended with is promised: combinations overshoot their goal, rounding does not.
    CPMS_DEVICE void end(const Plan& plan, double now) {
        before = l1;
        promised = Larger{}(now, plan.gain * l1);
    }
};

// Until which ||r||_1 low sweeps go on, after a full one that found l1, and `size` in the norm of the plan; `reach` and
// `noise` are those of cpms/low_until.py, which says why.
CPMS_DEVICE double low_until(const Plan& plan, double l1, double size) {
    const double within = size == l1 ? plan.reach - plan.noise * l1 : 0.0;
    return Larger{}(plan.gain * l1, Larger{}(0.5 * plan.tol * l1 / size, within));
}

}  // namespace cpms
