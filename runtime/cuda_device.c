/* cuda_device.c - a GPU opened and closed: its context and its stream, waiting, its errors as sentences.
 *
 * A device retains the primary context, so it shares the GPU with other libraries of the process, and works
 * on one stream of its own. Several devices work side by side: nothing here is shared between them.
 *
 * Some errors (an illegal address in a kernel) leave the context unusable. They surface at whatever call
 * comes next, mostly the next wait; from then on every entry refuses with the same sentence.
 */
#include "cuda_device.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "interrupt.h"
#include "mem.h"

/* ---- errors */

/* Does the context stay unusable after this error? Two are numbers since older headers do not name them. */
static bool lasting(int result) {
  static const int list[] = {CUDA_ERROR_ECC_UNCORRECTABLE,
                             CUDA_ERROR_NVLINK_UNCORRECTABLE,
                             226 /* CONTAINED */,
                             CUDA_ERROR_ILLEGAL_ADDRESS,
                             CUDA_ERROR_LAUNCH_TIMEOUT,
                             CUDA_ERROR_CONTEXT_IS_DESTROYED,
                             CUDA_ERROR_ASSERT,
                             CUDA_ERROR_HARDWARE_STACK_ERROR,
                             CUDA_ERROR_ILLEGAL_INSTRUCTION,
                             CUDA_ERROR_MISALIGNED_ADDRESS,
                             CUDA_ERROR_INVALID_ADDRESS_SPACE,
                             CUDA_ERROR_INVALID_PC,
                             CUDA_ERROR_LAUNCH_FAILED,
                             721 /* TENSOR_MEMORY_LEAK */,
                             CUDA_ERROR_EXTERNAL_DEVICE};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i] == result) return true;
  return false;
}

/* The driver's name and text for an error; one that it does not know has its number. */
typedef struct words {
  const char *name, *text;
  char number[24];
} words;

static void describe_error(CUresult result, words *out) {
  snprintf(out->number, sizeof out->number, "error %d", (int)result);
  if (rp_cuda.cuGetErrorName(result, &out->name) != CUDA_SUCCESS) out->name = out->number;
  if (rp_cuda.cuGetErrorString(result, &out->text) != CUDA_SUCCESS)
    out->text = "the driver has no text for it";
}

static rp_status kind_of(CUresult result) {
  switch ((int)result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return RP_NOMEM;
    case CUDA_ERROR_NOT_SUPPORTED: return RP_UNSUPPORTED;
    case CUDA_ERROR_NOT_FOUND: return RP_MISSING;
    default: return RP_DEVICE;
  }
}

static rp_status faulted(const rp_cuda_device *dev) {
  char where[128] = "";
  if (dev->launches)
    snprintf(where, sizeof where, " (launched since the device was last idle: %" PRIu64 ", the latest %s)",
             dev->launches, dev->last);
  words w;
  describe_error(dev->fault, &w);
  return rp_fail(RP_DEVICE,
                 "kernel fault on %s: %s: %s%s: the driver serves this process no more, start it again",
                 dev->base.name, w.name, w.text, where);
}

rp_status rp_cuda_result(rp_cuda_device *dev, CUresult result, const char *call, const char *format, ...) {
  if (result == CUDA_SUCCESS) return RP_OK;
  if (dev->fault == CUDA_SUCCESS && lasting((int)result)) dev->fault = result;
  if (dev->fault != CUDA_SUCCESS) return faulted(dev);
  char object[400];
  words w;
  va_list args;
  describe_error(result, &w);
  va_start(args, format);
  vsnprintf(object, sizeof object, format, args);
  va_end(args);
  return rp_fail(kind_of(result), "%s%s%s%s on %s: %s: %s", call, *object ? "(" : "", object,
                 *object ? ")" : "", dev->base.name, w.name, w.text);
}

rp_status rp_cuda_enter(rp_cuda_device *dev) {
  if (dev->fault != CUDA_SUCCESS) return faulted(dev);
  RP_CU(dev, cuCtxSetCurrent, (dev->context), "%s", "");
  return RP_OK;
}

/* ---- waiting */

void rp_cuda_note_launch(rp_cuda_device *dev, const char *what) {
  dev->launches++;
  memccpy(dev->last, what, 0, sizeof dev->last - 1); /* its last byte stays 0 */
}

/* A decoder's steps take tens to hundreds of microseconds: those are spun for. Longer waits sleep. */
static void pause_after(unsigned turn) {
  enum { SPINS = 4000 }; /* some milliseconds of queries */
  static const struct timespec nap = {0, 50000};
  if (turn > SPINS) nanosleep(&nap, NULL);
}

rp_status rp_cuda_wait(rp_cuda_device *dev, CUevent event) {
  for (unsigned turn = 0;; turn++) {
    CUresult result = event ? rp_cuda.cuEventQuery(event) : rp_cuda.cuStreamQuery(dev->stream);
    if (result != CUDA_ERROR_NOT_READY)
      return rp_cuda_result(dev, result, event ? "cuEventQuery" : "cuStreamQuery", "%s", "");
    RP_TRY(rp_interrupt_check(dev->waiting));
    pause_after(turn);
  }
}

rp_status rp_cuda_poll(rp_device *base, bool *idle) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  CUresult result = rp_cuda.cuStreamQuery(dev->stream);
  *idle = result == CUDA_SUCCESS;
  return result == CUDA_ERROR_NOT_READY ? RP_OK : rp_cuda_result(dev, result, "cuStreamQuery", "%s", "");
}

rp_status rp_cuda_synchronize(rp_device *base) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  base->waits++;
  RP_TRY(rp_cuda_wait(dev, NULL));
  dev->launches = 0;
  return RP_OK;
}

/* ---- opening and closing */

static int count(void) {
  int devices = 0;
  if (rp_cuda_load() != RP_OK) return 0;
  CUresult result = rp_cuda.cuDeviceGetCount(&devices);
  if (result == CUDA_SUCCESS && devices > 0) return devices;
  words w;
  describe_error(result, &w);
  if (result == CUDA_SUCCESS) w.name = "no device", w.text = "CUDA_VISIBLE_DEVICES may hide them";
  rp_fail(RP_MISSING, "cuDeviceGetCount: libcuda.so.1: %s: %s", w.name, w.text);
  return 0;
}

static rp_status attribute(rp_cuda_device *dev, CUdevice_attribute which, uint32_t *out) {
  int value;
  RP_CU(dev, cuDeviceGetAttribute, (&value, which, dev->device), "attribute %d", (int)which);
  *out = (uint32_t)value;
  return RP_OK;
}

/* Reads what the device is and what it allows. */
static rp_status describe(rp_cuda_device *dev) {
  uint32_t major, minor, units, cooperates, maps;
  const struct {
    CUdevice_attribute which;
    uint32_t *out;
  } list[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &units},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &cooperates},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &maps},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &dev->most_shared},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &dev->most_grid.x},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &dev->most_grid.y},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &dev->most_grid.z},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &dev->most_block.x},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &dev->most_block.y},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &dev->most_block.z},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) RP_TRY(attribute(dev, list[i].which, list[i].out));
  RP_CU(dev, cuDeviceGetName, (dev->base.model, (int)sizeof dev->base.model, dev->device), "%s", "");
  if (!maps)
    return rp_fail(RP_UNSUPPORTED, "opening %s: %s: it cannot map memory at reserved addresses",
                   dev->base.name, dev->base.model);
  dev->capability = (int)(major * 10 + minor);
  dev->cooperates = cooperates;
  dev->base.units = (int)units;
  dev->base.simt = true;
  snprintf(dev->base.arch, sizeof dev->base.arch, "sm_%d", dev->capability);
  return RP_OK;
}

static rp_status start(rp_cuda_device *dev, int ordinal) {
  RP_CU(dev, cuDeviceGet, (&dev->device, ordinal), "%d", ordinal);
  RP_TRY(describe(dev));
  RP_CU(dev, cuDevicePrimaryCtxRetain, (&dev->context, dev->device), "%s", "");
  RP_TRY(rp_cuda_enter(dev));
  RP_CU(dev, cuStreamCreate, (&dev->stream, CU_STREAM_NON_BLOCKING), "%s", "");
  CUmemAllocationProp prop = rp_cuda_properties(dev);
  RP_CU(dev, cuMemGetAllocationGranularity, (&dev->base.granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "%s", "");
  return RP_OK;
}

/* Gives back all that the context holds. Errors are passed over: after a fault the driver refuses each of
 * these, and what matters is that the context's count falls. */
static void stop(rp_cuda_device *dev) {
  rp_cuda.cuCtxSetCurrent(dev->context);
  if (dev->stream) rp_cuda.cuStreamSynchronize(dev->stream);
  rp_cuda_stamp_stop(dev);
  rp_cuda_memory_stop(dev);
  if (dev->stream) rp_cuda.cuStreamDestroy(dev->stream);
  rp_cuda.cuCtxSetCurrent(NULL);
  rp_cuda.cuDevicePrimaryCtxRelease(dev->device);
}

static void cuda_free(rp_device *base) {
  rp_cuda_device *dev = rp_cuda_of(base);
  if (dev->context) stop(dev);
  rp_free(dev);
}

static rp_status cuda_open(int ordinal, rp_device **out) {
  RP_TRY(rp_cuda_load());
  rp_cuda_device *dev = rp_alloc_zero(1, sizeof *dev);
  if (!dev) return RP_NOMEM;
  dev->base.ops = &rp_cuda_ops;
  snprintf(dev->base.name, sizeof dev->base.name, "cuda:%d", ordinal);
  snprintf(dev->waiting, sizeof dev->waiting, "waiting for %s", dev->base.name);
  rp_status started = start(dev, ordinal);
  if (started != RP_OK) return cuda_free(&dev->base), started;
  *out = &dev->base;
  return RP_OK;
}

const rp_device_ops rp_cuda_ops = {
    .kind = "cuda",
    .count = count,
    .open = cuda_open,
    .free = cuda_free,
    .synchronize = rp_cuda_synchronize,
    .memory = rp_cuda_memory,
    .examine = rp_cuda_examine,
    .reserve = rp_cuda_reserve,
    .commit = rp_cuda_commit,
    .decommit = rp_cuda_decommit,
    .release = rp_cuda_release,
    .upload = rp_cuda_upload,
    .download = rp_cuda_download,
    .map = rp_cuda_map,
    .unmap = rp_cuda_unmap,
    .poll = rp_cuda_poll,
    .compiler_key = rp_cuda_compiler_key,
    .options = rp_cuda_options,
    .compile = rp_cuda_compile,
    .load = rp_cuda_module_load,
    .unload = rp_cuda_module_unload,
    .function = rp_cuda_function_get,
    .check = rp_cuda_check,
    .launch = rp_cuda_launch,
    .exec_build = rp_cuda_exec_build,
    .exec_set = rp_cuda_exec_set,
    .exec_launch = rp_cuda_exec_launch,
    .exec_free = rp_cuda_exec_free,
    .exec_bytes = rp_cuda_exec_bytes,
    .stamp = rp_cuda_stamp,
    .stamps = rp_cuda_stamps,
    .trim = rp_cuda_trim,
};
