/* cpu.h - what the files of the CPU device share: facts about this machine, and the host compiler as a child
 * process.
 *
 *   cpu_device.c -> cpu_team.c      runs kernels on threads
 *   cpu_device.c -> cpu_program.c -> cpu_compiler.c      makes and loads them
 *   both -> cpu_host.c      what processor, how many threads, how much memory
 */
#ifndef RP_CPU_H
#define RP_CPU_H

#include "device.h"

enum {
  RP_PATH = 4096,       /* bytes of a path with its NUL */
  RP_MOST_THREADS = 256 /* of the team, the caller included */
};

/* The target of -march: $REPRISE_CPU_ARCH, else "x86-64-v3" where the processor has it, else the baseline's
 * name. Errors: RP_ARGUMENT for a variable that cannot be a processor's name. */
rp_status rp_cpu_arch(char *out, size_t room);
void rp_cpu_model(char *out, size_t room); /* as /proc/cpuinfo names it */
/* $REPRISE_THREADS, else the processors that this process may use, by affinity and by its control group's
 * quota. */
rp_status rp_cpu_threads(int *out);
/* Bytes of memory: what can still be had, swap included, and what there is; both within the control group's
 * limits. */
void rp_cpu_memory(size_t *free_bytes, size_t *total_bytes);

void rp_cpu_examine(rp_fact_fn *tell, void *to); /* see device.h */

/* The path of the host's C++ compiler: $REPRISE_CXX, $CXX, c++ or g++. RP_MISSING, with the remedy, if there
 * is none. */
rp_status rp_compiler_find(char *out, size_t room);
/* Its path, size and time of change: what identifies it without opening it. */
rp_status rp_compiler_key(char *out, size_t room);
/* The flags for a target, as one text. Valid until this thread's next call. */
const char *rp_compiler_options(const char *arch);
/* Compiles `unit` to the shared object `object`, both names in `folder`, where the compiler also looks for
 * includes and keeps its temporary files. On failure the sentence carries all that the compiler wrote.
 * Errors: RP_COMPILE, RP_IO, RP_INTERRUPTED; `name` is the source's, for the sentence. */
rp_status rp_compiler_run(const char *compiler, const char *arch, const char *folder, const char *unit,
                          const char *object, const char *name);

/* The program slots of rp_cpu_ops; see device.h. */
rp_status rp_cpu_compile(const char *arch, const rp_source *source, rp_image *out);
rp_status rp_cpu_load(rp_device *dev, const rp_image *image, rp_module **out);
void rp_cpu_unload(rp_device *dev, rp_module *module);
rp_status rp_cpu_function(rp_device *dev, rp_module *module, const char *symbol,
                          const rp_signature *signature, void **out);

#endif
