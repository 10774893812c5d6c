// What becomes of a row in the sweeps of method refine and of fused power iteration.
#pragma once
#include "pagerank/nodes.cuh"

namespace cpms {

// What is the same for all rows of a low sweep.
struct LowFactors {
    double factor, lost_damped, common, up, back;
    float down;  // 1 / up

    template <class Q>
    static CPMS_DEVICE LowFactors of(const Nodes& nodes, const Common& all, int read, int written, double mass_lost) {
        const double lost_damped = nodes.damping * mass_lost, unit = Raw<Q>::unit();
        return LowFactors{nodes.damping * power_of_two(-read) * unit, lost_damped, lost_damped * all.sink,
                          power_of_two(written), power_of_two(-written) * unit, (float)power_of_two(-written)};
    }
};

// Where low sweeps add up r themselves, one each: else z tell what they found.
template <bool AddsUp>
struct Correction {
    float c;
    CPMS_DEVICE Correction() {}
    CPMS_DEVICE Correction(const float* all, u32 row) : c(all[row]) {}
    static CPMS_DEVICE void expect(const float* all, u32 row) { fetch_ahead(all + row); }
    CPMS_DEVICE void add(float* all, u32 row, float more) const { all[row] = c + more; }
};
template <>
struct Correction<false> {
    CPMS_DEVICE Correction() {}
    CPMS_DEVICE Correction(const float*, u32) {}
    static CPMS_DEVICE void expect(const float*, u32) {}
    CPMS_DEVICE void add(float*, u32, float) const {}
};

// Low sweep: r = damping (2^-e sum + lost w); c += r, where sweeps add up; z = Q(r / degree). Raw values times `back` are
// real.
template <class Q, bool Personal, bool Partial = false, bool Bytes = false, bool AddsUp = true>
struct LowEnd {
    static constexpr u32 expected_rows = Personal ? 4 : Bytes && !AddsUp ? 32 : 8;  // whose data a sector of the cache holds
    struct Loaded {
        Count<Bytes> degree;
        Correction<AddsUp> c;
        OwnSink<Personal> sink;
        KeptCount<Partial, Bytes> kept;
    };
    const Nodes& nodes;
    const LowFactors& by;
    float* c;
    u8* out;
    u64 seed;
    double l1 = 0.0, sum = 0.0, lost = 0.0;
    float largest = 0.0f;  // of r / degree * up

    CPMS_DEVICE LowEnd(const Nodes& all, const LowFactors& factors, float* correction, u8* z, u64 noise)
        : nodes(all), by(factors), c(correction), out(z), seed(noise) {}

    CPMS_DEVICE Loaded load(u32 row) const {
        return Loaded{Count<Bytes>(nodes.degree, nodes.degree_byte, row), Correction<AddsUp>(c, row),
                      OwnSink<Personal>(nodes, row), KeptCount<Partial, Bytes>(nodes, row)};
    }
    CPMS_DEVICE void expect(u32 row) const {
        Count<Bytes>::expect(nodes.degree, nodes.degree_byte, row);
        Correction<AddsUp>::expect(c, row);
        OwnSink<Personal>::expect(nodes, row);
        KeptCount<Partial, Bytes>::expect(nodes, row);
    }
    CPMS_DEVICE void finish(u32 row, double total, const Loaded& with) {
        const u32 degree = with.degree.whole(nodes.degree, row);
        const double r = fma(total, by.factor, with.sink.of(by.lost_damped, by.common));
        double z;
        if constexpr (Stored::scaled_in_float32) {
            const float scaled = rounded(r * by.up);
            const float share = Stored::has_share(degree) ? scaled * about_one_over(degree ? degree : 1) : 0.0f;
            with.c.add(c, row, scaled * by.down);
            z = stored(row, share);
        } else {
            const float inverse = about_one_over(degree ? degree : 1);
            const double share = Stored::has_share(degree) ? r * (double)inverse * by.up : 0.0;
            with.c.add(c, row, (float)r);
            z = stored(row, share);
        }
        l1 += fabs(r);
        sum += r;
        lost += fma(-exactly(with.kept.of(degree, nodes, row)), z, r);
    }

  private:
    using Stored = typename QuantiserOf<Q>::Type;

    template <class Real>
    CPMS_DEVICE double stored(u32 row, Real share) {
        largest = fmaxf(largest, fabsf((float)share));
        return Stored::store(out, row, share, seed) * by.back;
    }
};

// What is the same for all rows of a full sweep.
struct FullFactors {
    double to_mass_one, factor, dangling_damped, rest, common;

    static CPMS_DEVICE FullFactors of(const Nodes& nodes, const Common& all, double mass, double dangling) {
        const double to_mass_one = 1.0 / mass, rest = 1.0 - nodes.damping;
        const double dangling_damped = nodes.damping * dangling * to_mass_one;
        const double common = dangling_damped * all.sink + rest * all.teleport;
        return FullFactors{to_mass_one, nodes.damping * to_mass_one, dangling_damped, rest, common};
    }
};

// Full sweep: y = G(x); r = y - x; shares are x / degree, or x itself on dangling nodes. Where a kernel keeps much else,
// `by` is best in shared memory: a walk over float64 has few registers left.
template <bool Refines, bool Personal, bool OfDangling = false, bool Bytes = false>
struct FullEnd {
    static constexpr u32 expected_rows = 4;
    struct Loaded {
        Count<Bytes> degree;
        double share;
        OwnSink<Personal> sink;
        OwnTeleport<Personal> teleport;
    };
    const Nodes& nodes;
    const FullFactors& by;
    const double* shares;
    double* fresh;
    double* change;  // r / degree, where Refines
    double l1 = 0.0, squares = 0.0, mass = 0.0, other = 0.0, linf = 0.0, largest = 0.0;  // other, largest: see finish

    CPMS_DEVICE Loaded load(u32 row) const {
        return Loaded{Count<Bytes>(nodes.degree, nodes.degree_byte, row), shares[row], OwnSink<Personal>(nodes, row),
                      OwnTeleport<Personal>(nodes, row)};
    }
    CPMS_DEVICE void expect(u32 row) const {
        Count<Bytes>::expect(nodes.degree, nodes.degree_byte, row);
        fetch_ahead(shares + row);
        OwnSink<Personal>::expect(nodes, row);
        OwnTeleport<Personal>::expect(nodes, row);
    }
    CPMS_DEVICE void finish(u32 row, double total, const Loaded& with) {
        const double plus = with.teleport.plus(by.rest, with.sink.of(by.dangling_damped, by.common));
        const double y = total * by.factor + plus;
        const u32 degree = with.degree.whole(nodes.degree, row);
        const double out = degree ? (double)degree : 1.0, inverse = nodes.inverse(degree);
        const double r = y - with.share * out * by.to_mass_one;
        fresh[row] = y * inverse;
        l1 += fabs(r);
        squares += r * r;
        mass += y;
        linf = Larger{}(linf, fabs(r));
        if constexpr (Refines) {
            change[row] = r * inverse;
            other += r;
            largest = Larger{}(largest, OfDangling || degree ? fabs(r * inverse) : 0.0);
        } else {
            other += degree ? 0.0 : y;  // the next sweep's dangling mass
        }
    }
};

}  // namespace cpms
