// Emulation of CUDA kernels by C++ on a processor, for tests without a GPU: each CUDA thread is a fiber (user-level
// context), and one fiber runs at a time until it meets a barrier or a warp operation. Blocks run one after the other,
// so a kernel with grid barriers has one block. It finds wrong indices, wrong barriers and deadlocks, but no races. A
// context switch is a jump without a system call.
#pragma once
#include <sched.h>
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

// Optimised more than kernels are: a launch spends more on its switches of fibers than on its arithmetic.
#pragma GCC push_options
#pragma GCC optimize("O2")

#define __global__
// Kernel parameters that are read where they lie, without a copy.
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static

namespace host {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

struct Barrier {
    unsigned waiting = 0, generation = 0;
};

struct Warp {
    Barrier barrier;
    unsigned long long slot[2][32];
    unsigned turn[32] = {}, alive = 0;
};

struct Fiber {
    ucontext_t start;
    jmp_buf place;  // jumps, unlike contexts, make no system calls
    char* stack;  // is kept until the process ends
    Index thread;
    bool started = false, done = false;
    // The barrier that it waits at, if any: its generation then, and for how many.
    const Barrier* barrier = nullptr;
    unsigned generation = 0;
    const unsigned* needed = nullptr;

    bool waits() const { return barrier && barrier->generation == generation && barrier->waiting != *needed; }
};

inline constexpr std::size_t stack_bytes = 1 << 17;
inline constexpr unsigned most_threads = 1024;
// Plain arrays, for speed without an optimiser; and a context points into itself, so fibers must not move.
inline Fiber fibers[most_threads];
inline Warp warps[most_threads / 32];
inline Barrier everyone;
inline unsigned alive = 0;
inline Fiber* now = nullptr;
inline jmp_buf scheduler;
inline Index block_index, block_size, grid_size;
inline void (*body)(void*) = nullptr;
inline void* body_data = nullptr;

[[noreturn]] inline void fail(const char* what) {
    std::fprintf(stderr, "CUDA kernel on the host: %s\n", what);
    std::abort();
}

inline void pass() {
    if (!_setjmp(now->place)) _longjmp(scheduler, 1);
}

// Yields in a loop that waits for another process.
inline bool process_awaited = false;
inline void pass_to_processes() {
    process_awaited = true;
    sched_yield();
    pass();
}

inline void resume() {
    if (_setjmp(scheduler)) return;
    if (now->started) _longjmp(now->place, 1);
    now->started = true;
    setcontext(&now->start);
}

inline void wait_at(Barrier& barrier, const unsigned& needed) {
    const unsigned mine = barrier.generation;
    ++barrier.waiting;
    now->barrier = &barrier;
    now->generation = mine;
    now->needed = &needed;
    while (barrier.generation == mine) {
        if (barrier.waiting == needed) {
            barrier.waiting = 0;
            ++barrier.generation;
            break;
        }
        pass();
    }
    now->barrier = nullptr;
}

inline Warp& warp() { return warps[now->thread.x / 32]; }
inline unsigned lane() { return now->thread.x % 32; }

inline void wait_for_warp() {
    // A lane that has left would hang a warp operation on a device.
    if (warp().alive != 32) fail("warp operation after a lane has left");
    wait_at(warp().barrier, warp().alive);
}

template <class Value>
const unsigned long long* exchange(Value value) {
    Warp& w = warp();
    const unsigned side = w.turn[lane()]++ % 2;
    std::memset(&w.slot[side][lane()], 0, 8);
    std::memcpy(&w.slot[side][lane()], &value, sizeof value);
    wait_for_warp();
    return w.slot[side];
}

template <class Value>
Value from_lane(Value value, unsigned source) {
    const unsigned long long* slots = exchange(value);
    Value other;
    std::memcpy(&other, &slots[source], sizeof other);
    return other;
}

inline void enter() {
    body(body_data);
    now->done = true;
    --alive;
    --warp().alive;
    pass();
}

inline void run_block(unsigned threads) {
    if (threads > most_threads) fail("a block of more than 1024 threads");
    const unsigned warp_count = (threads + 31) / 32;
    for (unsigned w = 0; w < warp_count; ++w) warps[w] = Warp{};
    everyone = Barrier{};
    alive = threads;
    for (unsigned t = 0; t < threads; ++t) {
        Fiber& fiber = fibers[t];
        if (!fiber.stack) {
            fiber.stack = new char[stack_bytes];
            getcontext(&fiber.start);
        }
        fiber.thread = Index{t, 0, 0};
        fiber.started = fiber.done = false;
        fiber.barrier = nullptr;
        ++warps[t / 32].alive;
        fiber.start.uc_stack.ss_sp = fiber.stack;
        // Stacks end at different lines of a page: else all of them would share a few sets of the cache.
        fiber.start.uc_stack.ss_size = stack_bytes - t % 61 * 64;
        fiber.start.uc_link = nullptr;
        makecontext(&fiber.start, enter, 0);
    }
    // A few passes over all fibers without progress are a deadlock.
    for (unsigned idle = 0; alive > 0; ++idle) {
        const unsigned before = alive, generation = everyone.generation;
        unsigned warp_generations = 0, after_generations = 0;
        for (unsigned w = 0; w < warp_count; ++w) warp_generations += warps[w].barrier.generation;
        for (Fiber* fiber = fibers; fiber < fibers + threads; ++fiber) {
            now = fiber;
            if (!fiber->done && !fiber->waits()) resume();
        }
        for (unsigned w = 0; w < warp_count; ++w) after_generations += warps[w].barrier.generation;
        if (alive != before || everyone.generation != generation || after_generations != warp_generations) idle = 0;
        if (process_awaited) idle = 0;
        process_awaited = false;
        if (idle > 4) fail("deadlock: some threads wait where others never come");
    }
}

template <class... A, std::size_t... I>
void launch(void (*kernel)(A...), unsigned blocks, unsigned threads, void** arguments, std::index_sequence<I...>) {
    auto call = [&] { kernel(*static_cast<A*>(arguments[I])...); };
    body = [](void* data) { (*static_cast<decltype(call)*>(data))(); };
    body_data = &call;
    grid_size = Index{blocks, 1, 1};
    block_size = Index{threads, 1, 1};
    for (unsigned b = 0; b < blocks; ++b) {
        block_index = Index{b, 0, 0};
        run_block(threads);
    }
}

template <class... A>
void launch(void (*kernel)(A...), unsigned blocks, unsigned threads, void** arguments) {
    launch(kernel, blocks, threads, arguments, std::index_sequence_for<A...>{});
}

}  // namespace host

#define threadIdx (host::now->thread)
#define blockIdx (host::block_index)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)

inline void __syncthreads() { host::wait_at(host::everyone, host::alive); }
// Two words in turn: who comes first to a barrier clears its word, whose readers have all left.
inline int __syncthreads_count(int predicate) {
    static int count[2];
    int& mine = count[host::everyone.generation % 2];
    if (host::everyone.waiting == 0) mine = 0;
    mine += predicate != 0;
    __syncthreads();
    return mine;
}
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline void __syncwarp() { host::wait_for_warp(); }
inline void __threadfence() {}

inline unsigned __ballot_sync(unsigned, int predicate) {
    const unsigned long long* slots = host::exchange(predicate != 0);
    unsigned votes = 0;
    for (unsigned l = 0; l < 32; ++l) votes |= (slots[l] ? 1u : 0u) << l;
    return votes;
}
template <class Value>
unsigned __match_any_sync(unsigned, Value value) {
    const unsigned long long* slots = host::exchange(value);
    unsigned alike = 0;
    for (unsigned l = 0; l < 32; ++l) alike |= (slots[l] == slots[host::lane()] ? 1u : 0u) << l;
    return alike;
}
template <class Value>
Value __shfl_sync(unsigned, Value value, int source) {
    return host::from_lane(value, source % 32);
}
template <class Value>
Value __shfl_xor_sync(unsigned, Value value, int mask) {
    return host::from_lane(value, host::lane() ^ mask);
}
template <class Value>
Value __shfl_up_sync(unsigned, Value value, unsigned distance) {
    const unsigned lane = host::lane();
    return host::from_lane(value, lane >= distance ? lane - distance : lane);
}

inline int __popc(unsigned word) { return __builtin_popcount(word); }
inline int __ffs(int word) { return __builtin_ffs(word); }

inline unsigned atomicInc(unsigned* at, unsigned limit) {
    const unsigned old = *at;
    *at = old >= limit ? 0 : old + 1;
    return old;
}
template <class Real>
Real atomicAdd(Real* at, Real value) {
    const Real old = *at;
    *at += value;
    return old;
}
inline unsigned long long atomicMax(unsigned long long* at, unsigned long long other) {
    const unsigned long long old = *at;
    if (other > old) *at = other;
    return old;
}
inline unsigned atomicOr(unsigned* at, unsigned bits) {
    const unsigned old = *at;
    *at |= bits;
    return old;
}

using std::fabs;
using std::fma;
using std::ldexp;

#pragma GCC pop_options
