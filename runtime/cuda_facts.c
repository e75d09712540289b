/* cuda_facts.c - what the CUDA device found on this machine, for `reprise --doctor`. */
#include <stdio.h>

#include "cuda_device.h"
#include "mem.h"

static void tell_driver(rp_fact_fn *tell, void *to) {
  char text[64];
  if (rp_cuda_load() != RP_OK) return tell(to, "driver", NULL, rp_message());
  snprintf(text, sizeof text, "for CUDA %d.%d", rp_cuda.version / 1000, rp_cuda.version % 1000 / 10);
  tell(to, "driver", text, NULL);
}

static void tell_headers(rp_fact_fn *tell, void *to) {
  char why[5000];
  const char *looked_in, *folder = rp_nvrtc_headers(&looked_in);
  snprintf(why, sizeof why, "looking for CUDA's headers: cuda_fp16.h: found in none of %s", looked_in);
  tell(to, "headers", folder, folder ? NULL : why);
}

/* "sm_75 ... sm_121": the list ascends. */
static void tell_architectures(rp_fact_fn *tell, void *to) {
  char text[64];
  int count = 0;
  rp_nvrtc.nvrtcGetNumSupportedArchs(&count);
  int *list = rp_alloc_zero((size_t)count + 1, sizeof *list);
  bool known = list && count > 0 && rp_nvrtc.nvrtcGetSupportedArchs(list) == NVRTC_SUCCESS;
  if (known) snprintf(text, sizeof text, "sm_%d to sm_%d", list[0], list[count - 1]);
  rp_free(list);
  tell(to, "architectures", known ? text : NULL,
       known ? NULL : "asking NVRTC for its architectures: it names none");
}

void rp_cuda_examine(rp_fact_fn *tell, void *to) {
  char text[4300];
  const char *file;
  tell_driver(tell, to);
  if (rp_nvrtc_load() != RP_OK || rp_nvrtc_file(&file) != RP_OK) {
    tell(to, "NVRTC", NULL, rp_message());
  } else {
    snprintf(text, sizeof text, "%d.%d, %s", rp_nvrtc.major, rp_nvrtc.minor, file);
    tell(to, "NVRTC", text, NULL);
    tell_architectures(tell, to);
  }
  tell_headers(tell, to);
}
