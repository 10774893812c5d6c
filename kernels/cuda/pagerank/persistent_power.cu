// Power iteration in float64 by one persistent kernel: many sweeps a launch. It is the baseline of mixed-precision
// refinement. A sweep costs the gathers, and a read and a write of x.
#include "pagerank/node_passes.cuh"
#include "pagerank/ranks.cuh"
#include "pagerank/sweep_epilogues.cuh"
#include "pagerank/sweep_log.cuh"
#include "persistent/instantiate.cuh"

namespace cpms {

struct PowerRequest {
    double tolerance;  // of the change of x in `norm`
    u32 norm;          // 0, 1, 2: l1, l2, linf
    u32 max_sweeps;
};

// All threads of the grid call it with equal arguments. report_to is the buffer of SweepLog, where the sum is 0, and
// `ranks` is OneDevice or Ranks.
template <bool Personal, class Strategy, class RanksOrOne>
CPMS_DEVICE void persistent_power(Strategy& strategy, const Nodes& nodes, const PowerRequest& request,
                                  double* contributions, double* next_contributions, const Grid& grid,
                                  double* report_to, const RanksOrOne& ranks) {
    ranks.begin();
    const auto prefetch = [&] { strategy.template prefetch<double>(); };
    prefetch();
    __shared__ UniformInflow common;
    if (threadIdx.x == 0) common = UniformInflow::of(nodes);
    SweepLog report(report_to);
    GridReduce<2, 0> whole = apply_correction(nodes, contributions, nullptr);
    ranks.template all_reduce<u64>(whole, contributions, grid, [] {});
    double dangling = whole.value[1], change;
    do {
        const ResidualFactors by =
            in_uniform_registers<Strategy, double>(ResidualFactors::of(nodes, common, 1.0, dangling));
        ResidualEpilogue<false, Personal, false, Strategy::byte_degrees> end{nodes, by, contributions,
                                                                             next_contributions, nullptr};
        strategy.template sweep<double>((const u8*)contributions, end);
        GridReduce<5, 1> totals{{end.l1, end.squares, end.mass, end.sum_or_dangling, end.linf}};
        ranks.template all_reduce<u64>(totals, next_contributions, grid, prefetch);
        dangling = totals.value[3];
        change = norm_of(request.norm, totals.value[0], totals.value[1], totals.value[4]);
        report.record(totals.value[0], totals.value[1], totals.value[2], 0.0, totals.value[4]);
        double* const swapped = contributions;
        contributions = next_contributions;
        next_contributions = swapped;
    } while (change >= request.tolerance && report.count < request.max_sweeps);
    ranks.end();
    grid.end();
}

}  // namespace cpms

#define CPMS_POWER_PARAMETERS                                                                                     \
    const cpms::Nodes nodes, const cpms::PowerRequest request, double *contributions, double *next_contributions, \
        double *partials, unsigned *arrived, double *report
#define CPMS_RUN_POWER(STRATEGY, UNUSED, ...)                                                                       \
    cpms::persistent_power<__VA_ARGS__>(STRATEGY, nodes, request, contributions, next_contributions, grid, report, \
                                        cpms::OneDevice{});

#define CPMS_PERSISTENT_POWER(NAME, STRATEGY, ...) STRATEGY(CPMS_POWER_PARAMETERS, CPMS_RUN_POWER, NAME, __VA_ARGS__)

// The same over the rows of one rank of several.
#define CPMS_RANK_POWER_PARAMETERS CPMS_POWER_PARAMETERS, const __grid_constant__ cpms::Ranks ranks
#define CPMS_RUN_RANK_POWER(STRATEGY, UNUSED, ...)                                                                 \
    cpms::persistent_power<__VA_ARGS__>(STRATEGY, nodes, request, contributions, next_contributions, grid, report, \
                                        ranks);
#define CPMS_RANK_POWER(NAME, STRATEGY, ...) STRATEGY(CPMS_RANK_POWER_PARAMETERS, CPMS_RUN_RANK_POWER, NAME, __VA_ARGS__)
