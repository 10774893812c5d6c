// Nodes.
#pragma once
#include "base/quantiser.cuh"
#include "persistent/grid_sync.cuh"

namespace cpms {

// Per node; what lies behind the nodes is never touched.
struct Nodes {
    const u32* degree;  // out-degree, 0 for dangling nodes
    const double *sink, *teleport;
    u32 sink_stride, teleport_stride;  // 0 where one number serves all
    u32 count;
    double damping;
    const u32* internal_degree =
        nullptr;  // edges that stay among these nodes, where Partial: what the others carry is lost
    const u8 *degree_bytes = nullptr,
             *internal_degree_bytes = nullptr;  // the same counts, or 255 where they are more; see Count

    CPMS_DEVICE double inverse(u32 degree_of_node) const { return degree_of_node ? reciprocal(degree_of_node) : 1.0; }
};

// A count of a node's edges, which sweeps of large graphs read as a byte: few are more than it holds.
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

// What a node alone gets of lost or dangling mass; nothing but what all get unless Personal.
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
// What it gets of teleport, in full sweeps, beside what it gets `before`, in which all is unless Personal.
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

// What is carried by those of a node's edges that do not stay among the nodes: nothing unless Partial.
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

// In low sweeps, how many edges stay: all of them unless Partial.
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

// What nodes get of lost or dangling mass and of teleport where one number serves all. It is best in shared memory: what
// a sweep begins with should not wait for loads.
struct UniformInflow {
    double sink, teleport;

    static CPMS_DEVICE UniformInflow of(const Nodes& nodes) {
        return UniformInflow{load_double(nodes.sink), load_double(nodes.teleport)};
    }
};

// Calls work(i, loaded) for every node, some a thread at a time: load(i) of all before work on any.
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

template <bool Core>
struct NodeState {
    u32 degree;
    float correction;
    double contribution;
    ExternalFlow<Core> external;
};

}  // namespace cpms
