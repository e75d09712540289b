/* cuda_api.c - opens the NVIDIA driver and fills its table; says in one sentence why there is none.
 *
 * Two symbols are looked up by name, cuDriverGetVersion and cuGetProcAddress_v2. All others are asked for by
 * version through the latter, so that a newer driver still answers with the variant that was compiled
 * against.
 */
#include "cuda_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

rp_cuda_table rp_cuda;

static pthread_once_t opened = PTHREAD_ONCE_INIT, initialised = PTHREAD_ONCE_INIT;
static void *library; /* libcuda.so.1, never closed */
static rp_status open_status, init_status;
static char open_why[400], init_why[400];

static const struct entry {
  const char *name;
  int since;
  size_t at; /* in rp_cuda_table */
} entries[] = {
#define ENTRY(entry, since) {#entry, since, offsetof(rp_cuda_table, entry)},
    RP_CUDA_ENTRIES(ENTRY)
#undef ENTRY
};

static rp_status refuse(const char *why) {
  return rp_fail(RP_MISSING, "opening the NVIDIA driver: libcuda.so.1: %s", why);
}

static const char *const stub = "it is the toolkit's stub library, not a driver (CUDA_ERROR_STUB_LIBRARY)";

static rp_status read_version(void) {
  PFN_cuDriverGetVersion_v2020 get_version;
  void *symbol = dlsym(library, "cuDriverGetVersion");
  if (!symbol) return refuse("it has no cuDriverGetVersion");
  memcpy(&get_version, &symbol, sizeof symbol);
  CUresult result = get_version(&rp_cuda.version);
  if (result == CUDA_ERROR_STUB_LIBRARY) return refuse(stub);
  if (result != CUDA_SUCCESS)
    return rp_fail(RP_MISSING, "cuDriverGetVersion: libcuda.so.1: error %d", (int)result);
  if (rp_cuda.version >= RP_CUDA_OLDEST) return RP_OK;
  return rp_fail(
      RP_MISSING, "opening the NVIDIA driver: libcuda.so.1: it supports CUDA %d.%d, %d.%d or later is needed",
      rp_cuda.version / 1000, rp_cuda.version % 1000 / 10, RP_CUDA_OLDEST / 1000, RP_CUDA_OLDEST % 1000 / 10);
}

static rp_status fill(PFN_cuGetProcAddress_v12000 get_address) {
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    void *symbol = NULL;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult result =
        get_address(entries[i].name, &symbol, entries[i].since, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    if (result == CUDA_ERROR_STUB_LIBRARY) return refuse(stub);
    if (result != CUDA_SUCCESS || !symbol)
      return rp_fail(RP_MISSING,
                     "opening the NVIDIA driver: libcuda.so.1: it has no %s of CUDA %d.%d (error %d)",
                     entries[i].name, entries[i].since / 1000, entries[i].since % 1000 / 10, (int)result);
    memcpy((char *)&rp_cuda + entries[i].at, &symbol, sizeof symbol);
  }
  return RP_OK;
}

static rp_status open_driver(void) {
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror(); /* begins with the file's name */
    return rp_fail(RP_MISSING, "opening the NVIDIA driver: %s",
                   why ? why : "libcuda.so.1: it cannot be opened");
  }
  RP_TRY(read_version());
  PFN_cuGetProcAddress_v12000 get_address;
  void *symbol = dlsym(library, "cuGetProcAddress_v2");
  if (!symbol) return refuse("it has no cuGetProcAddress_v2");
  memcpy(&get_address, &symbol, sizeof symbol);
  return fill(get_address);
}

static rp_status init_driver(void) {
  CUresult result = rp_cuda.cuInit(0);
  if (result == CUDA_SUCCESS) return RP_OK;
  if (result == CUDA_ERROR_STUB_LIBRARY) return refuse(stub);
  const char *name = NULL, *text = NULL;
  rp_cuda.cuGetErrorName(result, &name);
  rp_cuda.cuGetErrorString(result, &text);
  return rp_fail(RP_MISSING, "cuInit: libcuda.so.1: %s: %s", name ? name : "unknown error",
                 text ? text : "no text");
}

/* The sentence is kept, since each thread that asks must get it. */
static void open_once(void) {
  open_status = open_driver();
  if (open_status != RP_OK) snprintf(open_why, sizeof open_why, "%s", rp_message());
}

static void init_once(void) {
  init_status = init_driver();
  if (init_status != RP_OK) snprintf(init_why, sizeof init_why, "%s", rp_message());
}

rp_status rp_cuda_load(void) {
  pthread_once(&opened, open_once);
  if (open_status != RP_OK) return rp_fail(open_status, "%s", open_why);
  pthread_once(&initialised, init_once);
  return init_status == RP_OK ? RP_OK : rp_fail(init_status, "%s", init_why);
}

int rp_cuda_driver_version(void) {
  pthread_once(&opened, open_once);
  return open_status == RP_OK ? rp_cuda.version : 0;
}
