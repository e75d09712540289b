/* signals.c - see signals.h. */
#include "signals.h"

#include <time.h>

#include "interrupt.h"
#include "mem.h"

enum { STEP_BITS = 16, VALUE_BITS = 32, POLL_NS = 100000 };

rp_status rp_signal_new(rp_pool *pool, uint32_t records, rp_signal **out) {
  if (records < 1 || records > UINT16_MAX)
    return rp_fail(RP_ARGUMENT, "making a signal of %u records: 1 to 65535 are possible", records);
  rp_signal *s = rp_alloc_zero(1, sizeof *s);
  if (!s) return RP_NOMEM;
  *s = (rp_signal){.records = records,
                   .count = 1,
                   .words = {.dtype = RP_I64, .rank = 1, .shape = {1 + (int64_t)records}, .stride = {1}}};
  rp_status status = rp_pool_mapped(pool, (1 + (size_t)records) * sizeof *s->host, &s->words.block);
  if (status != RP_OK) return rp_free(s), status;
  s->host = s->words.block->host;
  *out = s;
  return RP_OK;
}

rp_signal *rp_signal_retain(rp_signal *s) {
  s->count++;
  return s;
}

void rp_signal_release(rp_signal *s) {
  if (!s || --s->count) return;
  rp_tensor_close(&s->words);
  rp_free(s);
}

/* When the epochs begin anew, words of the first ones must not be there any more. */
uint32_t rp_signal_reset(rp_signal *s) {
  if (s->epoch == UINT16_MAX)
    for (uint32_t i = 0; i <= s->records; i++) s->host[i] = 0;
  s->epoch = s->epoch == UINT16_MAX ? 1 : s->epoch + 1;
  return s->epoch;
}

static bool of_epoch(const rp_signal *s, uint64_t word) {
  return word >> (STEP_BITS + VALUE_BITS) == s->epoch;
}
static uint32_t step_of(uint64_t word) { return word >> VALUE_BITS & UINT16_MAX; }

uint32_t rp_signal_step(const rp_signal *s, bool *done) {
  uint64_t word = s->host[0];
  *done = of_epoch(s, word) && (word & UINT32_MAX);
  return of_epoch(s, word) ? step_of(word) : 0;
}

bool rp_signal_read(const rp_signal *s, uint32_t index, int32_t *value) {
  uint64_t word = s->host[1 + index % s->records];
  if (!of_epoch(s, word) || step_of(word) != (index & UINT16_MAX)) return false;
  *value = (int32_t)(uint32_t)word;
  return true;
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

rp_status rp_signal_wait(const rp_signal *s, uint32_t index, int32_t *value, bool *there) {
  rp_device *dev = rp_tensor_device(&s->words);
  bool idle = false;
  for (int64_t asked = 0; !(*there = rp_signal_read(s, index, value)) && !idle;) {
    if (now_ns() - asked < POLL_NS) continue;
    RP_TRY(rp_interrupt_check("waiting for a token"));
    RP_TRY(dev->ops->poll(dev, &idle));
    asked = now_ns();
  }
  if (!*there) *there = rp_signal_read(s, index, value); /* between the last look and the device's answer */
  return RP_OK;
}
