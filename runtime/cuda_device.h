/* cuda_device.h - what the files of the CUDA device share: the device, and driver errors made into sentences.
 *
 *   cuda_api, cuda_nvrtc   the two libraries           cuda_program   source -> image
 *   cuda_device            context, waiting, errors    cuda_launch    image -> module -> function -> launch
 *   cuda_memory            addresses, pages, data      cuda_graph     launches -> executable graph
 *   cuda_stamp             times
 */
#ifndef RP_CUDA_DEVICE_H
#define RP_CUDA_DEVICE_H

#include "cuda_api.h"
#include "device.h"

typedef struct rp_cuda_span {
  uintptr_t at;
  size_t bytes;
} rp_cuda_span;

enum { RP_CUDA_SLOTS = 4, RP_CUDA_SLOT_BYTES = 1 << 20 }; /* of the staging buffer */

typedef struct rp_cuda_device {
  rp_device base; /* first */
  CUdevice device;
  CUcontext context; /* the primary one, retained */
  CUstream stream;   /* the only one; non-blocking */
  int capability;    /* 90 for 9.0 */
  rp_dims most_grid, most_block;
  uint32_t most_shared; /* bytes a block can have after opting in, static and dynamic */
  bool cooperates;
  rp_cuda_span *spans; /* mapped memory, one entry a commit, by address; owned */
  size_t span_count, span_room;
  unsigned char *staging;        /* pinned, RP_CUDA_SLOTS slots; NULL until data first moves */
  CUevent staged[RP_CUDA_SLOTS]; /* recorded behind the copy that last used the slot */
  unsigned slot;                 /* the next to use */
  CUevent *stamps;               /* that tell the time; owned */
  size_t stamp_count, stamp_room;
  CUresult fault;    /* an error that the context does not recover from, else CUDA_SUCCESS */
  uint64_t launches; /* since the device was last idle */
  char last[48];     /* the latest of them */
  char waiting[32];  /* "waiting for cuda:0" */
} rp_cuda_device;

static inline rp_cuda_device *rp_cuda_of(rp_device *dev) { return (rp_cuda_device *)dev; }

/* Every entry begins here: makes the context current; a device that has faulted refuses. */
rp_status rp_cuda_enter(rp_cuda_device *dev);

/* RP_OK, or the sentence "CALL(OBJECT) on cuda:0: NAME: text"; the object (format) may be empty. */
rp_status rp_cuda_result(rp_cuda_device *dev, CUresult result, const char *call, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Calls an entry point, returns from the function if it fails: RP_CU(dev, cuMemMap, (at, ...), "%s", what) */
#define RP_CU(dev, entry, args, ...) RP_TRY(rp_cuda_result((dev), rp_cuda.entry args, #entry, __VA_ARGS__))

/* Waits until the event, or with NULL all work, is done; Ctrl-C ends the waiting, not the work. */
rp_status rp_cuda_wait(rp_cuda_device *dev, CUevent event);

rp_status rp_cuda_synchronize(rp_device *dev);
rp_status rp_cuda_poll(rp_device *dev, bool *idle);

void rp_cuda_note_launch(rp_cuda_device *dev, const char *what); /* for the sentence about a fault; copied */

void rp_cuda_examine(rp_fact_fn *tell, void *to); /* cuda_facts.c */

/* cuda_memory.c */
CUmemAllocationProp rp_cuda_properties(const rp_cuda_device *dev); /* of memory on this device */
rp_status rp_cuda_memory(rp_device *dev, size_t *free_bytes, size_t *total_bytes);
rp_status rp_cuda_reserve(rp_device *dev, size_t bytes, uintptr_t *out);
rp_status rp_cuda_commit(rp_device *dev, uintptr_t at, size_t bytes);
rp_status rp_cuda_decommit(rp_device *dev, uintptr_t at, size_t bytes);
void rp_cuda_release(rp_device *dev, uintptr_t at, size_t bytes);
rp_status rp_cuda_upload(rp_device *dev, uintptr_t to, const void *from, size_t bytes);
rp_status rp_cuda_map(rp_device *dev, size_t bytes, void **host, uintptr_t *address);
void rp_cuda_unmap(rp_device *dev, void *host);
rp_status rp_cuda_download(rp_device *dev, void *to, uintptr_t from, size_t bytes);
void rp_cuda_memory_stop(rp_cuda_device *dev); /* gives all of it back; the context is current */

/* cuda_stamp.c */
rp_status rp_cuda_stamp(rp_device *dev, uint32_t index);
rp_status rp_cuda_stamps(rp_device *dev, uint32_t count, double *seconds);
void rp_cuda_stamp_stop(rp_cuda_device *dev); /* gives the events back; the context is current */

/* cuda_program.c */
rp_status rp_cuda_compiler_key(char *out, size_t room);
const char *rp_cuda_options(const char *arch);
rp_status rp_cuda_compile(const char *arch, const rp_source *source, rp_image *out);

/* cuda_launch.c. rp_launch.function is a rp_cuda_function, owned by its module. */
typedef struct rp_cuda_function {
  struct rp_cuda_function *next; /* in the module */
  CUfunction handle;
  int most_threads;      /* a block can have, by the registers it uses */
  uint32_t fixed_shared; /* bytes, static */
  uint32_t open_shared;  /* bytes of dynamic shared memory that the driver has been told to allow */
  bool wide_clusters;    /* more than 8 blocks a cluster have been allowed */
} rp_cuda_function;

rp_status rp_cuda_module_load(rp_device *dev, const rp_image *image, rp_module **out);
void rp_cuda_module_unload(rp_device *dev, rp_module *module);
rp_status rp_cuda_function_get(rp_device *dev, rp_module *module, const char *symbol,
                               const rp_signature *signature, void **out);
rp_status rp_cuda_check(rp_device *dev, const rp_launch *launch);
rp_status rp_cuda_launch(rp_device *dev, const rp_launch *launch);
/* check, then tells the driver of more shared memory or wider clusters where the launch needs them. */
rp_status rp_cuda_prepare(rp_cuda_device *dev, const rp_launch *launch);

/* What a launch asks for beyond its dimensions, as the driver's attributes; returns how many. */
enum { RP_CUDA_ATTRIBUTES = 2 };
unsigned rp_cuda_attributes(const rp_launch *launch, CUlaunchAttribute out[RP_CUDA_ATTRIBUTES]);

/* cuda_graph.c */
rp_status rp_cuda_exec_build(rp_device *dev, const rp_launch *nodes, size_t count, const rp_edge *edges,
                             size_t edge_count, rp_exec **out);
rp_status rp_cuda_exec_set(rp_device *dev, rp_exec *exec, size_t node, const rp_launch *launch);
rp_status rp_cuda_exec_launch(rp_device *dev, rp_exec *exec);
void rp_cuda_exec_free(rp_device *dev, rp_exec *exec);
size_t rp_cuda_exec_bytes(const rp_exec *exec);
rp_status rp_cuda_trim(rp_device *base);

#endif
