// What becomes of a row in the sweeps of method refine and of fused power iteration.
#pragma once
#include "spmv/epilogue.cuh"
#include "persistent/segmented_sum.cuh"

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

// 2^exponent, for normal numbers.
CPMS_DEVICE double power_of_two(int exponent) { return value_of((u64)(1023 + exponent) << 52); }

// The exponent by which values are stored; cpms/quantising.py says why. `top` is bias - headroom.
CPMS_DEVICE int shared_scale(bool scaled, int top, double largest) {
    const int field = (int)(bits_of(largest) >> 52 & 0x7FF);
    if (!scaled || field == 0 || field == 0x7FF) return 0;
    const int exponent = top - (field - 1022);
    return exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
}

// Q: the bits of a scaled value, of the largest finite number where it does not fit. What is stored is
// taken for what it is, so a value may be rounded twice; that of formats up to 32 bits goes by float32.
template <int E, int M, Rounding rounding>
struct Quantiser {
    using F = Packed<E, M, rounding>;
    static constexpr int bias = (1 << (E - 1)) - 1;
    static constexpr bool by_float32 =
        E <= 8 && (rounding == Rounding::nearest || (rounding == Rounding::zero && M < 23));
    // Whether float32 holds scaled values times any degree, and loses little of them to what is stored.
    static constexpr bool scaled_in_float32 = by_float32 && E < 8 && M <= 12;
    // Whether there is range for the shares of dangling nodes, which nobody gathers; cpms/extrapolation.py.
    static constexpr bool of_dangling = E >= 5;
    static CPMS_DEVICE bool has_share(u32 degree) { return of_dangling || degree; }

    static CPMS_DEVICE double most() {  // one step below infinity
        return value_of(((u64)(1023 + bias) << 52) | (((1ull << M) - 1) << (52 - M)));
    }

#if defined(__CUDA_ARCH__)
    // Whether the device rounds two numbers at a time by itself, as by_single does one.
    static constexpr bool by_pairs = E == 5 && rounding == Rounding::nearest &&
                                     ((M == 10 && __CUDA_ARCH__ >= 800) || (M == 2 && __CUDA_ARCH__ >= 890));
    static CPMS_DEVICE u32 pair(float first, float second) {
        if constexpr (M == 10) {
            u32 halves;
            asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
            return halves;
        } else {
            u16 bytes;
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(second), "f"(first));
            return bytes;
        }
    }
#endif

    static CPMS_DEVICE u32 by_single(float value) {
#if defined(__CUDA_ARCH__)
        if constexpr (by_pairs) return pair(value, 0.0f);  // one number alone would take a slower way
#endif
        constexpr u32 limit = ((u32)(127 + bias) << 23) | (((1u << M) - 1) << (23 - M));
        const u32 bits = bits_of_single(value), sign = bits >> 31 << (E + M);
        u32 size = bits & 0x7FFFFFFFu;
        size = size < limit ? size : limit;
        if constexpr (E == 8 && M == 23) return size | sign;
        const int exponent = (int)(size >> 23) - 127 + bias;
        u32 digits = size - ((u32)(127 - bias) << 23);
        int shift = 23 - M;
        if (E < 8 && exponent < 1) {  // subnormal there
            shift = 24 - M - exponent;
            digits = shift > 30 ? 0 : (size & 0x007FFFFFu) | 0x00800000u;
            shift = shift > 30 ? 30 : shift;
        }
        if constexpr (rounding == Rounding::nearest) digits += (1u << (shift - 1)) - 1 + (digits >> shift & 1);
        return digits >> shift | sign;
    }

    static CPMS_DEVICE u32 packed(float value, u64, u32) { return by_single(value); }
    static CPMS_DEVICE u32 packed(double value, u64 seed, u32 i) {
        if constexpr (rounding != Rounding::stochastic && E == 11) {
            return (u32)pack<E, M, rounding>(bits_of(value), 0);
        } else if constexpr (by_float32) {
            return by_single((float)value);
        } else {
            const double limit = most();
            return F::packed(value > limit ? limit : value < -limit ? -limit : value, seed, i);
        }
    }

    // Returns the raw value of what was stored.
    template <class Real>
    static CPMS_DEVICE double store(u8* out, u32 i, Real value, u64 seed) {
        Run<F::bytes> run;
        run.word[0] = packed(value, seed, i);
        store_run_bytes<F::bytes>(out + (u64)i * F::bytes, run);
        return Raw<F>::value(run.word[0]);
    }
};

template <class F>
struct QuantiserOf;
template <int E, int M, Rounding rounding>
struct QuantiserOf<Packed<E, M, rounding>> {
    using Type = Quantiser<E, M, rounding>;
};

// An integer's float64, by an addition where a conversion would wait for a slower unit.
CPMS_DEVICE double exactly(u32 number) { return value_of(0x4330000000000000ull | number) - 4503599627370496.0; }

// What nodes get of lost or dangling mass and of teleport where one number serves all. It is best in shared memory: what
// a sweep begins with should not wait for loads.
struct Common {
    double sink, teleport;

    static CPMS_DEVICE Common of(const Nodes& nodes) {
        return Common{load_double(nodes.sink), load_double(nodes.teleport)};
    }
};

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

// How Q is stored.
struct Storing {
    u32 scaled;  // whether by a power of two
    int top;     // its bias less the headroom
    u64 seed;
};

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
