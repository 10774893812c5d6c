// CUB's block primitives (block reduce, scan, exchange), whose headers come with CuPy. Tests on a processor use the
// stand-ins of host/host_cub.hpp.
#pragma once
#if defined(__CUDACC__)
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#else
#include "host/host_cub.hpp"
#endif
