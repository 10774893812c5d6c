// What we use of CUB, which comes with CuPy; on a host, stand-ins of our own.
#pragma once
#if defined(__CUDACC__)
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#else
#include "host/host_cub.hpp"
#endif
