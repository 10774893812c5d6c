// *place += value, whatever else is added at the same time: by the device's atomic sum of floats where it has the
// extension cl_ext_float_atomics for this type, or by the instruction that NVIDIA's compiler passes on, which has no such
// extension (of doubles from compute capability 6.0 on); else, since OpenCL itself adds integers alone, by swapping bits.

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

// To measure what that costs: a sum that loses what others add at the same time, and none at all.
void add_plainly(volatile global real *place, real value) { *place += value; }

void add_nothing(volatile global real *place, real value) {}
