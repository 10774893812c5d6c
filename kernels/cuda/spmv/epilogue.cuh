// Epilogue of an SpMV: a linear combination of a row's sum with two vectors, then rounding to the written segments.
//
// PageRank's sweep is y = damping * (P x + dangling mass * sink) + (1 - damping) * teleport; the host folds all
// scalars into the factors below. The fusion saves one read and one write of y.
#pragma once
#include "base/segmented_storage.cuh"

namespace cpms {

// new = row_factor * sum + dangling_factor * (dangling mass) * sink + teleport_factor * teleport, in real
// units. The stored value is to_stored times that, divided by the out-degree where the layout keeps no matrix values.
struct Epilogue {
    double row_factor, dangling_factor, teleport_factor, to_stored;
    const double* dangling;            // one value, as stored
    const double *sink, *teleport;     // one value, or one a row
    u32 sink_stride, teleport_stride;  // 0 or 1
    const u32* divisor;                // one a row, or null
    u8* out;
    u32 length;  // values in x and out, including the zeros past the last row
    u64 seed;
};

// The epilogue of a thread's rows, with the terms that are equal for all rows precomputed.
template <class F, int W, bool Pattern>
struct RowEpilogue {
    const Epilogue& epilogue;
    const bool personal;
    const double mass;    // damped, in real units
    const double common;  // the term of every row where sink and teleport are uniform

    CPMS_DEVICE explicit RowEpilogue(const Epilogue& u)
        : epilogue(u),
          personal(u.sink_stride + u.teleport_stride > 0),
          mass(u.dangling_factor * load_double(u.dangling)),
          common(mass * load_double(u.sink) + u.teleport_factor * load_double(u.teleport)) {}

    // The new value of a row. Personal reads the row's sink and teleport; otherwise both are uniform.
    template <bool Personal>
    CPMS_DEVICE double value(u32 row, double sum) const {
        double plus = common;
        if constexpr (Personal) {
            plus = mass * load_double(epilogue.sink + row * epilogue.sink_stride) +
                   epilogue.teleport_factor * load_double(epilogue.teleport + row * epilogue.teleport_stride);
        }
        double fresh = epilogue.row_factor * sum + plus;
        if constexpr (F::scalable) fresh *= epilogue.to_stored;
        return Pattern ? fresh * reciprocal(load_word(epilogue.divisor + row, ReadOnly{})) : fresh;
    }

    CPMS_DEVICE void write(u32 row, double fresh) const {
        store<F, W>(epilogue.out, row, epilogue.length, fresh, epilogue.seed);
    }
};

}  // namespace cpms
