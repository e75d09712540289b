/* cuda_api.h - what this runtime calls of the NVIDIA driver and of NVRTC: one list of entry points for each.
 *
 * Neither library is linked. rp_cuda_load and rp_nvrtc_load open them when first needed, once a process, and
 * keep them; after that the tables rp_cuda and rp_nvrtc are only read. Both may be called from any thread.
 *
 * RP_CUDA_ENTRIES names an entry point by its base name and by the CUDA version that selects its variant, as
 * decimal 1000 * major + 10 * minor. The same number selects the C type (cudaTypedefs.h:
 * PFN_cuGraphAddNode_v12030), so that the function found and the type it is called through cannot drift
 * apart.
 */
#ifndef RP_CUDA_API_H
#define RP_CUDA_API_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <nvrtc.h>
#include <stdbool.h>
#include <stddef.h>

#include "err.h"

#if CUDA_VERSION < 12040
#error \
    "the CUDA device needs the headers of CUDA 12.4 or later (build with -DREPRISE_CUDA=OFF to leave it out)"
#endif

enum { RP_CUDA_OLDEST = 12040 }; /* of the driver */

#define RP_CUDA_ENTRIES(X)                             \
  X(cuInit, 2000)                                      \
  X(cuGetErrorName, 6000)                              \
  X(cuGetErrorString, 6000)                            \
  X(cuDeviceGetCount, 2000)                            \
  X(cuDeviceGet, 2000)                                 \
  X(cuDeviceGetName, 2000)                             \
  X(cuDeviceGetAttribute, 2000)                        \
  X(cuDevicePrimaryCtxRetain, 7000)                    \
  X(cuDevicePrimaryCtxRelease, 11000)                  \
  X(cuCtxSetCurrent, 4000)                             \
  X(cuStreamCreate, 2000)                              \
  X(cuStreamQuery, 2000)                               \
  X(cuStreamSynchronize, 2000)                         \
  X(cuStreamDestroy, 4000)                             \
  X(cuEventCreate, 2000)                               \
  X(cuEventRecord, 2000)                               \
  X(cuEventQuery, 2000)                                \
  X(cuEventElapsedTime, 2000)                          \
  X(cuEventDestroy, 4000)                              \
  X(cuMemGetInfo, 3020)                                \
  X(cuMemHostAlloc, 2020)                              \
  X(cuMemFreeHost, 2000)                               \
  X(cuMemHostGetDevicePointer, 3020)                   \
  X(cuMemcpyHtoDAsync, 3020)                           \
  X(cuMemcpyDtoHAsync, 3020)                           \
  X(cuMemGetAllocationGranularity, 10020)              \
  X(cuMemAddressReserve, 10020)                        \
  X(cuMemAddressFree, 10020)                           \
  X(cuMemCreate, 10020)                                \
  X(cuMemRelease, 10020)                               \
  X(cuMemMap, 10020)                                   \
  X(cuMemUnmap, 10020)                                 \
  X(cuMemSetAccess, 10020)                             \
  X(cuModuleLoadDataEx, 2010)                          \
  X(cuModuleUnload, 2000)                              \
  X(cuModuleGetFunction, 2000)                         \
  X(cuFuncGetAttribute, 2020)                          \
  X(cuFuncSetAttribute, 9000)                          \
  X(cuFuncGetParamInfo, 12040)                         \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050) \
  X(cuLaunchKernelEx, 11060)                           \
  X(cuGraphCreate, 10000)                              \
  X(cuGraphDestroy, 10000)                             \
  X(cuGraphAddKernelNode, 12000)                       \
  X(cuGraphAddDependencies, 12030)                     \
  X(cuGraphKernelNodeSetAttribute, 11000)              \
  X(cuGraphInstantiateWithParams, 12000)               \
  X(cuGraphUpload, 11010)                              \
  X(cuGraphLaunch, 10000)                              \
  X(cuGraphExecKernelNodeSetParams, 12000)             \
  X(cuGraphExecDestroy, 10000)                         \
  X(cuDeviceGraphMemTrim, 11040)

/* cuda.h renames some base names by macros (cuGraphAddKernelNode_v2); a member is then renamed wherever it is
 * used. */
typedef struct rp_cuda_table {
  int version; /* the newest CUDA that the driver supports: 13000 */
#define RP_CUDA_MEMBER(entry, since) PFN_##entry##_v##since entry;
  RP_CUDA_ENTRIES(RP_CUDA_MEMBER)
#undef RP_CUDA_MEMBER
} rp_cuda_table;

#define RP_NVRTC_ENTRIES(X)    \
  X(nvrtcVersion)              \
  X(nvrtcGetErrorString)       \
  X(nvrtcGetNumSupportedArchs) \
  X(nvrtcGetSupportedArchs)    \
  X(nvrtcCreateProgram)        \
  X(nvrtcDestroyProgram)       \
  X(nvrtcAddNameExpression)    \
  X(nvrtcCompileProgram)       \
  X(nvrtcGetProgramLogSize)    \
  X(nvrtcGetProgramLog)        \
  X(nvrtcGetLoweredName)       \
  X(nvrtcGetCUBINSize)         \
  X(nvrtcGetCUBIN)             \
  X(nvrtcGetPTXSize)           \
  X(nvrtcGetPTX)

typedef struct rp_nvrtc_table {
  int major, minor;
#define RP_NVRTC_MEMBER(entry) __typeof__(entry) *entry;
  RP_NVRTC_ENTRIES(RP_NVRTC_MEMBER)
#undef RP_NVRTC_MEMBER
} rp_nvrtc_table;

extern rp_cuda_table rp_cuda;   /* valid once rp_cuda_load has returned RP_OK */
extern rp_nvrtc_table rp_nvrtc; /* valid once rp_nvrtc_load has returned RP_OK */

/* Opens the driver and initialises it. RP_MISSING with the reason: no libcuda, the toolkit's stub, no GPU,
 * too old. */
rp_status rp_cuda_load(void);
/* The newest CUDA that the driver supports, 0 without a driver. Initialises nothing. */
int rp_cuda_driver_version(void);

/* The library file that rp_nvrtc_load opens, found without opening it. RP_MISSING with the places looked in.
 */
rp_status rp_nvrtc_file(const char **out);
rp_status rp_nvrtc_load(void);
/* The folder with cuda_fp16.h that fits that file, or NULL; *looked_in (may be NULL) gets the places, for
 * messages. */
const char *rp_nvrtc_headers(const char **looked_in);

#endif
