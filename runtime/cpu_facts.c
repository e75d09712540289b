/* cpu_facts.c - what the CPU device found on this machine, for `reprise --doctor`. */
#include <stdio.h>
#include <unistd.h>

#include "cpu.h"

/* A value that a function wrote into `text`, or its sentence. */
static void tell_status(rp_fact_fn *tell, void *to, const char *fact, rp_status status, const char *text) {
  if (status == RP_OK) tell(to, fact, text, NULL);
  else tell(to, fact, NULL, rp_message());
}

static void tell_threads(rp_fact_fn *tell, void *to) {
  char text[64];
  int threads = 0;
  rp_status status = rp_cpu_threads(&threads);
  snprintf(text, sizeof text, "%d of %ld processors", threads, sysconf(_SC_NPROCESSORS_ONLN));
  tell_status(tell, to, "threads", status, text);
}

static void tell_memory(rp_fact_fn *tell, void *to) {
  char text[64];
  size_t free_bytes, total;
  rp_cpu_memory(&free_bytes, &total);
  snprintf(text, sizeof text, "%.1f of %.1f GiB free", (double)free_bytes / (1 << 30),
           (double)total / (1 << 30));
  tell(to, "memory", text, NULL);
}

void rp_cpu_examine(rp_fact_fn *tell, void *to) {
  char text[RP_PATH];
  rp_cpu_model(text, sizeof text);
  tell(to, "processor", text, NULL);
  rp_status status = rp_cpu_arch(text, sizeof text);
  tell_status(tell, to, "architecture", status, text);
  tell_threads(tell, to);
  tell_memory(tell, to);
  status = rp_compiler_find(text, sizeof text);
  tell_status(tell, to, "compiler", status, text);
}
