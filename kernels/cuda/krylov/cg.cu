// Conjugate gradients between two residuals: the passes over vectors that follow a product q = A p, each of which reads
// what it needs once. Flexible recurrences (Notay 2000): alpha = r.p / p.q, r -= alpha q, beta = -z.q / p.q,
// p' = z + beta p, with z = M r for a preconditioner M, and z = r without one; x takes up to eight alpha p together.
// Scalars stay on the device: each pass reads those of the pass before from a log, which the host fetches once for up
// to eight iterations.
//
// With r, p and q in float32, an iteration moves 8 + 12 + 12 + 6 bytes a value besides the product; where rows follow
// few patterns, the kernel of the product also computes p.q, which saves the first pass.
#include "base/last_block_reduce.cuh"
#include "krylov/four_values.cuh"

namespace cpms {

constexpr int cg_ring = 8;

// Scalars of an iteration. Entry 0 of a log is the iteration before; each pass writes its own fields. r.p of a
// direction is in the entry before that of its curvature, since the iteration before made the direction. All are times
// the square of `scale`, of which ratios are free.
struct CgEntry {
    double curvature;         // p.q
    double residual_square;   // r.r after the update
    double of_residual;       // z.q
    double product;           // r.p of the new direction
};

// `CG` of cpms/backends/cuda/kernels/structs.py has the same fields.
struct Cg {
    u8* r;
    u8* p;                    // direction of this iteration
    u8* next;                 // of the next one; may be p
    u8* q;
    double* x;                // in `cg_load`, the residual in float64
    CgEntry* before;
    CgEntry* now;
    double* partials;
    u32* counter;
    double* product;          // where r.p of a new direction goes
    const double* scale;      // of both factors of a scalar product, so that float32 neither overflows nor underflows
    u64 length;               // values
    u64 padded;               // to whole blocks of 32
    u64 count;                // directions that x takes; in `cg_load`, 0 if there is no direction yet
    const u16* of_row;        // pattern of each row; this and the next three are of `cg_patterns` alone
    const u32* starts;        // first entry of each pattern, a multiple of `pattern_batch`, and the end
    const u8* entries;        // `PatternEntry` of all patterns
    u64 stride;               // from row to row of a thread; at most 2^29
    const u8* ring[cg_ring];  // directions of a part of a run, one an iteration
    const u8* z;              // the diagonal of M, or M r in float64; see NoPreconditioner
};

constexpr int pattern_batch = 4;
// Rows of a thread at a time: as many as 32 registers allow, with which a multiprocessor is full.
template <class Real>
constexpr int pattern_rows = sizeof(Real) == 8 ? 2 : 4;

// A value and its column less the row. Patterns are padded with zeros on the diagonal to whole batches. Columns are
// below 2^31, so that sums modulo 2^32 find them from negative distances, too.
template <class Real>
struct PatternEntry {
    static constexpr int size = 2 * sizeof(Real);
    Real value;
    long long distance;

    static CPMS_DEVICE PatternEntry load(const u8* at) {
        const Run<size> run = load_run_bytes<size>(at, ReadOnly{});
        if constexpr (sizeof(Real) == 4) {
            return {single_of(run.word[0]), (int)run.word[1]};
        } else {
            return {value_of(run.template field<64>(0)), (long long)run.template field<64>(1)};
        }
    }
};

// 0 where the denominator p.q is not positive: no step is taken then, and the next direction is r.
CPMS_DEVICE double ratio(double a, double b) { return b > 0.0 ? a / b : 0.0; }

template <class Real>
CPMS_DEVICE double dot_of_four(const Real (&a)[4], const Real (&b)[4], Real scale) {
    Real sum = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += (a[k] * scale) * (b[k] * scale);
    return (double)sum;
}

// Where passes have z from: the three ways to precondition. Lanes that are not inside have no z.
struct NoPreconditioner {
    template <class Real>
    static CPMS_DEVICE void load(const Cg&, u64, bool, const Real (&r)[4], Real (&z)[4]) {
#pragma unroll
        for (int k = 0; k < 4; ++k) z[k] = r[k];
    }
};

// M is diagonal, and stored in the type that passes compute in.
struct Diagonal {
    template <class Real>
    static CPMS_DEVICE void load(const Cg& a, u64 i, bool inside, const Real (&r)[4], Real (&z)[4]) {
        if (!inside) return;
        FourValues<Real>::load(a.z, i, a.length, z);
#pragma unroll
        for (int k = 0; k < 4; ++k) z[k] *= r[k];
    }
};

// z = M r was computed before, in float64, without padding.
struct Applied {
    template <class Real>
    static CPMS_DEVICE void load(const Cg& a, u64 i, bool inside, const Real (&)[4], Real (&z)[4]) {
        if (!inside) return;
#pragma unroll
        for (int k = 0; k < 4; ++k) z[k] = i + k < a.length ? (Real)load_double((const double*)a.z + i + k) : (Real)0;
    }
};

// z.q, where z is known only after cg_update
template <class V>
CPMS_DEVICE void cg_applied(const Cg& a) {
    using Real = typename FourValues<V>::Real;
    const Real scale = (Real)*a.scale;
    LastBlockReduce<1, false> mine{};
    for_each_four(a.padded, [&](u64 i) {
        if (i >= a.padded) return;
        Real z[4], q[4];
        FourValues<Real>::load(a.q, i, a.length, q);
        Applied::load(a, i, true, q, z);
        mine.value[0] += dot_of_four(z, q, scale);
    });
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, &a.now->of_residual);
}

// p.q
template <class V>
CPMS_DEVICE void cg_curvature(const Cg& a) {
    using Real = typename FourValues<V>::Real;
    const Real scale = (Real)*a.scale;
    LastBlockReduce<1, false> mine{};
    for_each_four(a.padded, [&](u64 i) {
        if (i >= a.padded) return;
        Real p[4], q[4];
        FourValues<V>::load(a.p, i, a.length, p);
        FourValues<Real>::load(a.q, i, a.length, q);
        mine.value[0] += dot_of_four(p, q, scale);
    });
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, &a.now->curvature);
}

// q = A p of `Rows` rows of one pattern, `stride` apart from row i on; returns their part of p.q.
template <class V, int Rows>
CPMS_DEVICE double multiply_pattern(const Cg& a, u32 pattern, u32 i, typename FourValues<V>::Real scale) {
    using Real = typename FourValues<V>::Real;
    using Entry = PatternEntry<Real>;
    const u32 stride = (u32)a.stride, end = load_word(a.starts + pattern + 1, ReadOnly{});
    Real sum[Rows] = {};
#pragma unroll 1
    for (u32 k = load_word(a.starts + pattern, ReadOnly{}); k < end; k += pattern_batch) {
        Entry entry[pattern_batch];
        Real value[pattern_batch][Rows];
#pragma unroll
        for (int c = 0; c < pattern_batch; ++c) entry[c] = Entry::load(a.entries + (u64)(k + c) * Entry::size);
#pragma unroll
        for (int c = 0; c < pattern_batch; ++c) {
#pragma unroll
            for (int r = 0; r < Rows; ++r) {
                value[c][r] = FourValues<V>::one(a.p, i + r * stride + (u32)entry[c].distance, a.length);
            }
        }
#pragma unroll
        for (int c = 0; c < pattern_batch; ++c) {
#pragma unroll
            for (int r = 0; r < Rows; ++r) sum[r] += entry[c].value * value[c][r];
        }
    }
    double dotted = 0.0;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        const u32 row = i + r * stride;
        ((Real*)a.q)[row] = sum[r];
        dotted += (double)((FourValues<V>::one(a.p, row, a.length) * scale) * (sum[r] * scale));
    }
    return dotted;
}

// q = A p and p.q in one pass, for matrices whose rows follow few patterns: a row reads the number of its pattern, two
// bytes, and neighbouring rows find its entries in the first-level cache (cf. Belgin, Back and Ribbens, ICS 2009).
//
// Loads from the caches are the bound, not memory. So a thread has some rows `stride` apart, on grids in neighbouring
// planes, and loads each entry once for all of them where their patterns agree.
template <class V>
CPMS_DEVICE void cg_patterns(const Cg& a) {
    using Real = typename FourValues<V>::Real;
    constexpr u32 rows = pattern_rows<Real>;
    const Real scale = (Real)*a.scale;
    LastBlockReduce<1, false> mine{};
    const u32 threads = gridDim.x * blockDim.x, self = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 stride = (u32)a.stride, length = (u32)a.length, in_tiles = length / (rows * stride) * stride;
    for (u32 g = self; g < in_tiles; g += threads) {
        const u32 first = g / stride * (rows * stride) + g % stride;
        u16 pattern[rows];
#pragma unroll
        for (u32 r = 0; r < rows; ++r) pattern[r] = load_word(a.of_row + first + r * stride, Streaming{});
        bool same = true;
#pragma unroll
        for (u32 r = 1; r < rows; ++r) same = same && pattern[r] == pattern[0];
        if (same) {
            mine.value[0] += multiply_pattern<V, rows>(a, pattern[0], first, scale);
        } else {
#pragma unroll 1
            for (u32 row = first; row < first + rows * stride; row += stride) {
                mine.value[0] += multiply_pattern<V, 1>(a, load_word(a.of_row + row, ReadOnly{}), row, scale);
            }
        }
    }
    for (u32 i = rows * in_tiles + self; i < length; i += threads) {
        mine.value[0] += multiply_pattern<V, 1>(a, load_word(a.of_row + i, Streaming{}), i, scale);
    }
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, &a.now->curvature);
}

// r -= alpha q; r.r and z.q of what is stored, which the reduction writes to two adjacent fields
template <class V, class Preconditioner>
CPMS_DEVICE void cg_update(const Cg& a) {
    using Real = typename FourValues<V>::Real;
    const Real scale = (Real)*a.scale;
    const Real alpha = (Real)ratio(a.before->product, a.now->curvature);
    LastBlockReduce<2, false> mine{};
    for_each_four(a.padded, [&](u64 i) {
        const bool inside = i < a.padded;
        Real r[4] = {}, q[4] = {};
        if (inside) FourValues<V>::load(a.r, i, a.length, r);
        if (inside) FourValues<Real>::load(a.q, i, a.length, q);
#pragma unroll
        for (int k = 0; k < 4; ++k) r[k] -= alpha * q[k];
        FourValues<V>::store(a.r, i, a.length, r, inside);
        mine.value[0] += dot_of_four(r, r, scale);
        Real z[4] = {};
        Preconditioner::load(a, i, inside, r, z);
        mine.value[1] += dot_of_four(z, q, scale);
    });
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, &a.now->residual_square);
}

// p' = z + beta p, and r.p'
template <class V, class Preconditioner>
CPMS_DEVICE void cg_direction(const Cg& a) {
    using Real = typename FourValues<V>::Real;
    const Real scale = (Real)*a.scale;
    const Real beta = (Real)-ratio(a.now->of_residual, a.now->curvature);
    LastBlockReduce<1, false> mine{};
    for_each_four(a.padded, [&](u64 i) {
        const bool inside = i < a.padded;
        Real r[4] = {}, p[4] = {}, z[4] = {};
        if (inside) FourValues<V>::load(a.r, i, a.length, r);
        if (inside) FourValues<V>::load(a.p, i, a.length, p);
        Preconditioner::load(a, i, inside, r, z);
#pragma unroll
        for (int k = 0; k < 4; ++k) p[k] = z[k] + beta * p[k];
        FourValues<V>::store(a.next, i, a.length, p, inside);
        mine.value[0] += dot_of_four(r, p, scale);
    });
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, a.product);
}

// x += sum of alpha p over the ring's first `count` directions; their entries follow one another from `before` on.
template <class V>
CPMS_DEVICE void cg_solution(const Cg& a) {
    using Real = typename FourValues<V>::Real;
    double alpha[cg_ring];
#pragma unroll
    for (int j = 0; j < cg_ring; ++j) {
        alpha[j] = (u64)j < a.count ? ratio(a.before[j].product, a.before[j + 1].curvature) : 0.0;
    }
    for_each_four(a.padded, [&](u64 i) {
        if (i >= a.padded) return;
        double sum[4] = {};
#pragma unroll
        for (int j = 0; j < cg_ring; ++j) {
            if ((u64)j >= a.count) continue;
            Real p[4];
            FourValues<V>::load(a.ring[j], i, a.length, p);
#pragma unroll
            for (int k = 0; k < 4; ++k) sum[k] += alpha[j] * (double)p[k];
        }
        if (i + 4 <= a.length) {  // one test for load and store: with two, float64 takes 36 registers instead of 32
            double x[4];
            FourValues<double>::load((const u8*)a.x, i, a.length, x);
#pragma unroll
            for (int k = 0; k < 4; ++k) x[k] += sum[k];
            FourValues<double>::store((u8*)a.x, i, a.length, x, true);
        } else {
            for (int k = 0; k < 4 && i + k < a.length; ++k) a.x[i + k] += sum[k];
        }
    });
}

// Stores a new residual in float64 as r, and finds r.p. The direction is kept from residual to residual; the first one
// is z.
template <class V, class Preconditioner>
CPMS_DEVICE void cg_load(const Cg& a) {
    using Real = typename FourValues<V>::Real;
    const Real scale = (Real)*a.scale;
    LastBlockReduce<1, false> mine{};
    for_each_four(a.padded, [&](u64 i) {
        const bool inside = i < a.padded;
        Real r[4] = {}, p[4] = {};
#pragma unroll
        for (int k = 0; k < 4; ++k) r[k] = i + k < a.length ? (Real)a.x[i + k] : (Real)0;
        FourValues<V>::store(a.r, i, a.length, r, inside);
        if (a.count == 0) {
            Preconditioner::load(a, i, inside, r, p);
            FourValues<V>::store(a.p, i, a.length, p, inside);
        } else if (inside) {
            FourValues<V>::load(a.p, i, a.length, p);
        }
        mine.value[0] += dot_of_four(r, p, scale);
    });
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, a.product);
}

}  // namespace cpms

#define CPMS_CG_KERNEL(NAME, PASS, ...)         \
    CPMS_KERNEL(256) NAME(cpms::Cg arguments) { \
        cpms::PASS<__VA_ARGS__>(arguments);     \
    }
#define CPMS_CG_CURVATURE(NAME, ...) CPMS_CG_KERNEL(NAME, cg_curvature, __VA_ARGS__)
#define CPMS_CG_PATTERNS(NAME, ...) CPMS_CG_KERNEL(NAME, cg_patterns, __VA_ARGS__)
#define CPMS_CG_APPLIED(NAME, ...) CPMS_CG_KERNEL(NAME, cg_applied, __VA_ARGS__)
#define CPMS_CG_UPDATE(NAME, ...) CPMS_CG_KERNEL(NAME, cg_update, __VA_ARGS__)
#define CPMS_CG_DIRECTION(NAME, ...) CPMS_CG_KERNEL(NAME, cg_direction, __VA_ARGS__)
#define CPMS_CG_SOLUTION(NAME, ...) CPMS_CG_KERNEL(NAME, cg_solution, __VA_ARGS__)
#define CPMS_CG_LOAD(NAME, ...) CPMS_CG_KERNEL(NAME, cg_load, __VA_ARGS__)
