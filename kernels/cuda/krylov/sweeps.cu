// Sweeps in residual form, whose coefficients are known beforehand (cpms/contracts/sweeps.py). Between two products
// q = A s one pass over the vectors does
//
//     r -= q,   s = keep s + turn D^-1 r,   c += s
//
// with r, c and D^-1 in float64, and s as it is stored. The square of the 2-norm of r goes to a place of its own for
// each sweep, so that the host fetches those of several sweeps at once. A pass moves 48 bytes a value besides those of
// s.
#include "base/last_block_reduce.cuh"
#include "krylov/four_values.cuh"

namespace cpms {

// `SWEEP` of cpms/backends/cuda/kernels/structs.py has the same fields.
struct Sweep {
    double* r;
    double* c;
    u8* s;
    const double* q;
    const double* inverse;    // D^-1
    double* square;           // receives r.r of this pass
    double* partials;
    u32* counter;
    double keep;              // coefficients of the step, as above
    double turn;
    u64 length;               // values
    u64 padded;               // of s, to whole blocks of 32
    u64 subtracts;            // 0 in the first pass, which has no q
    u64 steps;                // 0 in the last pass, after which no product follows
};

// Four values of an array that is not padded; 0 beyond its end.
CPMS_DEVICE void load_four(const double* array, u64 i, u64 length, double (&v)[4]) {
    if (i + 4 <= length) {
        FourValues<double>::load((const u8*)array, i, length, v);
    } else {
        for (int k = 0; k < 4; ++k) v[k] = i + k < length ? array[i + k] : 0.0;
    }
}

CPMS_DEVICE void store_four(double* array, u64 i, u64 length, double (&v)[4]) {
    if (i + 4 <= length) {
        FourValues<double>::store((u8*)array, i, length, v, true);
    } else {
        for (int k = 0; k < 4 && i + k < length; ++k) array[i + k] = v[k];
    }
}

template <class V>
CPMS_DEVICE void sweep_pass(const Sweep& a) {
    using Real = typename FourValues<V>::Real;
    LastBlockReduce<1, false> mine{};
    for_each_four(a.padded, [&](u64 i) {
        const bool inside = i < a.padded;
        double r[4];
        load_four(a.r, i, a.length, r);
        if (a.subtracts) {
            double q[4];
            load_four(a.q, i, a.length, q);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                r[k] -= q[k];
                mine.value[0] += r[k] * r[k];
            }
            store_four(a.r, i, a.length, r);
        }
        if (!a.steps) return;
        double inverse[4], c[4];
        Real s[4] = {};
        load_four(a.inverse, i, a.length, inverse);
        if (inside) FourValues<V>::load(a.s, i, a.length, s);
#pragma unroll
        for (int k = 0; k < 4; ++k) s[k] = (Real)(a.keep * (double)s[k] + a.turn * (inverse[k] * r[k]));
        FourValues<V>::store(a.s, i, a.length, s, inside);
        load_four(a.c, i, a.length, c);
#pragma unroll
        for (int k = 0; k < 4; ++k) c[k] += (double)s[k];
        store_four(a.c, i, a.length, c);
    });
    if (a.subtracts) reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, a.square);
}

}  // namespace cpms

#define CPMS_SWEEP_PASS(NAME, ...)                 \
    CPMS_KERNEL(256) NAME(cpms::Sweep arguments) { \
        cpms::sweep_pass<__VA_ARGS__>(arguments);  \
    }
