// A round of method refine in which what rounding loses of a node's residual stays with the node, and is sent later.
//
// No full sweep has to find it again, so that such a round goes on to the last digits of float64. x is what was sent, z by
// z: its residual is what nodes keep of r, and what is on its way. So is that of a first x that is but sent, rounded: the
// first sweep, too, may be a low one.
#pragma once
#include "pagerank/deferred_update.cuh"
#include "pagerank/sweep_epilogues.cuh"

namespace cpms {

// A first x, to be rounded: what teleport brings, and as much by each edge. In place of shares, if there are any starts.
struct RoundedStart {
    const u32* row_begins;     // first slot of each row, and behind the last: about an edge each
    double per_edge, largest;  // damped; none of its shares is larger
};

// Low sweep: r / degree = damping (2^-e sum + lost w) / degree + left; z = Q(r / degree); left = r / degree - z.
//
// What is kept is not damped: so that the sum of r is damped as ever, it counts as lost 1 / damping times. All of r
// that this moves goes where the teleport does, and there only scales x.
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
    float largest = 0.0f;  // of r / degree * up

    CPMS_DEVICE ErrorFeedbackEpilogue(const Nodes& edges, const InnerFactors& factors, double* errors, u8* quantised,
                                      u64 rounding_seed)
        : nodes(edges), by(factors), rounding_error(errors), out(quantised), seed(rounding_seed) {}

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
    CPMS_DEVICE double lost() const { return unsent - kept_error / nodes.damping; }
};

// What nodes send first of r / degree, and keep, and what is lost by that.
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

    // Sends a share rounded, and keeps what that is less than `of`, where r was so far; returns what is sent.
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

// The first z of a round, and what is left of r / degree, which is no longer in x.
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

// A guess as the first x, rounded: as z, and as shares; what is left is what teleport brings, but for that.
template <class Q, bool Personal, bool Core>
CPMS_DEVICE InnerState begin_rounded(const Nodes& nodes, const UniformInflow& common, const QuantiserSettings& settings,
                                     const RoundedStart& start, double* contributions, double* rounding_error,
                                     u8* quantised, const Grid& grid) {
    struct Node {
        NodeState<Core> of;  // its share: edges that end there
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

// How many sweeps what is sent is kept, until it is added to x.
template <class Q>
constexpr u32 deferred_depth = Q::bytes > 2 ? 8 : 16;
static_assert(deferred_depth<PackedFloat<5, 2, Rounding::nearest>> < max_deferred, "no room for what is sent");

// Whether low sweeps left enough for the next one, or a full one to find too much: each leaves about as large a part as
// the last one, and no more than the damping.
CPMS_DEVICE bool inner_continues(double now, double previous, double tolerance, double damping) {
    constexpr double slower = 1.25;
    const double factor = slower * now / previous;
    return now * (factor < damping ? factor / damping : 1.0) > tolerance;
}

// Whether what is left fades by little more than the damping: then combining sweeps is worth more than keeping what
// rounding loses of them.
CPMS_DEVICE bool converges_slowly(double now, double previous, double damping) {
    return now > 0.9 * damping * previous;
}

}  // namespace cpms
