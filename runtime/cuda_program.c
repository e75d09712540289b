/* cuda_program.c - a source compiled by NVRTC: to a cubin, or to PTX for a GPU that it does not know yet.
 *
 *   #define N 4          the defines, then #line 1, so that the log counts lines as the user does
 *   #line 1
 *   <source text>
 *
 * Quoted headers are handed over by name. The folder of CUDA's own headers (<cuda_fp16.h>) is named only
 * where there is one. Compiling needs neither a GPU nor a driver. A kernel that is not extern "C" is asked
 * for as a name expression.
 */
#include "cache.h"
#include "cuda_device.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "interrupt.h"
#include "mem.h"

#define LANGUAGE "-std=c++17"
#define UNMARKED "-default-device" /* functions without __device__ are for the device */

#define STRESSED "-DREPRISE_PDL_STRESS=1" /* see prelude.cuh: release_next() delays */

static bool stressed(void) {
  const char *wish = getenv("REPRISE_PDL_STRESS");
  return wish && strcmp(wish, "1") == 0;
}

const char *rp_cuda_options(const char *arch) {
  (void)arch; /* a part of every key of its own */
  return stressed() ? LANGUAGE " " UNMARKED " " STRESSED : LANGUAGE " " UNMARKED;
}

rp_status rp_cuda_compiler_key(char *out, size_t room) {
  const char *file;
  struct stat info;
  RP_TRY(rp_nvrtc_file(&file));
  if (stat(file, &info) != 0) return rp_fail(RP_IO, "looking at NVRTC: %s: it cannot be examined", file);
  snprintf(out, room, "nvrtc %" PRIdMAX " %" PRIdMAX ".%09ld", (intmax_t)info.st_size,
           (intmax_t)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  return RP_OK;
}

/* ---- signals */

/* NVRTC puts handlers of its own in place of SIGINT's and SIGTERM's. Both are blocked in a thread while it
 * compiles, and ours are put back by the last of those that compile at a time. */
static struct {
  pthread_mutex_t gate; /* guards the rest */
  int inside;
  struct sigaction interrupt, terminate;
} shelter = {.gate = PTHREAD_MUTEX_INITIALIZER};

static void enter_shelter(sigset_t *mask) {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &both, mask);
  pthread_mutex_lock(&shelter.gate);
  if (shelter.inside++ == 0) {
    sigaction(SIGINT, NULL, &shelter.interrupt);
    sigaction(SIGTERM, NULL, &shelter.terminate);
  }
  pthread_mutex_unlock(&shelter.gate);
}

static void leave_shelter(const sigset_t *mask) {
  pthread_mutex_lock(&shelter.gate);
  if (--shelter.inside == 0) {
    sigaction(SIGINT, &shelter.interrupt, NULL);
    sigaction(SIGTERM, &shelter.terminate, NULL);
  }
  pthread_mutex_unlock(&shelter.gate);
  pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* ---- target */

typedef struct target {
  char option[48];
  bool ptx; /* the driver compiles on, when the image is loaded */
} target;

/* The newest architecture not above `number` that NVRTC knows, or 0; and the oldest of all. */
static rp_status newest_known(int number, int *out, int *oldest) {
  int count = 0;
  *out = *oldest = 0;
  rp_nvrtc.nvrtcGetNumSupportedArchs(&count);
  int *list = rp_alloc_zero((size_t)count, sizeof *list);
  if (!list) return RP_NOMEM;
  if (rp_nvrtc.nvrtcGetSupportedArchs(list) != NVRTC_SUCCESS) count = 0;
  for (int i = 0; i < count; i++) {
    if (list[i] <= number && list[i] > *out) *out = list[i];
    if (!*oldest || list[i] < *oldest) *oldest = list[i];
  }
  rp_free(list);
  return RP_OK;
}

static rp_status choose_target(const char *arch, target *out) {
  int known, oldest, end = 0, number = 0;
  if (sscanf(arch, "sm_%4d%n", &number, &end) != 1 ||
      (arch[end] && (arch[end + 1] || !strchr("af", arch[end]))))
    return rp_fail(RP_ARGUMENT, "compiling for \"%s\": expected an architecture like sm_90", arch);
  RP_TRY(newest_known(number, &known, &oldest));
  if (!known)
    return rp_fail(RP_UNSUPPORTED, "compiling for %s: NVRTC %d.%d: the oldest architecture it knows is sm_%d",
                   arch, rp_nvrtc.major, rp_nvrtc.minor, oldest);
  out->ptx = known != number;
  if (out->ptx) snprintf(out->option, sizeof out->option, "--gpu-architecture=compute_%d", known);
  else snprintf(out->option, sizeof out->option, "--gpu-architecture=%s", arch);
  return RP_OK;
}

/* ---- compiling */

typedef struct job {
  const char *arch;
  const rp_source *source;
  target target;
  char *text;           /* owned; the translation unit */
  const char **headers; /* owned; texts, then names */
  nvrtcProgram program;
} job;

static rp_status failed(const job *j, nvrtcResult result, const char *call) {
  return rp_fail(result == NVRTC_ERROR_OUT_OF_MEMORY ? RP_NOMEM : RP_COMPILE, "compiling %s for %s: %s: %s",
                 j->source->name, j->arch, call, rp_nvrtc.nvrtcGetErrorString(result));
}

#define NVRTC(j, entry, args)                                          \
  do {                                                                 \
    nvrtcResult result_ = rp_nvrtc.entry args;                         \
    if (result_ != NVRTC_SUCCESS) return failed((j), result_, #entry); \
  } while (0)

static rp_status join(job *j) {
  const rp_source *source = j->source;
  size_t bytes = strlen(source->text) + sizeof "#line 1\n";
  for (size_t i = 0; i < source->define_count; i++)
    bytes += strlen(source->defines[i].name) + strlen(source->defines[i].value) + sizeof "#define  \n";
  char *at = j->text = rp_alloc(bytes), *end = at + bytes;
  if (!at) return RP_NOMEM;
  for (size_t i = 0; i < source->define_count; i++)
    at += snprintf(at, (size_t)(end - at), "#define %s %s\n", source->defines[i].name,
                   source->defines[i].value);
  snprintf(at, (size_t)(end - at), "#line 1\n%s", source->text);
  return RP_OK;
}

static rp_status create(job *j) {
  const rp_source *source = j->source;
  size_t count = source->header_count;
  RP_TRY(join(j));
  j->headers = rp_alloc_zero(2 * count, sizeof *j->headers);
  if (!j->headers) return RP_NOMEM;
  for (size_t i = 0; i < count; i++) {
    j->headers[i] = source->headers[i].text;
    j->headers[count + i] = source->headers[i].name;
  }
  NVRTC(j, nvrtcCreateProgram,
        (&j->program, j->text, source->name, (int)count, j->headers, j->headers + count));
  for (size_t i = 0; i < source->kernel_count; i++)
    if (!source->kernels[i].extern_c) NVRTC(j, nvrtcAddNameExpression, (j->program, source->kernels[i].name));
  return RP_OK;
}

/* A header that was not found: where it was looked for is what the user needs, and NVRTC does not say. */
static const char *header_hint(const char *log, char *out, size_t room) {
  const char *looked_in, *folder = rp_nvrtc_headers(&looked_in);
  *out = 0;
  if (!strstr(log, "open source file")) return out;
  int used = snprintf(out, room, "headers were looked for ");
  if (folder) used += snprintf(out + used, room - (size_t)used, "in %s", folder);
  else
    used += snprintf(out + used, room - (size_t)used, "in no folder: cuda_fp16.h was found in none of %s",
                     looked_in);
  if ((size_t)used < room)
    snprintf(out + used, room - (size_t)used,
             "; quoted ones beside the including file and among the library's kernels\n");
  return out;
}

static rp_status report(const job *j) {
  size_t bytes = 0;
  char hint[3000];
  rp_nvrtc.nvrtcGetProgramLogSize(j->program, &bytes);
  char *log = rp_alloc_zero(bytes + 1, 1);
  if (!log) return RP_NOMEM;
  if (bytes) rp_nvrtc.nvrtcGetProgramLog(j->program, log);
  rp_status status = rp_fail(RP_COMPILE, "compiling %s for %s: NVRTC %d.%d:\n%s%s", j->source->name, j->arch,
                             rp_nvrtc.major, rp_nvrtc.minor, log, header_hint(log, hint, sizeof hint));
  rp_free(log);
  return status;
}

static rp_status compile(job *j) {
  char include[4200], standard[4200];
  const char *folder = rp_nvrtc_headers(NULL), *options[6] = {LANGUAGE, UNMARKED, j->target.option};
  int count = 3;
  if (stressed()) options[count++] = STRESSED;
  if (folder) { /* CUDA 13 keeps what cooperative_groups.h needs in a folder of its own */
    snprintf(include, sizeof include, "-I%s", folder), options[count++] = include;
    snprintf(standard, sizeof standard, "-I%s/cccl", folder), options[count++] = standard;
  }
  nvrtcResult result = rp_nvrtc.nvrtcCompileProgram(j->program, count, options);
  if (result == NVRTC_SUCCESS) return RP_OK;
  return result == NVRTC_ERROR_COMPILATION ? report(j) : failed(j, result, "nvrtcCompileProgram");
}

static rp_status take_bytes(const job *j, rp_image *out) {
  if (j->target.ptx) NVRTC(j, nvrtcGetPTXSize, (j->program, &out->size));
  else NVRTC(j, nvrtcGetCUBINSize, (j->program, &out->size));
  out->bytes = rp_alloc(out->size);
  if (!out->bytes) return RP_NOMEM;
  if (j->target.ptx) NVRTC(j, nvrtcGetPTX, (j->program, out->bytes));
  else NVRTC(j, nvrtcGetCUBIN, (j->program, out->bytes));
  return RP_OK;
}

static rp_status take_symbols(const job *j, rp_image *out) {
  out->symbols = rp_alloc_zero(j->source->kernel_count, sizeof *out->symbols);
  if (!out->symbols) return RP_NOMEM;
  for (size_t i = 0; i < j->source->kernel_count; i++) {
    const rp_signature *kernel = &j->source->kernels[i];
    const char *name = kernel->name;
    if (!kernel->extern_c) NVRTC(j, nvrtcGetLoweredName, (j->program, kernel->name, &name));
    out->symbols[i] = rp_copy_text(name);
    if (!out->symbols[i]) return RP_NOMEM;
    out->symbol_count++;
  }
  return RP_OK;
}

static rp_status run(job *j, rp_image *out) {
  RP_TRY(choose_target(j->arch, &j->target));
  RP_TRY(create(j));
  RP_TRY(compile(j));
  RP_TRY(take_bytes(j, out));
  return take_symbols(j, out);
}

rp_status rp_cuda_compile(const char *arch, const rp_source *source, rp_image *out) {
  job j = {.arch = arch, .source = source};
  sigset_t mask;
  *out = (rp_image){0};
  RP_TRY(rp_nvrtc_load());
  enter_shelter(&mask);
  rp_status status = run(&j, out);
  if (j.program) rp_nvrtc.nvrtcDestroyProgram(&j.program);
  leave_shelter(&mask); /* a Ctrl-C that waited comes now */
  rp_free(j.headers);
  rp_free(j.text);
  if (status == RP_OK && rp_interrupts)
    status = rp_fail(RP_INTERRUPTED, "interrupted while compiling %s", source->name);
  if (status != RP_OK) rp_image_free(out);
  return status;
}
