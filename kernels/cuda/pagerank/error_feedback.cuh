// Error feedback (as in quantised gradient descent; Seide et al., 2014): the rounding error of a node's quantised
// residual stays with the node and is added before the next quantisation.
//
// Without it, a float64 residual sweep has to find that error again. With it, an outer step can continue to the last
// digits of float64. The iterate x is the sum of all that was sent, and its residual is the sum of the kept errors
// and of the last vector sent. That holds for a rounded initial guess, too, so the first sweep may be an inner sweep.
// A sweep reads 8 bytes a node and writes 8 bytes a node more than without error feedback.
#pragma once
#include "pagerank/deferred_update.cuh"
#include "pagerank/sweep_epilogues.cuh"

namespace cpms {

// An initial guess to be rounded: the teleport's inflow, and an equal amount for each edge. It replaces the given
// contributions if row_begins is not null.
struct RoundedStart {
    const u32* row_begins;     // first entry of each row, and the end of the last: nearly the number of edges of each
    double per_edge, largest;  // damped; an upper bound of its contributions
};

// Epilogue of an inner sweep with error feedback: r / degree = damping (2^-e sum + lost w) / degree + error; z = Q(r
// / degree); error = r / degree - z.
//
// The kept error is not damped. So that the sum of r is damped as usual, 1 / damping times the kept errors are taken
// from the lost mass: damping (sent + lost) + kept = damping times the sum of r. All of r that this moves goes where
// teleport goes, and there it only scales x, which is linear in the teleport. That takes w = v, and a format of at
// least 5 exponent bits, so that dangling values are stored; the host checks both (PersistentGraph.of and
// CudaRefinement._may_feed_back).
template <class Q, bool Personal, bool Core, bool ByteDegrees>
struct ErrorFeedbackEpilogue {
    static constexpr u32 prefetch_rows = 4;
    struct Operands {
        Degree<ByteDegrees> degree;
        double rounding_error;
        NodeSink<Personal> sink;
        InternalDegree<Core, ByteDegrees> internal_degree;
    };
    const Nodes& nodes;
    const InnerFactors& by;
    double* rounding_error;
    u8* out;
    u64 seed;
    double l1 = 0.0, sum = 0.0, unsent = 0.0, kept_error = 0.0;
    float largest = 0.0f;  // of |r / degree| * scale

    CPMS_DEVICE ErrorFeedbackEpilogue(const Nodes& all, const InnerFactors& factors, double* errors, u8* quantised,
                                      u64 rounding_seed)
        : nodes(all), by(factors), rounding_error(errors), out(quantised), seed(rounding_seed) {}

    CPMS_DEVICE Operands load(u32 row) const {
        return Operands{Degree<ByteDegrees>(nodes.degree, nodes.degree_bytes, row), rounding_error[row],
                        NodeSink<Personal>(nodes, row), InternalDegree<Core, ByteDegrees>(nodes, row)};
    }
    CPMS_DEVICE void prefetch(u32 row) const {
        Degree<ByteDegrees>::prefetch(nodes.degree, nodes.degree_bytes, row);
        prefetch_l2(rounding_error + row);
        NodeSink<Personal>::prefetch(nodes, row);
        InternalDegree<Core, ByteDegrees>::prefetch(nodes, row);
    }
    CPMS_DEVICE void finish(u32 row, double total, const Operands& with) {
        using Stored = typename QuantiserOf<Q>::Type;
        const u32 degree = with.degree.value(nodes.degree, row);
        const double inflow = fma(total, by.factor, with.sink.of(by.damped_lost, by.common));
        const double contribution = fma(inflow, nodes.inverse(degree), with.rounding_error),
                     scaled = contribution * by.scale;
        const double quantised = Stored::store(out, row, scaled, seed) * by.unscale, error = contribution - quantised;
        const double edges = degree ? exactly(degree) : 1.0, r = contribution * edges;
        rounding_error[row] = error;
        largest = fmaxf(largest, fabsf((float)scaled));
        l1 += fabs(r);
        sum += r;
        unsent += fma(-exactly(with.internal_degree.of(degree, nodes, row)), quantised, r);
        kept_error += error * edges;
    }
    CPMS_DEVICE double mass_lost() const { return unsent - kept_error / nodes.damping; }
};

// Quantisation of the first vector of an outer step: what nodes send and keep, and the mass lost by it.
template <class Q, bool Core>
struct ErrorFeedbackSender {
    double scale, unscale, undamped;
    u8* quantised;
    u64 seed;
    double lost = 0.0;

    CPMS_DEVICE ErrorFeedbackSender(const Nodes& nodes, const QuantiserSettings& settings, int exponent, u8* to)
        : scale(power_of_two(exponent)),
          unscale(power_of_two(-exponent) * WideningLoad<Q>::unit()),
          undamped(1.0 / nodes.damping),
          quantised(to),
          seed(settings.seed) {}

    // Sends a rounded contribution and keeps the difference from `due`; `r` is the residual before, whose mass is sent,
    // kept or lost. All are per edge, r / degree. Returns the value sent.
    CPMS_DEVICE double send(u32 i, const NodeState<Core>& node, double contribution, double due, double r,
                            double* rounding_error) {
        const double edges = node.degree ? exactly(node.degree) : 1.0;
        const double sent = QuantiserOf<Q>::Type::store(quantised, i, contribution * scale, seed) * unscale,
                     error = due - sent;
        rounding_error[i] = error;
        lost += r * edges - exactly(node.degree) * sent + node.external.lost_flow(node.degree, sent) -
                error * edges * undamped;
        return sent;
    }
};

// The first vector of an outer step, and the rounding errors of r / degree. Contributions become those of x in place of
// G(x), since the vector sent and the errors kept are added to x later.
template <class Q, bool Core>
CPMS_DEVICE InnerState send_first(const Nodes& nodes, const QuantiserSettings& settings, double largest,
                                  double* contributions, double* rounding_error, u8* quantised, const Grid& grid) {
    const int exponent = shared_exponent(settings.scaled, settings.top, largest);
    ErrorFeedbackSender<Q, Core> sending(nodes, settings, exponent, quantised);
    for_each_node(
        nodes.count,
        [&](u32 i) {
            return NodeState<Core>{load_word(nodes.degree + i, ReadOnly{}), 0.0f, rounding_error[i],
                                   ExternalFlow<Core>(nodes, i)};
        },
        [&](u32 i, const NodeState<Core>& node) {
            contributions[i] -= node.contribution;
            sending.send(i, node, node.contribution, node.contribution, node.contribution, rounding_error);
        });
    GridReduce<1, 0> lost{{sending.lost}};
    lost.all_reduce(grid);
    return InnerState{largest, lost.value[0], exponent};
}

// A rounded initial guess as the first vector and as x. The error is the teleport's inflow less the value sent, so that
// the first inner sweep, damping P x plus the error, makes the residual G(x) - x.
template <class Q, bool Personal, bool Core>
CPMS_DEVICE InnerState begin_rounded(const Nodes& nodes, const UniformInflow& common, const QuantiserSettings& settings,
                                     const RoundedStart& start, double* contributions, double* rounding_error,
                                     u8* quantised, const Grid& grid) {
    struct Node {
        NodeState<Core> of;  // its contribution is the number of edges that end there
        NodeTeleport<Personal> teleport;
    };
    const double rest = 1.0 - nodes.damping, uniform_teleport = Personal ? 0.0 : rest * common.teleport;
    const int exponent = shared_exponent(settings.scaled, settings.top, start.largest);
    ErrorFeedbackSender<Q, Core> sending(nodes, settings, exponent, quantised);
    for_each_node(
        nodes.count,
        [&](u32 i) {
            const u32 first = load_word(start.row_begins + i, ReadOnly{}),
                      last = load_word(start.row_begins + i + 1, ReadOnly{});
            return Node{
                {load_word(nodes.degree + i, ReadOnly{}), 0.0f, exactly(last - first), ExternalFlow<Core>(nodes, i)},
                NodeTeleport<Personal>(nodes, i)};
        },
        [&](u32 i, const Node& node) {
            const double inverse = nodes.inverse(node.of.degree),
                         teleported = node.teleport.inflow(rest, uniform_teleport);
            const double x = fma(start.per_edge, node.of.contribution, teleported);
            contributions[i] = sending.send(i, node.of, x * inverse, teleported * inverse, 0.0, rounding_error);
        });
    GridReduce<1, 0> lost{{sending.lost}};
    lost.all_reduce(grid);
    return InnerState{start.largest, lost.value[0], exponent};
}

// Sweeps after which sent vectors are added to x.
template <class Q>
constexpr u32 deferred_depth = Q::bytes > 2 ? 8 : 16;
static_assert(deferred_depth<PackedFloat<5, 2, Rounding::nearest>> < max_deferred, "no room for what is sent");

// Whether another inner sweep runs: ||r||_1 exceeds the tolerance, and the next sweep would not end below `damping`
// times the tolerance. The prediction for that sweep is the reduction by the last one times a margin of `slower`.
CPMS_DEVICE bool inner_continues(double now, double previous, double tolerance, double damping) {
    constexpr double slower = 1.25;
    const double factor = slower * now / previous;
    return now * (factor < damping ? factor / damping : 1.0) > tolerance;
}

// Whether the residual decreases by little more than the damping factor. Then Anderson acceleration is worth more
// than error feedback.
CPMS_DEVICE bool converges_slowly(double now, double previous, double damping) {
    return now > 0.9 * damping * previous;
}

}  // namespace cpms
