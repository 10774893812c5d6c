// Atomic addition of floats: by the extension cl_ext_float_atomics where a device has it for this type; by an
// instruction in NVIDIA's compiler, which lacks the extension (doubles need compute capability 6.0); else by
// compare-and-swap on the bits, since OpenCL itself adds integers only.

#if defined(REAL_IS_DOUBLE) ? defined(__opencl_c_ext_fp64_global_atomic_add) \
                            : defined(__opencl_c_ext_fp32_global_atomic_add)

void add_atomically(volatile global real *place, real value) {
    atomic_fetch_add_explicit(
        (volatile global PASTE(atomic_, REAL) *)place, value, memory_order_relaxed, memory_scope_device);
}

#elif defined(__NV_CL_C_VERSION)

void add_atomically(volatile global real *place, real value) {
#ifdef REAL_IS_DOUBLE
    asm volatile("red.global.add.f64 [%0], %1;" : : "l"(place), "d"(value) : "memory");
#else
    asm volatile("red.global.add.f32 [%0], %1;" : : "l"(place), "f"(value) : "memory");
#endif
}

#else

#ifdef REAL_IS_DOUBLE
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
typedef ulong bits;
#define COMPARE_AND_SWAP atom_cmpxchg
#define AS_BITS as_ulong
#else
typedef uint bits;
#define COMPARE_AND_SWAP atomic_cmpxchg
#define AS_BITS as_uint
#endif

void add_atomically(volatile global real *place, real value) {
    volatile global bits *word = (volatile global bits *)place;
    bits expected, seen = *word;
    do {
        expected = seen;
        seen = COMPARE_AND_SWAP(word, expected, AS_BITS(PASTE(as_, REAL)(expected) + value));
    } while (seen != expected);
}

#endif

// For measuring the cost of atomicity: an addition that may lose concurrent ones, and no addition.
void add_plainly(volatile global real *place, real value) { *place += value; }

void add_nothing(volatile global real *place, real value) {}
