// Per-node data of PageRank's sweeps, and the operands that epilogues load: degrees, sink and teleport of a node, and
// flow out of a trimmed core. Template parameters select which exist, so that a uniform problem on a whole graph
// reads degrees only.
#pragma once
#include "base/quantiser.cuh"
#include "persistent/grid_sync.cuh"

namespace cpms {

// Arrays over nodes, of exactly `count` elements without padding: kernels never read past the last node. `sink` and
// `teleport` are the distributions w of dangling mass and v of teleport, each of sum 1 over all nodes; `count` is the
// number of rows of this device; `damping` lies between 0 and 1.
struct Nodes {
    const u32* degree;  // out-degree, 0 for dangling nodes
    const double *sink, *teleport;
    u32 sink_stride, teleport_stride;  // 0 where one number serves all nodes
    u32 count;
    double damping;
    const u32* internal_degree;  // where Core: out-edges to nodes of the core; the flow of the others is lost
    // The same numbers as bytes, where 255 stands for 255 and more; null unless the strategy has byte_degrees.
    const u8 *degree_bytes, *internal_degree_bytes;

    CPMS_DEVICE double inverse(u32 degree_of_node) const { return degree_of_node ? reciprocal(degree_of_node) : 1.0; }
};

// A degree, read as one byte by strategies that have byte_degrees, since few degrees exceed that, and as a word by the
// others.
template <bool ByteDegrees>
struct Degree {
    u32 number;
    CPMS_DEVICE Degree() {}
    CPMS_DEVICE Degree(const u32* all, const u8*, u32 node) : number(load_word(all + node, ReadOnly{})) {}
    static CPMS_DEVICE void prefetch(const u32* all, const u8*, u32 node) { prefetch_l2(all + node); }
    CPMS_DEVICE u32 value(const u32*, u32) const { return number; }
};
template <>
struct Degree<true> {
    u32 byte;
    CPMS_DEVICE Degree() {}
    CPMS_DEVICE Degree(const u32*, const u8* bytes, u32 node) : byte(load_word(bytes + node, ReadOnly{})) {}
    static CPMS_DEVICE void prefetch(const u32*, const u8* bytes, u32 node) { prefetch_l2(bytes + node); }
    CPMS_DEVICE u32 value(const u32* all, u32 node) const {
        return byte < 255 ? byte : load_word(all + node, ReadOnly{});
    }
};

// The inflow of lost or dangling mass to one node. Personal means that sink or teleport differ from node to node;
// otherwise the inflow is that of every node.
template <bool Personal>
struct NodeSink {
    CPMS_DEVICE NodeSink() {}
    CPMS_DEVICE NodeSink(const Nodes&, u32) {}
    static CPMS_DEVICE void prefetch(const Nodes&, u32) {}
    CPMS_DEVICE double of(double, double common) const { return common; }
};
template <>
struct NodeSink<true> {
    double sink;
    CPMS_DEVICE NodeSink() {}
    CPMS_DEVICE NodeSink(const Nodes& nodes, u32 row) : sink(load_double(nodes.sink + row * nodes.sink_stride)) {}
    static CPMS_DEVICE void prefetch(const Nodes& nodes, u32 row) { prefetch_l2(nodes.sink + row * nodes.sink_stride); }
    CPMS_DEVICE double of(double mass, double) const { return mass * sink; }
};
// It adds a node's teleport inflow in residual sweeps to the inflow `before`; unless Personal, `before` contains it
// already.
template <bool Personal>
struct NodeTeleport {
    CPMS_DEVICE NodeTeleport() {}
    CPMS_DEVICE NodeTeleport(const Nodes&, u32) {}
    static CPMS_DEVICE void prefetch(const Nodes&, u32) {}
    CPMS_DEVICE double inflow(double rest, double before) const { return before; }
};
template <>
struct NodeTeleport<true> {
    double teleport;
    CPMS_DEVICE NodeTeleport() {}
    CPMS_DEVICE NodeTeleport(const Nodes& nodes, u32 row)
        : teleport(load_double(nodes.teleport + row * nodes.teleport_stride)) {}
    static CPMS_DEVICE void prefetch(const Nodes& nodes, u32 row) {
        prefetch_l2(nodes.teleport + row * nodes.teleport_stride);
    }
    CPMS_DEVICE double inflow(double rest, double before) const { return before + rest * teleport; }
};

// The flow of a node's edges that leave the core; nothing unless Core.
template <bool Core>
struct ExternalFlow {
    CPMS_DEVICE ExternalFlow() {}
    CPMS_DEVICE ExternalFlow(const Nodes&, u32) {}
    CPMS_DEVICE double lost_flow(u32, double) const { return 0.0; }
};
template <>
struct ExternalFlow<true> {
    u32 count;
    CPMS_DEVICE ExternalFlow() {}
    CPMS_DEVICE ExternalFlow(const Nodes& nodes, u32 node)
        : count(load_word(nodes.internal_degree + node, ReadOnly{})) {}
    CPMS_DEVICE double lost_flow(u32 degree, double contribution) const { return contribution * (degree - count); }
};

// In inner sweeps, the number of edges within the core; all of them unless Core.
template <bool Core, bool ByteDegrees>
struct InternalDegree {
    CPMS_DEVICE InternalDegree() {}
    CPMS_DEVICE InternalDegree(const Nodes&, u32) {}
    static CPMS_DEVICE void prefetch(const Nodes&, u32) {}
    CPMS_DEVICE u32 of(u32 degree, const Nodes&, u32) const { return degree; }
};
template <bool ByteDegrees>
struct InternalDegree<true, ByteDegrees> {
    Degree<ByteDegrees> count;
    CPMS_DEVICE InternalDegree() {}
    CPMS_DEVICE InternalDegree(const Nodes& nodes, u32 node)
        : count(nodes.internal_degree, nodes.internal_degree_bytes, node) {}
    static CPMS_DEVICE void prefetch(const Nodes& nodes, u32 node) {
        Degree<ByteDegrees>::prefetch(nodes.internal_degree, nodes.internal_degree_bytes, node);
    }
    CPMS_DEVICE u32 of(u32, const Nodes& nodes, u32 node) const { return count.value(nodes.internal_degree, node); }
};

// The values of the distributions w (sink) and v (teleport) at every node, where they are uniform; an inflow is such a
// value times a mass. They lie in shared memory, so that the beginning of a sweep does not wait for loads.
struct UniformInflow {
    double sink, teleport;

    static CPMS_DEVICE UniformInflow of(const Nodes& nodes) {
        return UniformInflow{load_double(nodes.sink), load_double(nodes.teleport)};
    }
};

// Calls work(i, loaded) for every node, several a thread at a time, with load(i) for all of these first. Nodes are so
// few below 2^32 that no index wraps (require_countable of cpms/backends/cuda/spmv/padded_csr.py, and memory).
template <class Load, class Work>
CPMS_DEVICE void for_each_node(u32 count, Load load, Work work) {
    constexpr u32 together = 4;
    const u32 threads = gridDim.x * blockDim.x;
    for (u32 base = blockIdx.x * blockDim.x + threadIdx.x; base < count; base += together * threads) {
        decltype(load(0u)) loaded[together];
#pragma unroll
        for (u32 j = 0; j < together; ++j) loaded[j] = load(smaller(base + j * threads, count - 1));
#pragma unroll
        for (u32 j = 0; j < together; ++j) {
            const u32 i = base + j * threads;
            if (i < count) work(i, loaded[j]);
        }
    }
}

// The values that a pass over nodes loads of one node; `contribution` is the per-edge value that the pass works on.
template <bool Core>
struct NodeState {
    u32 degree;
    float correction;  // 0 where the pass has none
    double contribution;
    ExternalFlow<Core> external;
};

}  // namespace cpms
