/* cuda_launch.c - images loaded, kernels looked up, launches checked and made.
 *
 * Limits are checked here rather than by the driver, whose answer to all of them is "invalid argument". A
 * block may use 48 KiB of shared memory at once; more only after the driver was told so, for the function, up
 * to the device's limit.
 */
#include "cuda_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

enum { OPEN_SHARED = 48 << 10 }; /* bytes that a block may use without more ado, static and dynamic */

struct rp_module {
  CUmodule handle;
  rp_cuda_function *functions; /* owned, linked */
};

/* ---- modules */

static rp_status load(rp_cuda_device *dev, const rp_image *image, CUmodule *out) {
  char log[2048] = "";
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  CUresult result = rp_cuda.cuModuleLoadDataEx(out, image->bytes, 2, names, values);
  rp_status loaded = rp_cuda_result(dev, result, "cuModuleLoadDataEx", "%zu bytes", image->size);
  log[sizeof log - 1] = 0;
  return loaded == RP_OK || !log[0] ? loaded : rp_fail(loaded, "%s: %s", rp_message(), log);
}

rp_status rp_cuda_module_load(rp_device *base, const rp_image *image, rp_module **out) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  rp_module *module = rp_alloc_zero(1, sizeof *module);
  if (!module) return RP_NOMEM;
  rp_status loaded = load(dev, image, &module->handle);
  if (loaded != RP_OK) return rp_free(module), loaded;
  *out = module;
  return RP_OK;
}

void rp_cuda_module_unload(rp_device *base, rp_module *module) {
  rp_cuda_device *dev = rp_cuda_of(base);
  rp_cuda.cuCtxSetCurrent(dev->context);
  rp_cuda.cuStreamSynchronize(dev->stream);
  rp_cuda.cuModuleUnload(module->handle);
  while (module->functions) {
    rp_cuda_function *function = module->functions;
    module->functions = function->next;
    rp_free(function);
  }
  rp_free(module);
}

/* ---- functions */

/* The compiled parameters must be those of the signature: launches read argument values by the latter. */
static rp_status check_parameters(rp_cuda_device *dev, CUfunction function, const rp_signature *signature) {
  size_t offset, size;
  for (size_t i = 0; i < signature->count; i++) {
    const rp_formal *formal = &signature->formals[i];
    CUresult result = rp_cuda.cuFuncGetParamInfo(function, i, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE)
      return rp_fail(RP_FORMAT, "kernel %s: its signature has %zu parameters, its compiled code %zu",
                     signature->name, signature->count, i);
    RP_TRY(rp_cuda_result(dev, result, "cuFuncGetParamInfo", "%s", signature->name));
    if (size != rp_formal_bytes(formal))
      return rp_fail(RP_FORMAT,
                     "kernel %s: parameter %zu (%s) has %zu bytes by its signature, %zu in its compiled code",
                     signature->name, i + 1, formal->name, rp_formal_bytes(formal), size);
  }
  if (rp_cuda.cuFuncGetParamInfo(function, signature->count, &offset, &size) == CUDA_SUCCESS)
    return rp_fail(RP_FORMAT, "kernel %s: its compiled code has more parameters than its signature (%zu)",
                   signature->name, signature->count);
  return RP_OK;
}

static rp_status read_attributes(rp_cuda_device *dev, rp_cuda_function *function, const char *name) {
  int fixed;
  CUfunction f = function->handle;
  RP_CU(dev, cuFuncGetAttribute, (&function->most_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f), "%s",
        name);
  RP_CU(dev, cuFuncGetAttribute, (&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f), "%s", name);
  function->fixed_shared = (uint32_t)fixed;
  function->open_shared = fixed < OPEN_SHARED ? (uint32_t)(OPEN_SHARED - fixed) : 0;
  return RP_OK;
}

/* The struct of a function handle: one each, however often it is looked up, since it mirrors the driver's
 * state. */
static rp_status adopt(rp_cuda_device *dev, rp_module *module, CUfunction handle, const char *name,
                       rp_cuda_function **out) {
  for (*out = module->functions; *out; *out = (*out)->next)
    if ((*out)->handle == handle) return RP_OK;
  rp_cuda_function *function = rp_alloc_zero(1, sizeof *function);
  if (!function) return RP_NOMEM;
  function->handle = handle;
  rp_status read = read_attributes(dev, function, name);
  if (read != RP_OK) return rp_free(function), read;
  function->next = module->functions;
  *out = module->functions = function;
  return RP_OK;
}

rp_status rp_cuda_function_get(rp_device *base, rp_module *module, const char *symbol,
                               const rp_signature *signature, void **out) {
  rp_cuda_device *dev = rp_cuda_of(base);
  rp_cuda_function *function;
  CUfunction handle;
  RP_TRY(rp_cuda_enter(dev));
  RP_CU(dev, cuModuleGetFunction, (&handle, module->handle, symbol), "%s", symbol);
  RP_TRY(check_parameters(dev, handle, signature));
  RP_TRY(adopt(dev, module, handle, signature->name, &function));
  *out = function;
  return RP_OK;
}

/* ---- limits */

static rp_status refuse(const rp_cuda_device *dev, const rp_launch *launch, const char *why) {
  return rp_fail(RP_ARGUMENT, "launch of %s on %s: %s", launch->signature->name, dev->base.name, why);
}

static uint64_t product(rp_dims d) { return (uint64_t)d.x * d.y * d.z; } /* of dimensions already checked */

static rp_status check_dims(const rp_cuda_device *dev, const rp_launch *launch, const char *what, rp_dims d,
                            rp_dims most) {
  char why[160];
  if (d.x >= 1 && d.y >= 1 && d.z >= 1 && d.x <= most.x && d.y <= most.y && d.z <= most.z) return RP_OK;
  snprintf(why, sizeof why,
           "%s of %" PRIu32 " x %" PRIu32 " x %" PRIu32 ": each must be at least 1, at most %" PRIu32
           " x %" PRIu32 " x %" PRIu32,
           what, d.x, d.y, d.z, most.x, most.y, most.z);
  return refuse(dev, launch, why);
}

static rp_status check_block(const rp_cuda_device *dev, const rp_launch *launch,
                             const rp_cuda_function *function) {
  char why[160];
  RP_TRY(check_dims(dev, launch, "block", launch->block, dev->most_block));
  uint64_t threads = product(launch->block);
  if (threads <= (uint64_t)function->most_threads) return RP_OK;
  snprintf(why, sizeof why, "block of %" PRIu64 " threads: this kernel runs with at most %d", threads,
           function->most_threads);
  return refuse(dev, launch, why);
}

static rp_status check_cluster(const rp_cuda_device *dev, const rp_launch *launch) {
  const rp_dims most = {16, 16, 16}, c = launch->cluster, g = launch->grid;
  if (!c.x) return RP_OK;
  if (dev->capability < 90) return refuse(dev, launch, "clusters need compute capability 9.0");
  RP_TRY(check_dims(dev, launch, "cluster", c, most));
  if (product(c) > 16) return refuse(dev, launch, "a cluster has at most 16 blocks");
  if (g.x % c.x || g.y % c.y || g.z % c.z)
    return refuse(dev, launch, "the grid is not a multiple of the cluster");
  return RP_OK;
}

/* All blocks of a cooperative launch must be on the device at once. */
static rp_status check_cooperative(rp_cuda_device *dev, const rp_launch *launch,
                                   const rp_cuda_function *function) {
  char why[160];
  int resident;
  if (!launch->cooperative) return RP_OK;
  if (!dev->cooperates) return refuse(dev, launch, "the device has no cooperative launches");
  RP_CU(dev, cuOccupancyMaxActiveBlocksPerMultiprocessor,
        (&resident, function->handle, (int)product(launch->block), launch->shared), "%s",
        launch->signature->name);
  uint64_t most = (uint64_t)resident * (uint64_t)dev->base.units;
  if (product(launch->grid) <= most) return RP_OK;
  snprintf(why, sizeof why,
           "%" PRIu64 " blocks in a cooperative launch: at most %" PRIu64 " of this size run at once",
           product(launch->grid), most);
  return refuse(dev, launch, why);
}

/* The driver is told, and is the judge: whether its figures count what it keeps of shared memory for itself
 * differs. */
static rp_status allow_shared(rp_cuda_device *dev, const rp_launch *launch, rp_cuda_function *function) {
  char why[160];
  const uint32_t want = launch->shared;
  if (want <= function->open_shared) return RP_OK;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (want <= dev->most_shared)
    result = rp_cuda.cuFuncSetAttribute(function->handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        (int)want);
  snprintf(why, sizeof why,
           "%" PRIu32 " bytes of dynamic shared memory: a block has at most %" PRIu32
           ", of which the kernel itself takes %" PRIu32,
           want, dev->most_shared, function->fixed_shared);
  if (result == CUDA_ERROR_INVALID_VALUE) return refuse(dev, launch, why);
  RP_TRY(rp_cuda_result(dev, result, "cuFuncSetAttribute", "%s, shared memory", launch->signature->name));
  function->open_shared = want;
  return RP_OK;
}

static rp_status allow_cluster(rp_cuda_device *dev, const rp_launch *launch, rp_cuda_function *function) {
  if (function->wide_clusters || !launch->cluster.x || product(launch->cluster) <= 8) return RP_OK;
  RP_CU(dev, cuFuncSetAttribute, (function->handle, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
        "%s, wide clusters", launch->signature->name);
  function->wide_clusters = true;
  return RP_OK;
}

/* The cooperative check is last: the driver computes occupancy from what it was told to allow. */
rp_status rp_cuda_prepare(rp_cuda_device *dev, const rp_launch *launch) {
  rp_cuda_function *function = launch->function;
  RP_TRY(check_dims(dev, launch, "grid", launch->grid, dev->most_grid));
  RP_TRY(check_block(dev, launch, function));
  RP_TRY(allow_shared(dev, launch, function));
  RP_TRY(check_cluster(dev, launch));
  RP_TRY(allow_cluster(dev, launch, function));
  return check_cooperative(dev, launch, function);
}

rp_status rp_cuda_check(rp_device *base, const rp_launch *launch) {
  RP_TRY(rp_cuda_enter(rp_cuda_of(base)));
  return rp_cuda_prepare(rp_cuda_of(base), launch);
}

/* ---- launching */

unsigned rp_cuda_attributes(const rp_launch *launch, CUlaunchAttribute out[RP_CUDA_ATTRIBUTES]) {
  unsigned count = 0;
  if (launch->cluster.x)
    out[count++] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                            .value.clusterDim = {launch->cluster.x, launch->cluster.y, launch->cluster.z}};
  if (launch->cooperative)
    out[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
  return count;
}

rp_status rp_cuda_launch(rp_device *base, const rp_launch *launch) {
  rp_cuda_device *dev = rp_cuda_of(base);
  const rp_cuda_function *function = launch->function;
  CUlaunchAttribute attributes[RP_CUDA_ATTRIBUTES];
  RP_TRY(rp_cuda_enter(dev));
  RP_TRY(rp_cuda_prepare(dev, launch));
  CUlaunchConfig config = {.gridDimX = launch->grid.x,
                           .gridDimY = launch->grid.y,
                           .gridDimZ = launch->grid.z,
                           .blockDimX = launch->block.x,
                           .blockDimY = launch->block.y,
                           .blockDimZ = launch->block.z,
                           .sharedMemBytes = launch->shared,
                           .hStream = dev->stream,
                           .attrs = attributes,
                           .numAttrs = rp_cuda_attributes(launch, attributes)};
  rp_cuda_note_launch(dev, launch->signature->name);
  RP_CU(dev, cuLaunchKernelEx, (&config, function->handle, (void **)(uintptr_t)launch->args, NULL), "%s",
        launch->signature->name);
  return RP_OK;
}
