// Rounds an array to a format in one pass: each value is read once and written once, in words of 16 bytes where both
// arrays are aligned to them.
#include "base/stores.cuh"
#include "base/warp.cuh"
#include "convert/rounding_rules.cuh"

namespace cpms {

struct RoundingRequest {
    const u8* values;  // float64 or float32, as the result
    u8* out;
    u64 length;
    double factor, back;  // a power of two with which values are rounded, and its reciprocal; both 1 for groups
    u64* counts;          // numbers that overflow, become 0, and are NaN, and ~index of the first that overflows
};

// Values of a thread that a format does not keep.
struct Lost {
    u64 overflow = 0, underflow = 0, nan = 0, first = 0;

    CPMS_DEVICE void add(u64 given, u64 found, bool overflows, u64 index) {
        const u64 size = given & magnitude_bits;
        overflow += overflows;
        underflow += size != 0 && (found & magnitude_bits) == 0;
        nan += size > infinity_bits;
        first = overflows && ~index > first ? ~index : first;
    }

    CPMS_DEVICE void reduce_into(u64* counts) const {
        const auto sum = [](u64 a, u64 b) { return a + b; };
        const u64 all[] = {warp_reduce(overflow, sum), warp_reduce(underflow, sum), warp_reduce(nan, sum),
                           warp_reduce(first, [](u64 a, u64 b) { return a > b ? a : b; })};
        if (threadIdx.x % 32) return;
        for (int each = 0; each < 3; ++each) {
            if (all[each]) atomicAdd(counts + each, all[each]);
        }
        if (all[3]) atomicMax(counts + 3, all[3]);
    }
};

// Bits of float64 of a number in memory, and back. NaN keep their sign, which conversion instructions drop.
template <class Real>
CPMS_DEVICE u64 widened(u64 raw) {
    if constexpr (sizeof(Real) == 8) return raw;
    const u64 size = bits_of(to_double(single_of((u32)raw & 0x7FFFFFFFu)));
    return (size & magnitude_bits) | raw >> 31 << 63;
}
template <class Real>
CPMS_DEVICE u64 narrowed(u64 bits) {
    if constexpr (sizeof(Real) == 8) return bits;
    if ((bits & magnitude_bits) > infinity_bits) return (bits >> 63 << 31) | 0x7FC00000u;
    return bits_of_single(to_float(value_of(bits)));
}

CPMS_DEVICE u64 times(u64 bits, double factor) {
    if (factor == 1.0 || (bits & magnitude_bits) > infinity_bits) return bits;
    return bits_of(value_of(bits) * factor);
}

template <class Rule, class Real, bool Counted>
CPMS_DEVICE u64 rounded(u64 raw, const RoundingRequest& request, const RoundingRule& rule, u64 index, Lost& lost) {
    const u64 given = widened<Real>(raw);
    bool overflows = false;
    const u64 found = times(Rule::round(times(given, request.factor), rule, index, overflows), request.back);
    if constexpr (Counted) lost.add(given, found, overflows, index);
    return narrowed<Real>(found);
}

CPMS_DEVICE bool is_aligned(const RoundingRequest& request) {
    return (((u64)request.values | (u64)request.out) & 15) == 0;
}

template <class Rule, class Real, bool Counted>
CPMS_DEVICE void round_values(const RoundingRequest& request, const RoundingRule& rule) {
    constexpr int bytes = sizeof(Real), run = 16 / bytes, together = 2;
    const u64 runs = is_aligned(request) ? request.length / run : 0;
    Lost lost;
    for (u64 tile = (u64)blockIdx.x * block_threads * together; tile < runs;
         tile += (u64)gridDim.x * block_threads * together) {
        Run<16> read[together];
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u64 at = tile + j * block_threads + threadIdx.x;
            if (at < runs) read[j] = load_run_bytes<16>(request.values + 16 * at, ReadOnly{});
        }
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u64 at = tile + j * block_threads + threadIdx.x;
            if (at >= runs) break;
            Run<16> written{};
#pragma unroll
            for (int k = 0; k < run; ++k) {
                const u64 raw = read[j].template field<8 * bytes>(k);
                written.template put<8 * bytes>(
                    k, rounded<Rule, Real, Counted>(raw, request, rule, at * run + k, lost));
            }
            store_run_bytes(request.out + 16 * at, written);
        }
    }
    const u64 threads = (u64)gridDim.x * block_threads;
    for (u64 i = runs * run + (u64)blockIdx.x * block_threads + threadIdx.x; i < request.length; i += threads) {
        const u64 raw = load_run_bytes<bytes>(request.values + i * bytes, ReadOnly{}).template field<8 * bytes>(0);
        Run<bytes> written{};
        written.template put<8 * bytes>(0, rounded<Rule, Real, Counted>(raw, request, rule, i, lost));
        store_run_bytes(request.out + i * bytes, written);
    }
    if constexpr (Counted) lost.reduce_into(request.counts);
}

// Rounding of groups of 32 numbers to elements with a shared power of two (OCP Microscaling): it brings the largest
// number of a group into the binade of the largest element. A lane has 16 bytes, so that a warp has two groups of
// float64 or four of float32.
template <class Rule, class Real, bool Counted>
CPMS_DEVICE void round_groups(const RoundingRequest& request, const RoundingRule& rule) {
    constexpr int bytes = sizeof(Real), run = 16 / bytes;
    const bool aligned = is_aligned(request);
    const double most = value_of(rule.top) * (rule.steps > 0.0 ? rule.step : 1.0);
    const u64 threads = (u64)gridDim.x * block_threads;
    Lost lost;
    // Whole warps have a turn, or none of their lanes.
    for (u64 first = ((u64)blockIdx.x * block_threads + threadIdx.x) * run;
         first - threadIdx.x % 32 * run < request.length; first += threads * run) {
        u64 given[run];
        u32 largest = 0;  // upper half of the largest size, whose exponent field decides
        const bool wide = aligned && first + run <= request.length;
        Run<16> read{};
        if (wide) read = load_run_bytes<16>(request.values + first * bytes, ReadOnly{});
#pragma unroll
        for (int k = 0; k < run; ++k) {
            u64 raw = wide ? read.template field<8 * bytes>(k) : 0;
            if (!wide && first + k < request.length) {
                raw = load_run_bytes<bytes>(request.values + (first + k) * bytes, ReadOnly{})
                          .template field<8 * bytes>(0);
            }
            given[k] = widened<Real>(raw);
            const u64 size = given[k] & magnitude_bits;
            const u32 high = rule.nan_beyond && size > rule.limit ? 0x7FF00000u : (u32)(size >> 32);
            largest = high > largest ? high : largest;
        }
#pragma unroll
        for (int distance = 16 / run; distance > 0; distance /= 2) {
            const u32 other = __shfl_xor_sync(all_lanes, largest, distance);
            largest = other > largest ? other : largest;
        }
        const int wanted = (int)(largest >> 20) - 1023 - (int)rule.exponent;
        const int scale = wanted < -127 ? -127 : wanted > 127 ? 127 : wanted;
        Run<16> written{};
#pragma unroll
        for (int k = 0; k < run; ++k) {
            const double scaled = value_of(given[k]) * power_of_two(-scale);
            const double clamped = scaled < -most ? -most : scaled > most ? most : scaled;
            bool ignored = false;
            const u64 element = Rule::round(bits_of(clamped), rule, first + k, ignored);
            const u64 found = largest >= 0x7FF00000u ? nan_bits : bits_of(value_of(element) * power_of_two(scale));
            const u64 size = given[k] & magnitude_bits;
            if constexpr (Counted) lost.add(given[k], found, size > rule.limit && size < infinity_bits, first + k);
            if (wide) {
                written.template put<8 * bytes>(k, narrowed<Real>(found));
            } else if (first + k < request.length) {
                Run<bytes> one{};
                one.template put<8 * bytes>(0, narrowed<Real>(found));
                store_run_bytes(request.out + (first + k) * bytes, one);
            }
        }
        if (wide) store_run_bytes(request.out + first * bytes, written);
    }
    if constexpr (Counted) lost.reduce_into(request.counts);
}

// The largest finite size of an array, as the bits of a float64.
template <class Real>
CPMS_DEVICE void largest_size(const u8* values, u64 length, u64* largest) {
    constexpr int bytes = sizeof(Real);
    const u64 threads = (u64)gridDim.x * block_threads;
    u64 most = 0;
    for (u64 i = (u64)blockIdx.x * block_threads + threadIdx.x; i < length; i += threads) {
        const u64 raw = load_run_bytes<bytes>(values + i * bytes, ReadOnly{}).template field<8 * bytes>(0);
        const u64 size = widened<Real>(raw) & magnitude_bits;
        most = size < infinity_bits && size > most ? size : most;
    }
    most = warp_reduce(most, [](u64 a, u64 b) { return a > b ? a : b; });
    if (threadIdx.x % 32 == 0 && most) atomicMax(largest, most);
}

}  // namespace cpms

#define CPMS_ROUND_VALUES(NAME, ...)                                                               \
    CPMS_KERNEL(256, 4) NAME(const cpms::RoundingRequest request, const cpms::RoundingRule rule) { \
        cpms::round_values<__VA_ARGS__>(request, rule);                                            \
    }
#define CPMS_ROUND_GROUPS(NAME, ...)                                                               \
    CPMS_KERNEL(256, 4) NAME(const cpms::RoundingRequest request, const cpms::RoundingRule rule) { \
        cpms::round_groups<__VA_ARGS__>(request, rule);                                            \
    }
#define CPMS_LARGEST_SIZE(NAME, REAL)                                                                               \
    CPMS_KERNEL(256, 4) NAME(const unsigned char* values, unsigned long long length, unsigned long long* largest) { \
        cpms::largest_size<REAL>(values, length, largest);                                                          \
    }
