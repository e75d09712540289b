/* program.h - one kernel source compiled for a device, and its kernels.
 *
 * Owner: a program owns its signatures and module and one count on its device; each kernel handed out holds one count
 * on the program. Kernels live inside the program's array.
 */
#ifndef RP_PROGRAM_H
#define RP_PROGRAM_H

#include "device.h"

typedef struct rp_program rp_program;

typedef struct rp_kernel {
  rp_program *program;
  const rp_signature *signature;
  void *function;
} rp_kernel;

struct rp_program {
  rp_device *device; /* counted */
  char *name;        /* file name, or "source" */
  rp_module *module;
  rp_signature *signatures;
  rp_kernel *kernels; /* one a signature */
  size_t kernel_count;
  uint32_t count;
};

typedef struct rp_program_spec {
  const char *file;         /* path, or NULL */
  const char *text;         /* source text, or NULL; exactly one of the two */
  const char *name;         /* for messages when text is given; NULL: "source" */
  const rp_define *defines; /* names are checked: identifiers; values: no newline */
  size_t define_count;
} rp_program_spec;

/* Reads the file, resolves quoted includes (beside the including file, then <home>/kernels), scans the signatures,
 * gets the image from the cache or the compiler, loads it. Allowed during capture.
 * Errors: RP_IO, RP_FORMAT (signature), RP_COMPILE with the whole log, RP_DEVICE. */
rp_status rp_program_compile(rp_device *dev, const rp_program_spec *spec, rp_program **out);
/* Would that need no compiler? What cannot be read would. */
bool rp_program_ready(rp_device *dev, const rp_program_spec *spec);
/* The same as far as an entry in the cache, which is compiled if it is missing; by any thread. */
rp_status rp_program_warm(rp_device *dev, const rp_program_spec *spec);
/* The same as far as a prebuilt entry in `folder`, for an architecture of a kind; no device is opened. */
rp_status rp_program_build(const char *kind, const char *arch, const rp_program_spec *spec,
                           const char *folder);
rp_program *rp_program_retain(rp_program *prog);
void rp_program_release(rp_program *prog);                                    /* takes NULL */
const rp_kernel *rp_program_kernel(const rp_program *prog, const char *name); /* NULL: none of that name */

#endif
