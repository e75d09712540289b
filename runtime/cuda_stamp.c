/* cuda_stamp.c - times on the GPU: events on the stream, between the launches they time.
 *
 * Events tell how far apart they are, not when. The host's clock, read when the last of a row has just ended,
 * says when that was, to some microseconds.
 */
#include <time.h>

#include "cuda_device.h"
#include "mem.h"

/* Events are made as rows get longer, and kept. */
static rp_status event_at(rp_cuda_device *dev, uint32_t index, CUevent *out) {
  if (!rp_grow(&dev->stamps, &dev->stamp_room, (size_t)index + 1, sizeof *dev->stamps)) return RP_NOMEM;
  for (; dev->stamp_count <= index; dev->stamp_count++)
    RP_CU(dev, cuEventCreate, (dev->stamps + dev->stamp_count, CU_EVENT_DEFAULT), "%s", "");
  *out = dev->stamps[index];
  return RP_OK;
}

rp_status rp_cuda_stamp(rp_device *base, uint32_t index) {
  rp_cuda_device *dev = rp_cuda_of(base);
  CUevent event;
  RP_TRY(rp_cuda_enter(dev));
  RP_TRY(event_at(dev, index, &event));
  RP_CU(dev, cuEventRecord, (event, dev->stream), "stamp %u", index);
  return RP_OK;
}

rp_status rp_cuda_stamps(rp_device *base, uint32_t count, double *seconds) {
  rp_cuda_device *dev = rp_cuda_of(base);
  struct timespec now;
  RP_TRY(rp_cuda_enter(dev));
  if (!count) return RP_OK;
  RP_TRY(rp_cuda_wait(dev, dev->stamps[count - 1]));
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (uint32_t i = 0; i < count; i++) {
    float before; /* the last one, milliseconds */
    RP_CU(dev, cuEventElapsedTime, (&before, dev->stamps[i], dev->stamps[count - 1]), "stamp %u", i);
    seconds[i] = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (double)before * 1e-3;
  }
  return RP_OK;
}

void rp_cuda_stamp_stop(rp_cuda_device *dev) {
  for (size_t i = 0; i < dev->stamp_count; i++) rp_cuda.cuEventDestroy(dev->stamps[i]);
  rp_free(dev->stamps);
}
