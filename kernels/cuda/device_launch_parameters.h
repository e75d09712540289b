/* device_launch_parameters.h - what it declares for kernels is in cuda.cuh. */
