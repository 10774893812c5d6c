// Conversion between values of nodes and contributions of positions, x / out-degree (x itself on dangling nodes), and
// back. Persistent kernels iterate on contributions, since every edge of a node reads the same quotient. Two more
// kernels fill a uniform vector, and narrow degrees to bytes. Each costs one pass.
#include "base/loads.cuh"

namespace cpms {

struct Positions {
    const u32* order;   // the node at each position; null where they are equal
    const u32* degree;  // out-degree of the node at each position

    CPMS_DEVICE u32 node(u32 position) const { return order ? load_word(order + position, ReadOnly{}) : position; }
    CPMS_DEVICE double divisor(u32 position) const {
        const u32 out = load_word(degree + position, ReadOnly{});
        return out ? (double)out : 1.0;
    }
};

CPMS_KERNEL(256) to_contributions(const u32* order, const u32* degree, u32 count, const double* values,
                                  double* contributions) {
    const Positions positions{order, degree};
    for_each_index(count, [&](u32 i) { contributions[i] = values[positions.node(i)] / positions.divisor(i); });
}

CPMS_KERNEL(256) from_contributions(const u32* order, const u32* degree, u32 count, const double* contributions,
                                    double* values) {
    const Positions positions{order, degree};
    for_each_index(count, [&](u32 i) { values[positions.node(i)] = contributions[i] * positions.divisor(i); });
}

CPMS_KERNEL(256) fill_uniform(u32 count, double* values) {
    for_each_index(count, [&](u32 i) { values[i] = 1.0 / count; });
}

// Degrees of `most` or more become `most`, which marks those that a byte does not hold.
CPMS_KERNEL(256) degree_bytes(const u32* degree, u32 count, u32 most, u8* bytes) {
    for_each_index(count, [&](u32 i) { bytes[i] = (u8)(degree[i] < most ? degree[i] : most); });
}

}  // namespace cpms
