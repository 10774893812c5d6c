// The ranks of a solve on several GPUs of one host, for persistent kernels: the all-reduce over ranks, and the exchange
// of the values that other ranks read (one-sided, by symmetric memory as in NVSHMEM; persistent/peer_signals.cuh).
//
// A rank holds some rows; a vector is its own values and, past them, those that it reads of others. An exchange costs
// one remote write a value, at most 45 totals and one flag a pair of ranks, and no barrier of the grid: the block that
// is last to write signals for all. Ranks add up totals in the order of ranks, so all of them decide alike.
//
// A rank may be one exchange ahead of another, so consecutive exchanges use other vectors and other places of totals.
#pragma once
#include "pagerank/anderson_products.cuh"
#include "persistent/peer_signals.cuh"

namespace cpms {

// A vector of this rank, and where other ranks hold its values: an address for each rank (see
// PeerSignals::write_values).
struct SharedVector {
    const u8* memory;
    const u64* values_to;
};

// Whether an exchange has values: words of their size, or void for totals alone.
template <class Word>
constexpr bool has_values = true;
template <>
constexpr bool has_values<void> = false;

struct Ranks {
    static constexpr bool several = true;
    PeerSignals peers;
    SharedVector x[2], history;  // both arrays of contributions; the quantised residuals
    double* received;            // totals of each rank, in two places of product_count numbers, used in turn
    const u64* totals_to;        // where each other rank receives those of this one
    double* spent;             // nanoseconds in exchanges, with the waits for other ranks; exchanges of the history
    u32 halo_begin, halo_end;  // places of others' values in a vector, multiples of 64

    CPMS_DEVICE void begin() const {
        if (threadIdx.x == 0) state() = State{peers.counts[1], 0, 0.0};
        __syncthreads();
    }
    CPMS_DEVICE void end() const {
        if (blockIdx.x || threadIdx.x) return;
        peers.counts[1] = state().epoch;
        spent[0] = state().spent;
        spent[1] = (double)state().of_history;
    }

    // Totals over the nodes of all ranks, and the exchange of a vector's values, which the grid has written.
    template <class Word, int K, int L, class Overlapped>
    CPMS_DEVICE void all_reduce(GridReduce<K, L>& totals, const void* values, const Grid& grid,
                                Overlapped overlapped) const {
        totals.all_reduce(grid);
        exchange<Word>(totals, values, overlapped);
    }
    // The same for totals over this rank's grid. A barrier of the grid has passed since it wrote the values.
    template <class Word, int K, int L, class Overlapped>
    CPMS_DEVICE void exchange(GridReduce<K, L>& totals, const void* values, Overlapped overlapped) const {
        const double began = nanoseconds();
        const u32 now = state().epoch + 1;
        bool signals = blockIdx.x == 0;
        if constexpr (has_values<Word>) {
            send((const Word*)values);
            signals = peers.is_last_to_write();
        }
        if (signals && peers.is_other(threadIdx.x)) {
            double* const to = place((double*)totals_to[threadIdx.x], now);
#pragma unroll
            for (int q = 0; q < K; ++q) to[q] = totals.value[q];
            fence_system();
            store_signal((u32*)peers.signals_to[threadIdx.x], now);
        }
        overlapped();
        wait(now, began);
        const GridReduce<K, L> own = totals;
        for (u32 rank = 0; rank < peers.ranks; ++rank) {
            const double* const of_rank = received_of(rank, now);
#pragma unroll
            for (int q = 0; q < K; ++q) {
                const double one = rank == peers.rank ? own.value[q] : of_rank[q];
                totals.value[q] = rank ? GridReduce<K, L>::combine(q, totals.value[q], one) : one;
            }
        }
    }
    // The same for the mass lost: `whole`, which is equal on all ranks, less a part of each rank, which ranks add up.
    template <class Word>
    CPMS_DEVICE void exchange_lost(InnerState& inner, const void* values, double whole = 0.0) const {
        GridReduce<1, 0> part{{whole - inner.lost}};
        exchange<Word>(part, values, [] {});
        inner.lost = whole - part.value[0];
    }
    // Sums of products over ranks, in a block's shared memory.
    CPMS_DEVICE void exchange_products(double* products) const {
        const double began = nanoseconds();
        const u32 now = state().epoch + 1;
        if (blockIdx.x == 0) {
            for (u32 i = threadIdx.x; i < peers.ranks * product_count; i += blockDim.x) {
                const u32 rank = i / product_count, q = i % product_count;
                if (peers.is_other(rank)) place((double*)totals_to[rank], now)[q] = products[q];
            }
            __syncthreads();
            peers.signal_all(now);
        }
        wait(now, began);
        if (threadIdx.x < product_count) {
            const double own = products[threadIdx.x];
            double found = 0.0;
            for (u32 rank = 0; rank < peers.ranks; ++rank)
                found += rank == peers.rank ? own : received_of(rank, now)[threadIdx.x];
            products[threadIdx.x] = found;
        }
        __syncthreads();
    }
    // Copies others' values from one vector of the history to another.
    template <class Word>
    CPMS_DEVICE void copy_halo(const u8* from, u8* to) const {
        constexpr u32 each = 16 / sizeof(Word);
        const u32 threads = gridDim.x * blockDim.x;
        for (u32 i = halo_begin / each + blockIdx.x * blockDim.x + threadIdx.x; i < halo_end / each; i += threads)
            store_run_bytes<16>(to + (u64)i * 16, load_run_bytes<16>(from + (u64)i * 16, Default{}));
    }

  private:
    struct State {
        u32 epoch, of_history;  // exchanges so far, the same on all ranks; those of the history in this launch
        double spent;
    };
    static CPMS_DEVICE State& state() {
        __shared__ State of_block;
        return of_block;
    }
    static CPMS_DEVICE double* place(double* of_rank, u32 epoch) { return of_rank + epoch % 2 * product_count; }
    CPMS_DEVICE const double* received_of(u32 rank, u32 epoch) const {
        return place(received + 2 * product_count * rank, epoch);
    }
    template <class Word>
    CPMS_DEVICE void send(const Word* values) const {
        const SharedVector& vector = sizeof(Word) < 8 ? history : x[(const u8*)values != x[0].memory];
        if (sizeof(Word) < 8 && threadIdx.x == 0) ++state().of_history;
        peers.write_values(values, vector.values_to, Default{}, (const u8*)values - vector.memory);
    }
    CPMS_DEVICE void wait(u32 now, double began) const {
        peers.await_all(now);
        if (threadIdx.x) return;
        state().epoch = now;
        state().spent += nanoseconds() - began;
    }
};

}  // namespace cpms
