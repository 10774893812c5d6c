// y = slope * x + constant for one number in device memory, so that a sweep by library calls needs no round trip to
// the host.
#include "base/words.cuh"

#define CPMS_AFFINE(NAME, REAL)                                                      \
    CPMS_KERNEL(256) NAME(const double* x, double slope, double constant, REAL* y) { \
        if (threadIdx.x == 0) *y = (REAL)(slope * *x + constant);                    \
    }
