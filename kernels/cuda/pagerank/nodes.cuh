// Nodes.
#pragma once
#include "base/quantiser.cuh"
#include "persistent/grid_sync.cuh"

namespace cpms {

// Per node; what lies behind the nodes is never touched.
struct Nodes {
    const u32* degree;        // out-degree, 0 for dangling nodes
    const double *sink, *teleport;
    u32 sink_step, teleport_step;  // 0 where one number serves all
    u32 count;
    double damping;
    const u32* kept = nullptr;  // edges that stay among these nodes, where Partial: what the others carry is lost
    const u8 *degree_byte = nullptr, *kept_byte = nullptr;  // the same counts, or 255 where they are more; see Count

    CPMS_DEVICE double inverse(u32 degree_of_node) const { return degree_of_node ? reciprocal(degree_of_node) : 1.0; }
};

// A count of a node's edges, which sweeps of large graphs read as a byte: few are more than it holds.
template <bool Bytes>
struct Count {
    u32 number;
    CPMS_DEVICE Count() {}
    CPMS_DEVICE Count(const u32* all, const u8*, u32 node) : number(load_word(all + node, ReadOnly{})) {}
    static CPMS_DEVICE void expect(const u32* all, const u8*, u32 node) { fetch_ahead(all + node); }
    CPMS_DEVICE u32 whole(const u32*, u32) const { return number; }
};
template <>
struct Count<true> {
    u32 byte;
    CPMS_DEVICE Count() {}
    CPMS_DEVICE Count(const u32*, const u8* bytes, u32 node) : byte(load_word(bytes + node, ReadOnly{})) {}
    static CPMS_DEVICE void expect(const u32*, const u8* bytes, u32 node) { fetch_ahead(bytes + node); }
    CPMS_DEVICE u32 whole(const u32* all, u32 node) const {
        return byte < 255 ? byte : load_word(all + node, ReadOnly{});
    }
};

// What a node alone gets of lost or dangling mass; nothing but what all get unless Personal.
template <bool Personal>
struct OwnSink {
    CPMS_DEVICE OwnSink() {}
    CPMS_DEVICE OwnSink(const Nodes&, u32) {}
    static CPMS_DEVICE void expect(const Nodes&, u32) {}
    CPMS_DEVICE double of(double, double common) const { return common; }
};
template <>
struct OwnSink<true> {
    double sink;
    CPMS_DEVICE OwnSink() {}
    CPMS_DEVICE OwnSink(const Nodes& nodes, u32 row) : sink(load_double(nodes.sink + row * nodes.sink_step)) {}
    static CPMS_DEVICE void expect(const Nodes& nodes, u32 row) { fetch_ahead(nodes.sink + row * nodes.sink_step); }
    CPMS_DEVICE double of(double mass, double) const { return mass * sink; }
};
// What it gets of teleport, in full sweeps, beside what it gets `before`, in which all is unless Personal.
template <bool Personal>
struct OwnTeleport {
    CPMS_DEVICE OwnTeleport() {}
    CPMS_DEVICE OwnTeleport(const Nodes&, u32) {}
    static CPMS_DEVICE void expect(const Nodes&, u32) {}
    CPMS_DEVICE double plus(double rest, double before) const { return before; }
};
template <>
struct OwnTeleport<true> {
    double teleport;
    CPMS_DEVICE OwnTeleport() {}
    CPMS_DEVICE OwnTeleport(const Nodes& nodes, u32 row)
        : teleport(load_double(nodes.teleport + row * nodes.teleport_step)) {}
    static CPMS_DEVICE void expect(const Nodes& nodes, u32 row) {
        fetch_ahead(nodes.teleport + row * nodes.teleport_step);
    }
    CPMS_DEVICE double plus(double rest, double before) const { return before + rest * teleport; }
};

// What is carried by those of a node's edges that do not stay among the nodes: nothing unless Partial.
template <bool Partial>
struct Kept {
    CPMS_DEVICE Kept() {}
    CPMS_DEVICE Kept(const Nodes&, u32) {}
    CPMS_DEVICE double leaves(u32, double) const { return 0.0; }
};
template <>
struct Kept<true> {
    u32 count;
    CPMS_DEVICE Kept() {}
    CPMS_DEVICE Kept(const Nodes& nodes, u32 node) : count(load_word(nodes.kept + node, ReadOnly{})) {}
    CPMS_DEVICE double leaves(u32 degree, double share) const { return share * (degree - count); }
};

// In low sweeps, how many edges stay: all of them unless Partial.
template <bool Partial, bool Bytes>
struct KeptCount {
    CPMS_DEVICE KeptCount() {}
    CPMS_DEVICE KeptCount(const Nodes&, u32) {}
    static CPMS_DEVICE void expect(const Nodes&, u32) {}
    CPMS_DEVICE u32 of(u32 degree, const Nodes&, u32) const { return degree; }
};
template <bool Bytes>
struct KeptCount<true, Bytes> {
    Count<Bytes> count;
    CPMS_DEVICE KeptCount() {}
    CPMS_DEVICE KeptCount(const Nodes& nodes, u32 node) : count(nodes.kept, nodes.kept_byte, node) {}
    static CPMS_DEVICE void expect(const Nodes& nodes, u32 node) {
        Count<Bytes>::expect(nodes.kept, nodes.kept_byte, node);
    }
    CPMS_DEVICE u32 of(u32, const Nodes& nodes, u32 node) const { return count.whole(nodes.kept, node); }
};

// What nodes get of lost or dangling mass and of teleport where one number serves all. It is best in shared memory: what
// a sweep begins with should not wait for loads.
struct Common {
    double sink, teleport;

    static CPMS_DEVICE Common of(const Nodes& nodes) {
        return Common{load_double(nodes.sink), load_double(nodes.teleport)};
    }
};

// Calls work(i, loaded) for every node, some a thread at a time: load(i) of all before work on any.
template <class Load, class Work>
CPMS_DEVICE void each_node(u32 count, Load load, Work work) {
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

template <bool Partial>
struct NodeShare {
    u32 degree;
    float c;
    double share;
    Kept<Partial> kept;
};

}  // namespace cpms
