// Passes over nodes between sweeps: the correction of the iterate, and the quantisation of the residual with which an
// outer step begins. Each reads and writes a few arrays once.
#pragma once
#include "pagerank/nodes.cuh"

namespace cpms {

// Adds correction / degree to the contributions, if there is a correction. It returns this thread's part of the mass
// of x, and of the mass that no edge carries; the caller sums both over the grid.
template <bool Core = false>
CPMS_DEVICE GridReduce<2, 0> apply_correction(const Nodes& nodes, double* contributions, const float* correction) {
    GridReduce<2, 0> found{{0.0, 0.0}};
    for_each_node(
        nodes.count,
        [&](u32 i) {
            return NodeState<Core>{load_word(nodes.degree + i, ReadOnly{}), correction ? correction[i] : 0.0f,
                                   contributions[i], ExternalFlow<Core>(nodes, i)};
        },
        [&](u32 i, const NodeState<Core>& node) {
            double contribution = node.contribution;
            if (correction) {
                contribution += (double)node.correction * nodes.inverse(node.degree);
                contribution = contribution < 0.0 ? 0.0 : contribution;  // rounding may leave a negative value
                contributions[i] = contribution;
            }
            found.value[0] += node.degree ? contribution * node.degree : contribution;
            found.value[1] += node.degree ? node.external.lost_flow(node.degree, contribution) : contribution;
        });
    return found;
}

// Known of a quantised vector z before a sweep reads it.
struct InnerState {
    double largest;  // of |r / degree|, or an upper bound
    double lost;     // mass of r that edges do not carry: dangling nodes, edges out of the core, rounding errors
    int exponent;    // z is stored times 2^exponent
};

// The first quantised residual of an outer step; its scale needs the largest value, so it is a pass of its own. A
// correction, if there is one, begins at 0.
template <class Q, bool Core = false>
CPMS_DEVICE InnerState quantise_residual(const Nodes& nodes, const QuantiserSettings& settings, const double* residual,
                                         double largest, float* correction, u8* sent, const Grid& grid) {
    const int exponent = shared_exponent(settings.scaled, settings.top, largest);
    const double scale = power_of_two(exponent), unscale = power_of_two(-exponent) * WideningLoad<Q>::unit();
    GridReduce<1, 0> lost{{0.0}};
    for_each_node(
        nodes.count,
        [&](u32 i) {
            return NodeState<Core>{load_word(nodes.degree + i, ReadOnly{}), 0.0f, residual[i],
                                   ExternalFlow<Core>(nodes, i)};
        },
        [&](u32 i, const NodeState<Core>& node) {
            if (correction) correction[i] = 0.0f;
            using Stored = typename QuantiserOf<Q>::Type;
            const double widened = Stored::store(
                sent, i, Stored::has_contribution(node.degree) ? node.contribution * scale : 0.0, settings.seed);
            const double unsent = (double)node.degree * (node.contribution - widened * unscale);
            lost.value[0] +=
                node.degree ? unsent + node.external.lost_flow(node.degree, widened * unscale) : node.contribution;
        });
    lost.all_reduce(grid);
    return InnerState{largest, lost.value[0], exponent};
}

// One of the norms of a residual sweep.
CPMS_DEVICE double norm_of(u32 norm, double l1, double squares, double linf) {
    return norm == 0 ? l1 : norm == 1 ? sqrt(squares) : linf;
}

}  // namespace cpms
