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
struct Guess {
    const u32* starts;        // first slot of each row, and behind the last: about an edge each
    double by_edge, largest;  // damped; none of its shares is larger
};

// Low sweep: r / degree = damping (2^-e sum + lost w) / degree + left; z = Q(r / degree); left = r / degree - z.
//
// What is kept is not damped: so that the sum of r is damped as ever, it counts as lost 1 / damping times. All of r
// that this moves goes where the teleport does, and there only scales x.
template <class Q, bool Personal, bool Partial, bool Bytes>
struct CarryEnd {
    static constexpr u32 expected_rows = 4;
    struct Loaded {
        Count<Bytes> degree;
        double left;
        OwnSink<Personal> sink;
        KeptCount<Partial, Bytes> kept;
    };
    const Nodes& nodes;
    const LowFactors& by;
    double* left;
    u8* out;
    u64 seed;
    double l1 = 0.0, sum = 0.0, unsent = 0.0, stayed = 0.0;
    float largest = 0.0f;  // of r / degree * up

    CPMS_DEVICE CarryEnd(const Nodes& all, const LowFactors& factors, double* what_stays, u8* z, u64 noise)
        : nodes(all), by(factors), left(what_stays), out(z), seed(noise) {}

    CPMS_DEVICE Loaded load(u32 row) const {
        return Loaded{Count<Bytes>(nodes.degree, nodes.degree_byte, row), left[row], OwnSink<Personal>(nodes, row),
                      KeptCount<Partial, Bytes>(nodes, row)};
    }
    CPMS_DEVICE void expect(u32 row) const {
        Count<Bytes>::expect(nodes.degree, nodes.degree_byte, row);
        fetch_ahead(left + row);
        OwnSink<Personal>::expect(nodes, row);
        KeptCount<Partial, Bytes>::expect(nodes, row);
    }
    CPMS_DEVICE void finish(u32 row, double total, const Loaded& with) {
        using Stored = typename QuantiserOf<Q>::Type;
        const u32 degree = with.degree.whole(nodes.degree, row);
        const double came = fma(total, by.factor, with.sink.of(by.lost_damped, by.common));
        const double share = fma(came, nodes.inverse(degree), with.left), scaled = share * by.up;
        const double z = Stored::store(out, row, scaled, seed) * by.back, stays = share - z;
        const double all = degree ? exactly(degree) : 1.0, r = share * all;
        left[row] = stays;
        largest = fmaxf(largest, fabsf((float)scaled));
        l1 += fabs(r);
        sum += r;
        unsent += fma(-exactly(with.kept.of(degree, nodes, row)), z, r);
        stayed += stays * all;
    }
    CPMS_DEVICE double lost() const { return unsent - stayed / nodes.damping; }
};

// What nodes send first of r / degree, and keep, and what is lost by that.
template <class Q, bool Partial>
struct Sending {
    double up, back, undamped;
    u8* z;
    u64 seed;
    double lost = 0.0;

    CPMS_DEVICE Sending(const Nodes& nodes, const Storing& storing, int exponent, u8* to)
        : up(power_of_two(exponent)), back(power_of_two(-exponent) * Raw<Q>::unit()), undamped(1.0 / nodes.damping), z(to),
          seed(storing.seed) {}

    // Sends a share rounded, and keeps what that is less than `of`, where r was so far; returns what is sent.
    CPMS_DEVICE double send(u32 i, const NodeShare<Partial>& node, double share, double of, double r, double* left) {
        const double all = node.degree ? exactly(node.degree) : 1.0;
        const double sent = QuantiserOf<Q>::Type::store(z, i, share * up, seed) * back, stays = of - sent;
        left[i] = stays;
        lost += r * all - exactly(node.degree) * sent + node.kept.leaves(node.degree, sent) - stays * all * undamped;
        return sent;
    }
};

// The first z of a round, and what is left of r / degree, which is no longer in x.
template <class Q, bool Partial>
CPMS_DEVICE LowState first_sent(const Nodes& nodes, const Storing& storing, double largest, double* shares, double* left,
                                u8* z, const Grid& grid) {
    const int exponent = shared_scale(storing.scaled, storing.top, largest);
    Sending<Q, Partial> sending(nodes, storing, exponent, z);
    each_node(
        nodes.count,
        [&](u32 i) {
            return NodeShare<Partial>{load_word(nodes.degree + i, ReadOnly{}), 0.0f, left[i], Kept<Partial>(nodes, i)};
        },
        [&](u32 i, const NodeShare<Partial>& node) {
            shares[i] -= node.share;
            sending.send(i, node, node.share, node.share, node.share, left);
        });
    Totals<1, 0> lost{{sending.lost}};
    lost.over_grid(grid);
    return LowState{largest, lost.value[0], exponent};
}

// A guess as the first x, rounded: as z, and as shares; what is left is what teleport brings, but for that.
template <class Q, bool Personal, bool Partial>
CPMS_DEVICE LowState guessed(const Nodes& nodes, const Common& common, const Storing& storing, const Guess& guess,
                             double* shares, double* left, u8* z, const Grid& grid) {
    struct Node {
        NodeShare<Partial> of;  // its share: edges that end there
        OwnTeleport<Personal> teleport;
    };
    const double rest = 1.0 - nodes.damping, plain = Personal ? 0.0 : rest * common.teleport;
    const int exponent = shared_scale(storing.scaled, storing.top, guess.largest);
    Sending<Q, Partial> sending(nodes, storing, exponent, z);
    each_node(
        nodes.count,
        [&](u32 i) {
            const u32 first = load_word(guess.starts + i, ReadOnly{}), last = load_word(guess.starts + i + 1, ReadOnly{});
            return Node{{load_word(nodes.degree + i, ReadOnly{}), 0.0f, exactly(last - first), Kept<Partial>(nodes, i)},
                        OwnTeleport<Personal>(nodes, i)};
        },
        [&](u32 i, const Node& node) {
            const double inverse = nodes.inverse(node.of.degree), brought = node.teleport.plus(rest, plain);
            const double x = fma(guess.by_edge, node.of.share, brought);
            shares[i] = sending.send(i, node.of, x * inverse, brought * inverse, 0.0, left);
        });
    Totals<1, 0> lost{{sending.lost}};
    lost.over_grid(grid);
    return LowState{guess.largest, lost.value[0], exponent};
}

// How many sweeps what is sent is kept, until it is added to x.
template <class Q>
constexpr u32 carried_depth = Q::bytes > 2 ? 8 : 16;
static_assert(carried_depth<Packed<5, 2, Rounding::nearest>> < most_unsettled, "no room for what is sent");

// Whether low sweeps left enough for the next one, or a full one to find too much: each leaves about as large a part as
// the last one, and no more than the damping.
CPMS_DEVICE bool leaves_more(double now, double before, double until, double damping) {
    constexpr double slower = 1.25;
    const double part = slower * now / before;
    return now * (part < damping ? part / damping : 1.0) > until;
}

// Whether what is left fades by little more than the damping: then combining sweeps is worth more than keeping what
// rounding loses of them.
CPMS_DEVICE bool fades_slowly(double now, double before, double damping) { return now > 0.9 * damping * before; }

}  // namespace cpms
