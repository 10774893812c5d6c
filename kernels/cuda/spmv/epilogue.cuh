// What follows a row sum: damping, dangling mass, teleport, rounding to the written segments.
#pragma once
#include "base/segmented_storage.cuh"

namespace cpms {

// new = row_factor * sum + dangling_factor * (dangling mass) * sink + rest * teleport, in real units;
// stored are to_stored times these, divided by the out-degree where the layout keeps no values.
struct Epilogue {
    double row_factor, dangling_factor, rest, to_stored;
    const double* dangling;            // one value, as stored
    const double *sink, *teleport;     // one value, or one a row
    u32 sink_stride, teleport_stride;  // 0 or 1
    const u32* divisor;                // one a row, or null
    u8* out;
    u32 length;  // values in x and out, zeros behind the rows included
    u64 seed;
};

// One update a row, with what is the same for all rows worked out once.
template <class F, int W, bool Pattern>
struct RowEpilogue {
    const Epilogue& epilogue;
    const bool personal;
    const double mass;    // damped, in real units
    const double common;  // what every row gets where sink and teleport are uniform

    CPMS_DEVICE explicit RowEpilogue(const Epilogue& u)
        : epilogue(u),
          personal(u.sink_stride + u.teleport_stride > 0),
          mass(u.dangling_factor * load_double(u.dangling)),
          common(mass * load_double(u.sink) + u.rest * load_double(u.teleport)) {}

    // What a row becomes; Personal reads its sink and teleport, which are the same for all rows otherwise.
    template <bool Personal>
    CPMS_DEVICE double value(u32 row, double sum) const {
        double plus = common;
        if constexpr (Personal) {
            plus = mass * load_double(epilogue.sink + row * epilogue.sink_stride) +
                   epilogue.rest * load_double(epilogue.teleport + row * epilogue.teleport_stride);
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

#define CPMS_EPILOGUE_PARAMETERS                                                                      \
    double row_factor, double dangling_factor, double rest, double to_stored, const double *dangling, \
        const double *sink, const double *teleport, unsigned sink_stride, unsigned teleport_stride,   \
        const unsigned *divisor, unsigned char *out, unsigned length, unsigned long long seed
#define CPMS_EPILOGUE                                                                                                  \
    cpms::Epilogue {                                                                                                   \
        row_factor, dangling_factor, rest, to_stored, dangling, sink, teleport, sink_stride, teleport_stride, divisor, \
            out, length, seed                                                                                          \
    }
