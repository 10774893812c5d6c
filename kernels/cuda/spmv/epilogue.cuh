// What follows a row sum: damping, dangling mass, teleport, rounding to the written segments.
#pragma once
#include "base/segmented_storage.cuh"

namespace cpms {

// new = row_factor * sum + dangling_factor * (dangling mass) * sink + rest * teleport, in real units;
// stored are to_stored times these, divided by the out-degree where the layout keeps no values.
struct Update {
    double row_factor, dangling_factor, rest, to_stored;
    const double* dangling;                // one value, as stored
    const double *sink, *teleport;         // one value, or one a row
    u32 sink_step, teleport_step;          // 0 or 1
    const u32* divisor;                    // one a row, or null
    u8* out;
    u32 length;                            // values in x and out, zeros behind the rows included
    u64 seed;
};

// One update a row, with what is the same for all rows worked out once.
template <class F, int W, bool Pattern>
struct RowEnd {
    const Update& update;
    const bool personal;
    const double mass;    // damped, in real units
    const double common;  // what every row gets where sink and teleport are uniform

    CPMS_DEVICE explicit RowEnd(const Update& u)
        : update(u),
          personal(u.sink_step + u.teleport_step > 0),
          mass(u.dangling_factor * load_double(u.dangling)),
          common(mass * load_double(u.sink) + u.rest * load_double(u.teleport)) {}

    // What a row becomes; Personal reads its sink and teleport, which are the same for all rows otherwise.
    template <bool Personal>
    CPMS_DEVICE double value(u32 row, double sum) const {
        double plus = common;
        if constexpr (Personal) {
            plus = mass * load_double(update.sink + row * update.sink_step) +
                   update.rest * load_double(update.teleport + row * update.teleport_step);
        }
        double fresh = update.row_factor * sum + plus;
        if constexpr (F::scalable) fresh *= update.to_stored;
        return Pattern ? fresh * reciprocal(load_word(update.divisor + row, ReadOnly{})) : fresh;
    }

    CPMS_DEVICE void write(u32 row, double fresh) const {
        store<F, W>(update.out, row, update.length, fresh, update.seed);
    }
};

}  // namespace cpms

#define CPMS_UPDATE_PARAMETERS                                                                        \
    double row_factor, double dangling_factor, double rest, double to_stored, const double *dangling, \
        const double *sink, const double *teleport, unsigned sink_step, unsigned teleport_step,       \
        const unsigned *divisor, unsigned char *out, unsigned length, unsigned long long seed
#define CPMS_UPDATE                                                                                  \
    cpms::Update {                                                                                   \
        row_factor, dangling_factor, rest, to_stored, dangling, sink, teleport, sink_step,           \
            teleport_step, divisor, out, length, seed                                                \
    }
