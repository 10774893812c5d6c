// Row epilogues of PageRank's sweeps: a row's sum becomes the next quantised residual (inner sweep), or the next
// iterate and its float64 residual (residual sweep). Fusion with the SpMV saves a write and a read of the sums. An
// epilogue loads its operands before the sum exists and keeps its totals in registers.
#pragma once
#include "pagerank/nodes.cuh"

namespace cpms {

// Scalars of an inner sweep that reads z times 2^read and writes it times 2^written. Widened values lack a power of
// two, WideningLoad::unit; `factor` and `unscale` contain it. inverse_scale is used where Quantiser::scaled_in_float32
// makes it a normal number. damped_lost is damping times the mass that the vector read has lost, and `common` the part
// of it that flows to each node where w is uniform.
struct InnerFactors {
    double factor, damped_lost, common, scale, unscale;
    float inverse_scale;  // 1 / scale

    template <class Q>
    static CPMS_DEVICE InnerFactors of(const Nodes& nodes, const UniformInflow& all, int read, int written,
                                       double mass_lost) {
        const double damped_lost = nodes.damping * mass_lost, unit = WideningLoad<Q>::unit();
        return InnerFactors{nodes.damping * power_of_two(-read) * unit,
                            damped_lost,
                            damped_lost * all.sink,
                            power_of_two(written),
                            power_of_two(-written) * unit,
                            (float)power_of_two(-written)};
    }
};

// The correction c, where inner sweeps accumulate it; nothing where the update is deferred. Since it is rounded to
// float32, default plans reduce ||r||_1 in an outer step to no less than 8e-6 of its value at the start of the step
// (cpms/precision/refinement_policy.py), and the next residual sweep measures the rest. A summand below 2^-126 becomes
// 0; those of one sweep over fewer than 2^32 nodes add up to less than 2^-94.
template <bool Accumulates>
struct CorrectionSum {
    float correction;
    CPMS_DEVICE CorrectionSum() {}
    CPMS_DEVICE CorrectionSum(const float* all, u32 row) : correction(all[row]) {}
    static CPMS_DEVICE void prefetch(const float* all, u32 row) { prefetch_l2(all + row); }
    CPMS_DEVICE void add(float* all, u32 row, float more) const { all[row] = correction + more; }
};
template <>
struct CorrectionSum<false> {
    CPMS_DEVICE CorrectionSum() {}
    CPMS_DEVICE CorrectionSum(const float*, u32) {}
    static CPMS_DEVICE void prefetch(const float*, u32) {}
    CPMS_DEVICE void add(float*, u32, float) const {}
};

// Inner sweep: r = damping (2^-read sum + lost w); c += r, where accumulated; z = Q(r / degree). `lost` is the mass
// that the edges of the vector read do not carry (damped_lost of InnerFactors; the member `lost` is that of the vector
// written). It flows to nodes as dangling mass does, by the sink distribution w, so that rounding moves mass of r and
// loses none. The mass lost by z is computed from z as stored: that covers saturation and the error of the approximate
// reciprocal, too.
template <class Q, bool Personal, bool Core = false, bool ByteDegrees = false, bool Accumulates = true>
struct InnerEpilogue {
    // Rows whose operands share a 32-byte sector.
    static constexpr u32 prefetch_rows = Personal ? 4 : ByteDegrees && !Accumulates ? 32 : 8;
    struct Operands {
        Degree<ByteDegrees> degree;
        CorrectionSum<Accumulates> correction;
        NodeSink<Personal> sink;
        InternalDegree<Core, ByteDegrees> internal_degree;
    };
    const Nodes& nodes;
    const InnerFactors& by;
    float* correction;
    u8* out;
    u64 seed;
    double l1 = 0.0, sum = 0.0, lost = 0.0;
    float largest = 0.0f;  // of |r / degree| * scale

    CPMS_DEVICE InnerEpilogue(const Nodes& all, const InnerFactors& factors, float* correction, u8* sent,
                              u64 rounding_seed)
        : nodes(all), by(factors), correction(correction), out(sent), seed(rounding_seed) {}

    CPMS_DEVICE Operands load(u32 row) const {
        return Operands{Degree<ByteDegrees>(nodes.degree, nodes.degree_bytes, row),
                        CorrectionSum<Accumulates>(correction, row), NodeSink<Personal>(nodes, row),
                        InternalDegree<Core, ByteDegrees>(nodes, row)};
    }
    CPMS_DEVICE void prefetch(u32 row) const {
        Degree<ByteDegrees>::prefetch(nodes.degree, nodes.degree_bytes, row);
        CorrectionSum<Accumulates>::prefetch(correction, row);
        NodeSink<Personal>::prefetch(nodes, row);
        InternalDegree<Core, ByteDegrees>::prefetch(nodes, row);
    }
    CPMS_DEVICE void finish(u32 row, double total, const Operands& with) {
        const u32 degree = with.degree.value(nodes.degree, row);
        const double r = fma(total, by.factor, with.sink.of(by.damped_lost, by.common));
        double sent;
        if constexpr (Quantise::scaled_in_float32) {
            const float scaled = to_float(r * by.scale);
            const float contribution =
                Quantise::has_contribution(degree) ? scaled * approximate_reciprocal(degree ? degree : 1) : 0.0f;
            with.correction.add(correction, row, scaled * by.inverse_scale);
            sent = store_sent(row, contribution);
        } else {
            const float inverse = approximate_reciprocal(degree ? degree : 1);
            const double contribution = Quantise::has_contribution(degree) ? r * (double)inverse * by.scale : 0.0;
            with.correction.add(correction, row, (float)r);
            sent = store_sent(row, contribution);
        }
        l1 += fabs(r);
        sum += r;
        lost += fma(-exactly(with.internal_degree.of(degree, nodes, row)), sent, r);
    }
    CPMS_DEVICE double mass_lost() const { return lost; }

  private:
    using Quantise = typename QuantiserOf<Q>::Type;

    template <class Real>
    CPMS_DEVICE double store_sent(u32 row, Real contribution) {
        largest = fmaxf(largest, fabsf((float)contribution));
        return Quantise::store(out, row, contribution, seed) * by.unscale;
    }
};

// Scalars of a residual sweep: 1 / mass of x; damping times that, the factor of row sums; the damped dangling mass;
// 1 - damping, the mass that teleports; and the inflow of each node where both are uniform.
struct ResidualFactors {
    double to_mass_one, factor, dangling_damped, rest, common;

    static CPMS_DEVICE ResidualFactors of(const Nodes& nodes, const UniformInflow& all, double mass, double dangling) {
        const double to_mass_one = 1.0 / mass, rest = 1.0 - nodes.damping;
        const double dangling_damped = nodes.damping * dangling * to_mass_one;
        const double common = dangling_damped * all.sink + rest * all.teleport;
        return ResidualFactors{to_mass_one, nodes.damping * to_mass_one, dangling_damped, rest, common};
    }
};

// Residual sweep: y = G(x); r = y - x. Contributions are x / degree, or x itself on dangling nodes. Refines is false
// for power iteration, which does not store r; WithDangling makes the largest |r / degree| cover dangling nodes. `by`
// should lie in shared memory where a kernel has much other state: float64 sweeps have few registers left.
template <bool Refines, bool Personal, bool WithDangling = false, bool ByteDegrees = false>
struct ResidualEpilogue {
    static constexpr u32 prefetch_rows = 4;
    struct Operands {
        Degree<ByteDegrees> degree;
        double contribution;
        NodeSink<Personal> sink;
        NodeTeleport<Personal> teleport;
    };
    const Nodes& nodes;
    const ResidualFactors& by;
    const double* contributions;
    double* next_contributions;
    double* residual;  // r / degree, where Refines
    double l1 = 0.0, squares = 0.0, mass = 0.0;  // of r; mass of y
    double sum_or_dangling = 0.0;                // the sum of r where Refines, else the dangling mass of y
    double linf = 0.0, largest = 0.0;            // of |r|; of |r / degree|, where Refines

    CPMS_DEVICE Operands load(u32 row) const {
        return Operands{Degree<ByteDegrees>(nodes.degree, nodes.degree_bytes, row), contributions[row],
                        NodeSink<Personal>(nodes, row), NodeTeleport<Personal>(nodes, row)};
    }
    CPMS_DEVICE void prefetch(u32 row) const {
        Degree<ByteDegrees>::prefetch(nodes.degree, nodes.degree_bytes, row);
        prefetch_l2(contributions + row);
        NodeSink<Personal>::prefetch(nodes, row);
        NodeTeleport<Personal>::prefetch(nodes, row);
    }
    CPMS_DEVICE void finish(u32 row, double total, const Operands& with) {
        const double inflow = with.teleport.inflow(by.rest, with.sink.of(by.dangling_damped, by.common));
        const double y = total * by.factor + inflow;
        const u32 degree = with.degree.value(nodes.degree, row);
        const double out = degree ? (double)degree : 1.0, inverse = nodes.inverse(degree);
        const double r = y - with.contribution * out * by.to_mass_one;
        next_contributions[row] = y * inverse;
        l1 += fabs(r);
        squares += r * r;
        mass += y;
        linf = Larger{}(linf, fabs(r));
        if constexpr (Refines) {
            residual[row] = r * inverse;
            sum_or_dangling += r;
            largest = Larger{}(largest, WithDangling || degree ? fabs(r * inverse) : 0.0);
        } else {
            sum_or_dangling += degree ? 0.0 : y;  // the next sweep's dangling mass
        }
    }
};

}  // namespace cpms
