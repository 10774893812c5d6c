// Types and enumerations of all kernels. cpms/backends/opencl/program.py builds the program with REAL, the type of
// stored values, and SUM, that of the sums over all nodes: float or double; with INDEX, uint or ulong, which numbers
// edges; with ADD, a function of atomic_add.cl; with WIDTH and PART, work-items and nodes of a reduction (norms.cl);
// with DOUBLES where either type is double, and REAL_IS_DOUBLE where that of values is.

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
