/* cuda_runtime.h - what it declares for kernels is in cuda.cuh. */
