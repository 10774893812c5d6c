// The host's request for outer steps of refinement in one launch, and the state of an outer step. The inner tolerance
// is a forcing term as in inexact Newton methods (Eisenstat and Walker, 1996).
#pragma once
#include "pagerank/anderson_products.cuh"
#include "pagerank/sweep_log.cuh"
#include "pagerank/node_passes.cuh"
#include "pagerank/sweep_epilogues.cuh"

namespace cpms {

// Inner sweeps reduce ||r||_1 by inner_reduction, between 0 and 1. The launch ends when the residual is below
// `tolerance` in `norm`, or exceeds noise_tolerance times its prediction.
struct RefineRequest {
    double inner_reduction, tolerance, noise_tolerance;
    double inner_reach, inner_noise;  // see inner_tolerance
    u32 norm;                         // 0, 1, 2: l1, l2, linf
    u32 max_sweeps;                   // residual and inner sweeps of the launch; the log has room for them
    u32 max_inner_sweeps;             // of an outer step (inner_max_iterations); 0 for a residual sweep alone;
                                      // with error feedback it only decides whether another outer step begins
    QuantiserSettings settings;
};

// Vectors of the iteration, padded by at least one zero past the last node, since passes take a few adjacent nodes at a
// time and padding entries of rows gather that zero; no pass may write another value there. A contribution is x /
// degree (x on dangling nodes), as every edge of a node reads the same quotient. The two arrays swap at residual
// sweeps.
struct RefineVectors {
    double *contributions, *next_contributions;
    double* residual;    // r / degree; with error feedback, from the quantisation on, the rounding error that each node
                         // keeps, per edge
    float* correction;   // as mass, not divided by the degree; null where the update is deferred
    u32 has_correction;  // whether earlier outer steps left a correction
    SentHistory history;
};

// State of an outer step, in shared memory, since sweeps leave few registers. Its first numbers are ||r||_1 of this
// step's residual sweep, of the one before it, the one predicted for the next one, and the one at which inner sweeps
// end.
struct OuterState {
    double l1, previous_l1, predicted_l1, tolerance;
    u32 residual_sweep;  // sweeps up to the residual sweep
    u32 history_begin;   // sweeps when the first vector of the history was made
    u32 vectors;         // vectors in the history; 2 once acceleration is not worthwhile

    // Whether another outer step follows in this launch: residuals meet their predictions, and inner sweeps reach
    // their tolerance. Otherwise the host decides.
    CPMS_DEVICE bool continues(const RefineRequest& request, u32 count) const {
        return l1 < previous_l1 && l1 <= request.noise_tolerance * predicted_l1 && count < request.max_sweeps &&
               count - residual_sweep < request.max_inner_sweeps;
    }
    // The predicted residual is that of the last inner sweep: combinations overshoot the tolerance, rounding does
    // not.
    CPMS_DEVICE void close(const RefineRequest& request, double inner_l1) {
        previous_l1 = l1;
        predicted_l1 = Larger{}(inner_l1, request.inner_reduction * l1);
    }
};

// The ||r||_1 at which inner sweeps end, after a residual sweep that found l1, and `norm` in the requested norm.
// inner_reach and inner_noise are the coefficients that cpms/precision/inner_stopping.py derives.
CPMS_DEVICE double inner_tolerance(const RefineRequest& request, double l1, double norm) {
    const double noise_floor = norm == l1 ? request.inner_reach - request.inner_noise * l1 : 0.0;
    return Larger{}(request.inner_reduction * l1, Larger{}(0.5 * request.tolerance * l1 / norm, noise_floor));
}

}  // namespace cpms
