/* cuda_memory.c - a GPU's memory: address ranges whose pages are mapped on demand, and data in and out.
 *
 *   reserve    cuMemAddressReserve
 *   commit     cuMemCreate, cuMemMap, cuMemSetAccess; the handle is let go: the mapping alone owns the memory
 *   decommit   cuMemUnmap, which frees it
 *
 * Data goes through a ring of pinned slots. So the caller's memory is free when an upload returns, and when
 * Ctrl-C ends a download early, the copies still to come end in slots and not in the caller's memory.
 */
#include "cuda_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

static const char *size_text(size_t bytes, char out[32]) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = (double)bytes;
  int unit = 0;
  for (; size >= 1024 && unit < 4; unit++) size /= 1024;
  snprintf(out, 32, "%.4g %s", size, units[unit]);
  return out;
}

rp_status rp_cuda_memory(rp_device *base, size_t *free_bytes, size_t *total_bytes) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  RP_CU(dev, cuMemGetInfo, (free_bytes, total_bytes), "%s", "");
  return RP_OK;
}

rp_status rp_cuda_reserve(rp_device *base, size_t bytes, uintptr_t *out) {
  rp_cuda_device *dev = rp_cuda_of(base);
  CUdeviceptr at;
  char size[32];
  RP_TRY(rp_cuda_enter(dev));
  RP_CU(dev, cuMemAddressReserve, (&at, bytes, 0, 0, 0), "%s", size_text(bytes, size));
  *out = (uintptr_t)at;
  return RP_OK;
}

CUmemAllocationProp rp_cuda_properties(const rp_cuda_device *dev) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev->device}};
}

/* Maps the handle's memory at `at` for this device to read and write. */
static rp_status map(rp_cuda_device *dev, uintptr_t at, size_t bytes, CUmemGenericAllocationHandle handle) {
  char size[32];
  CUmemAccessDesc access = {.location = rp_cuda_properties(dev).location,
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  RP_CU(dev, cuMemMap, (at, bytes, 0, handle, 0), "%s at %#" PRIxPTR, size_text(bytes, size), at);
  CUresult result = rp_cuda.cuMemSetAccess(at, bytes, &access, 1);
  if (result != CUDA_SUCCESS) rp_cuda.cuMemUnmap(at, bytes);
  return rp_cuda_result(dev, result, "cuMemSetAccess", "%s at %#" PRIxPTR, size_text(bytes, size), at);
}

/* The first span that does not lie below `at`. */
static size_t span_from(const rp_cuda_device *dev, uintptr_t at) {
  size_t low = 0, high = dev->span_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (dev->spans[middle].at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void span_add(rp_cuda_device *dev, uintptr_t at, size_t bytes) {
  size_t i = span_from(dev, at);
  memmove(dev->spans + i + 1, dev->spans + i, (dev->span_count - i) * sizeof *dev->spans);
  dev->spans[i] = (rp_cuda_span){at, bytes};
  dev->span_count++;
}

static void spans_remove(rp_cuda_device *dev, size_t first, size_t count) {
  if (!count) return;
  memmove(dev->spans + first, dev->spans + first + count,
          (dev->span_count - first - count) * sizeof *dev->spans);
  dev->span_count -= count;
}

rp_status rp_cuda_commit(rp_device *base, uintptr_t at, size_t bytes) {
  rp_cuda_device *dev = rp_cuda_of(base);
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop = rp_cuda_properties(dev);
  char size[32];
  RP_TRY(rp_cuda_enter(dev));
  if (!rp_grow(&dev->spans, &dev->span_room, dev->span_count + 1, sizeof *dev->spans)) return RP_NOMEM;
  RP_CU(dev, cuMemCreate, (&handle, bytes, &prop, 0), "%s", size_text(bytes, size));
  rp_status mapped = map(dev, at, bytes, handle);
  rp_cuda.cuMemRelease(handle);
  if (mapped == RP_OK) span_add(dev, at, bytes);
  return mapped;
}

/* How many spans from `first` on cover [at, at + bytes) exactly; 0 if they do not. */
static size_t spans_covering(const rp_cuda_device *dev, size_t first, uintptr_t at, size_t bytes) {
  size_t i = first;
  uintptr_t end = at + bytes;
  for (; i < dev->span_count && dev->spans[i].at == at && at < end; i++) at += dev->spans[i].bytes;
  return at == end ? i - first : 0;
}

/* The driver unmaps a range only as it was mapped: span by span. Waits, since work in flight may name it. */
rp_status rp_cuda_decommit(rp_device *base, uintptr_t at, size_t bytes) {
  rp_cuda_device *dev = rp_cuda_of(base);
  char size[32];
  size_t first = span_from(dev, at), count = spans_covering(dev, first, at, bytes), done = 0;
  if (!bytes) return RP_OK;
  if (!count)
    return rp_fail(RP_ARGUMENT, "decommit of %s at %#" PRIxPTR " on %s: not a range that whole commits made",
                   size_text(bytes, size), at, base->name);
  RP_TRY(rp_cuda_synchronize(base));
  CUresult result = CUDA_SUCCESS;
  for (; done < count && result == CUDA_SUCCESS; done += result == CUDA_SUCCESS)
    result = rp_cuda.cuMemUnmap(dev->spans[first + done].at, dev->spans[first + done].bytes);
  spans_remove(dev, first, done);
  return rp_cuda_result(dev, result, "cuMemUnmap", "%s at %#" PRIxPTR, size_text(bytes, size), at);
}

/* Unmaps what is still mapped in the range, since a device that has faulted refuses to decommit. */
void rp_cuda_release(rp_device *base, uintptr_t at, size_t bytes) {
  rp_cuda_device *dev = rp_cuda_of(base);
  rp_cuda.cuCtxSetCurrent(dev->context);
  rp_cuda.cuStreamSynchronize(dev->stream);
  size_t first = span_from(dev, at), end = span_from(dev, at + bytes);
  for (size_t i = first; i < end; i++) rp_cuda.cuMemUnmap(dev->spans[i].at, dev->spans[i].bytes);
  spans_remove(dev, first, end - first);
  rp_cuda.cuMemAddressFree(at, bytes);
}

static rp_status staging_open(rp_cuda_device *dev) {
  void *buffer;
  char size[32];
  const size_t bytes = (size_t)RP_CUDA_SLOTS * RP_CUDA_SLOT_BYTES;
  if (dev->staging) return RP_OK;
  for (unsigned i = 0; i < RP_CUDA_SLOTS; i++)
    if (!dev->staged[i]) RP_CU(dev, cuEventCreate, (&dev->staged[i], CU_EVENT_DISABLE_TIMING), "%s", "");
  RP_CU(dev, cuMemHostAlloc, (&buffer, bytes, 0), "%s", size_text(bytes, size));
  dev->staging = buffer;
  return RP_OK;
}

static unsigned char *slot_memory(const rp_cuda_device *dev, unsigned slot) {
  return dev->staging + (size_t)slot * RP_CUDA_SLOT_BYTES;
}

static unsigned slot_after(unsigned slot) { return (slot + 1) % RP_CUDA_SLOTS; }

static size_t piece(size_t left) { return left < RP_CUDA_SLOT_BYTES ? left : RP_CUDA_SLOT_BYTES; }

static rp_status upload_piece(rp_cuda_device *dev, uintptr_t to, const void *from, size_t bytes) {
  char size[32];
  unsigned slot = dev->slot;
  RP_TRY(rp_cuda_wait(dev, dev->staged[slot]));
  memcpy(slot_memory(dev, slot), from, bytes);
  RP_CU(dev, cuMemcpyHtoDAsync, (to, slot_memory(dev, slot), bytes, dev->stream), "%s to %#" PRIxPTR,
        size_text(bytes, size), to);
  RP_CU(dev, cuEventRecord, (dev->staged[slot], dev->stream), "%s", "");
  dev->slot = slot_after(slot);
  return RP_OK;
}

rp_status rp_cuda_upload(rp_device *base, uintptr_t to, const void *from, size_t bytes) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  RP_TRY(staging_open(dev));
  for (size_t done = 0; done < bytes; done += piece(bytes - done))
    RP_TRY(upload_piece(dev, to + done, (const char *)from + done, piece(bytes - done)));
  return RP_OK;
}

/* Enqueues a copy into the next slot; the stream orders it behind whatever used the slot before. */
static rp_status fetch(rp_cuda_device *dev, uintptr_t from, size_t bytes) {
  char size[32];
  unsigned slot = dev->slot;
  RP_CU(dev, cuMemcpyDtoHAsync, (slot_memory(dev, slot), from, bytes, dev->stream), "%s from %#" PRIxPTR,
        size_text(bytes, size), from);
  RP_CU(dev, cuEventRecord, (dev->staged[slot], dev->stream), "%s", "");
  dev->slot = slot_after(slot);
  return RP_OK;
}

/* Keeps all slots busy: the next pieces travel while one is copied out. */
static rp_status download_pieces(rp_cuda_device *dev, char *to, uintptr_t from, size_t bytes) {
  unsigned oldest = dev->slot, busy = 0;
  size_t asked = 0, done = 0;
  while (done < bytes) {
    for (; busy < RP_CUDA_SLOTS && asked < bytes; busy++) {
      size_t now = piece(bytes - asked);
      RP_TRY(fetch(dev, from + asked, now));
      asked += now;
    }
    RP_TRY(rp_cuda_wait(dev, dev->staged[oldest]));
    size_t now = piece(bytes - done);
    memcpy(to + done, slot_memory(dev, oldest), now);
    done += now;
    oldest = slot_after(oldest);
    busy--;
  }
  return RP_OK;
}

rp_status rp_cuda_download(rp_device *base, void *to, uintptr_t from, size_t bytes) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  RP_TRY(staging_open(dev));
  base->waits++;
  RP_TRY(download_pieces(dev, to, from, bytes));
  if (bytes) dev->launches = 0;
  return RP_OK;
}

void rp_cuda_memory_stop(rp_cuda_device *dev) {
  for (unsigned i = 0; i < RP_CUDA_SLOTS; i++)
    if (dev->staged[i]) rp_cuda.cuEventDestroy(dev->staged[i]);
  if (dev->staging) rp_cuda.cuMemFreeHost(dev->staging);
  for (size_t i = 0; i < dev->span_count; i++) rp_cuda.cuMemUnmap(dev->spans[i].at, dev->spans[i].bytes);
  rp_free(dev->spans);
}

/* ---- host memory that kernels write */

rp_status rp_cuda_map(rp_device *base, size_t bytes, void **host, uintptr_t *address) {
  rp_cuda_device *dev = rp_cuda_of(base);
  CUdeviceptr at;
  char size[32];
  RP_TRY(rp_cuda_enter(dev));
  RP_CU(dev, cuMemHostAlloc, (host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP), "%s",
        size_text(bytes, size));
  CUresult result = rp_cuda.cuMemHostGetDevicePointer(&at, *host, 0);
  if (result != CUDA_SUCCESS) rp_cuda.cuMemFreeHost(*host);
  *address = (uintptr_t)at;
  return rp_cuda_result(dev, result, "cuMemHostGetDevicePointer", "%s", "");
}

void rp_cuda_unmap(rp_device *base, void *host) {
  rp_cuda_device *dev = rp_cuda_of(base);
  rp_cuda.cuCtxSetCurrent(dev->context);
  rp_cuda.cuStreamSynchronize(dev->stream);
  rp_cuda.cuMemFreeHost(host);
}
