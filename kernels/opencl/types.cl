// Types and enumerations of all kernels. The program is built with REAL, the type of stored values, and SUM, that of the
// sums over all nodes: float or double; with INDEX, uint or ulong, which numbers edges; and with DOUBLES where either
// type is double.

#ifdef DOUBLES
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef REAL real;
typedef SUM sum;
typedef INDEX index;

enum { L1, SQUARES, LARGEST, MASS, DANGLING, NUMBERS }; // of the vector that a sweep writes

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TO_REAL PASTE(convert_, REAL)
