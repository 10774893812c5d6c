// Node passes.
#pragma once
#include "pagerank/nodes.cuh"

namespace cpms {

// Mass of x = degree * shares, and what of it no edge carries, after c / degree is added to the shares if there is c.
template <bool Partial = false>
CPMS_DEVICE Totals<2, 0> corrected(const Nodes& nodes, double* shares, const float* c) {
    Totals<2, 0> found{{0.0, 0.0}};
    each_node(
        nodes.count,
        [&](u32 i) {
            return NodeShare<Partial>{load_word(nodes.degree + i, ReadOnly{}), c ? c[i] : 0.0f, shares[i],
                                      Kept<Partial>(nodes, i)};
        },
        [&](u32 i, const NodeShare<Partial>& node) {
            double share = node.share;
            if (c) {
                share += (double)node.c * nodes.inverse(node.degree);
                share = share < 0.0 ? 0.0 : share;  // rounding left less
                shares[i] = share;
            }
            found.value[0] += node.degree ? share * node.degree : share;
            found.value[1] += node.degree ? node.kept.leaves(node.degree, share) : share;
        });
    return found;
}

struct LowState {
    double largest, lost;
    int exponent;
};

// The first z of a round; only now is the largest share known. c, if there is one, begins at 0.
template <class Q, bool Partial = false>
CPMS_DEVICE LowState quantised(const Nodes& nodes, const Storing& storing, const double* change, double largest,
                               float* c, u8* z, const Grid& grid) {
    const int exponent = shared_scale(storing.scaled, storing.top, largest);
    const double up = power_of_two(exponent), back = power_of_two(-exponent) * Raw<Q>::unit();
    Totals<1, 0> lost{{0.0}};
    each_node(
        nodes.count,
        [&](u32 i) {
            return NodeShare<Partial>{load_word(nodes.degree + i, ReadOnly{}), 0.0f, change[i],
                                      Kept<Partial>(nodes, i)};
        },
        [&](u32 i, const NodeShare<Partial>& node) {
            if (c) c[i] = 0.0f;
            using Stored = typename QuantiserOf<Q>::Type;
            const double kept = Stored::store(z, i, Stored::has_share(node.degree) ? node.share * up : 0.0, storing.seed);
            const double left = (double)node.degree * (node.share - kept * back);
            lost.value[0] += node.degree ? left + node.kept.leaves(node.degree, kept * back) : node.share;
        });
    lost.over_grid(grid);
    return LowState{largest, lost.value[0], exponent};
}

// One of the norms of a full sweep.
CPMS_DEVICE double norm_of(u32 norm, double l1, double squares, double linf) {
    return norm == 0 ? l1 : norm == 1 ? sqrt(squares) : linf;
}

}  // namespace cpms
