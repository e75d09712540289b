/* apart.c - see apart.h. */
#include "apart.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

struct rp_apart {
  rp_device *device; /* not counted: the pool of the blocks that hold this counts it */
  uintptr_t address;
  uint32_t count;
};

rp_status rp_apart_wanted(const rp_device *dev, bool *out) {
  const char *word = getenv("REPRISE_POOL");
  bool off = word && strcmp(word, "off") == 0;
  *out = (off || dev->guards) && dev->ops->take;
  if (off || !word || !*word || strcmp(word, "on") == 0) return RP_OK;
  return rp_fail(RP_ARGUMENT, "reading REPRISE_POOL: \"%s\": expected on or off", word);
}

rp_status rp_apart_take(rp_device *dev, size_t bytes, rp_apart **out) {
  rp_apart *apart = rp_alloc(sizeof *apart);
  if (!apart) return RP_NOMEM;
  *apart = (rp_apart){.device = dev, .count = 1};
  rp_status status = dev->ops->take(dev, bytes ? bytes : 1, &apart->address);
  if (status != RP_OK) return rp_free(apart), status;
  *out = apart;
  return RP_OK;
}

uintptr_t rp_apart_address(const rp_apart *apart) { return apart->address; }

rp_apart *rp_apart_retain(rp_apart *apart) {
  if (apart) apart->count++;
  return apart;
}

void rp_apart_release(rp_apart *apart) {
  if (!apart || --apart->count) return;
  apart->device->ops->give(apart->device, apart->address);
  rp_free(apart);
}
