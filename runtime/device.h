/* device.h - the seam between the runtime and a kind of device.
 *
 *   core (pool, tensor, program, graph) --calls--> rp_device_* --table--> cpu_*.c | cuda_*.c
 *
 * device.c alone calls through the table. A back end fills rp_device_ops by name and embeds rp_device as the first
 * member of its own struct. Every operation is enqueued in one order (one stream) unless it says that it waits.
 * A device belongs to one thread and one Lua state.
 */
#ifndef RP_DEVICE_H
#define RP_DEVICE_H

#include "err.h"
#include "signature.h"
#include "types.h"

typedef struct rp_device rp_device;
typedef struct rp_module rp_module; /* the back end's: a loaded program image */
typedef struct rp_exec rp_exec;     /* the back end's: a graph it can run again */

typedef struct rp_header {
  char *name, *text;
} rp_header; /* name as the #include spells it */

typedef struct
    rp_source {     /* a translation unit, complete: nothing else is read from disk but <system> headers */
  const char *name; /* file name for messages and #line */
  const char *text;
  const rp_define *defines;
  size_t define_count;
  const rp_header *headers; /* quoted includes, resolved */
  size_t header_count;
  const rp_signature *kernels;
  size_t kernel_count;
} rp_source;

typedef struct rp_image { /* what a compiler made, ready to be stored and loaded */
  void *bytes;            /* rp_alloc'ed */
  size_t size;
  char **symbols; /* of kernel i, in the order of source->kernels: the name to look up; rp_alloc'ed */
  size_t symbol_count;
} rp_image;

typedef struct rp_launch {
  void *function; /* from the module */
  const rp_signature *signature;
  rp_dims grid, block, cluster; /* cluster.x == 0: none */
  uint32_t shared;              /* bytes of dynamic shared memory */
  bool cooperative;
  bool programmatic; /* in a chain: may begin before the node ahead has ended; it waits by itself (early.h) */
  void *const *args; /* args[i] points to the value of formal i; only read during the call */
  size_t bytes;      /* of memory that its tensors span: a hint how much work it is */
} rp_launch;

/* Takes a fact about the machine: its value, or NULL and why there is none. Texts are copied. */
typedef void rp_fact_fn(void *to, const char *fact, const char *value, const char *why);

typedef struct rp_device_ops {
  const char *kind; /* "cpu", "cuda" */

  /* Probing and opening. count: how many there are; 0 with a stored sentence why none. */
  int (*count)(void);
  rp_status (*open)(int ordinal, rp_device **out);
  void (*free)(rp_device *dev);             /* the last count is gone */
  rp_status (*synchronize)(rp_device *dev); /* waits; polls for Ctrl-C */
  rp_status (*memory)(rp_device *dev, size_t *free_bytes, size_t *total_bytes);

  /* What the kind needs of the machine, found or not, for `reprise --doctor`. Opens no device. */
  void (*examine)(rp_fact_fn *tell, void *to);

  /* Address ranges. commit and decommit take multiples of dev->granularity inside a reserved range; decommit takes
   * ranges that were committed by whole calls. commit may wait for the device. */
  rp_status (*reserve)(rp_device *dev, size_t bytes, uintptr_t *out);
  rp_status (*commit)(rp_device *dev, uintptr_t at, size_t bytes);
  rp_status (*decommit)(rp_device *dev, uintptr_t at, size_t bytes);
  void (*release)(rp_device *dev, uintptr_t at, size_t bytes);
  /* An allocation of its own, aligned like a block, whose end a memory checker knows. NULL: there is no such thing. */
  rp_status (*take)(rp_device *dev, size_t bytes, uintptr_t *out);
  void (*give)(rp_device *dev, uintptr_t at);

  /* Data. upload returns when `from` may be reused; download waits until the bytes are there. */
  rp_status (*upload)(rp_device *dev, uintptr_t to, const void *from, size_t bytes);
  rp_status (*download)(rp_device *dev, void *to, uintptr_t from, size_t bytes);

  /* Host memory that kernels can write and the host sees at once; `host` and `address` are the same bytes. */
  rp_status (*map)(rp_device *dev, size_t bytes, void **host, uintptr_t *address);
  void (*unmap)(rp_device *dev, void *host); /* waits for work in flight */
  /* Has all that was enqueued ended? A fault is found here too: it never sets a flag. */
  rp_status (*poll)(rp_device *dev, bool *idle);

  /* Programs. compile needs no open device: `arch` is dev->arch of the target ("sm_90", "x86-64-v3").
   * compiler_key: what identifies the compiler without opening it, for cache keys. */
  rp_status (*compiler_key)(char *out, size_t room);
  const char *(*options)(const char *arch); /* the flags, as one text, for cache keys */
  /* A folder in <home>/kernels that has what this device's compiler lacks for __global__ sources: `cuda.cuh`, which
   * stands before the source, and headers that sources name in <>. NULL: it lacks nothing. */
  const char *cuda_folder;
  rp_status (*compile)(const char *arch, const rp_source *source, rp_image *out);
  rp_status (*load)(rp_device *dev, const rp_image *image, rp_module **out);
  void (*unload)(rp_device *dev, rp_module *module); /* after the work that uses it */
  /* Looks up kernel `symbol`; checks parameter sizes against the signature where the device can tell. */
  rp_status (*function)(rp_device *dev, rp_module *module, const char *symbol, const rp_signature *signature,
                        void **out);
  /* Limits of a launch (block size, shared memory, grid), one sentence on failure; launch and exec_build call it too. */
  rp_status (*check)(rp_device *dev, const rp_launch *launch);
  rp_status (*launch)(rp_device *dev, const rp_launch *launch);

  /* Graphs. Without edges (NULL) the nodes are one chain in order. Everything pointed to is copied. */
  rp_status (*exec_build)(rp_device *dev, const rp_launch *nodes, size_t count, const rp_edge *edges,
                          size_t edge_count, rp_exec **out);
  rp_status (*exec_set)(rp_device *dev, rp_exec *exec, size_t node,
                        const rp_launch *launch); /* new argument values */
  rp_status (*exec_launch)(rp_device *dev, rp_exec *exec);
  void (*exec_free)(rp_device *dev, rp_exec *exec); /* waits for a run in flight */
  size_t (*exec_bytes)(const rp_exec *exec);        /* device memory it took; NULL: the device cannot tell */
  rp_status (*trim)(rp_device *dev); /* gives back what is kept of freed ones; NULL: nothing is */

  /* Times. stamp notes, as number `index` of a row, the time when all that was enqueued so far has ended; stamps waits and
   * gives the row's first `count` times, in seconds of CLOCK_MONOTONIC. NULL: an operation has ended when it returns. */
  rp_status (*stamp)(rp_device *dev, uint32_t index);
  rp_status (*stamps)(rp_device *dev, uint32_t count, double *seconds);
} rp_device_ops;

struct rp_device {
  const rp_device_ops *ops;
  char name[16];      /* "cpu", "cuda:0" */
  char model[96];     /* "NVIDIA H200" */
  char arch[32];      /* "sm_90", "x86-64-v3": in cache keys */
  bool simt;          /* warps have 32 lanes: a GPU, or a CPU that plays one */
  int units;          /* multiprocessors or threads: what a grid should fill */
  size_t granularity; /* bytes; of commit */
  uint32_t count;     /* owners; see rp_device_retain */
  bool closed;
  bool guards;              /* each tensor wants memory of its own (apart.h), where the device sees its end */
  struct rp_record *record; /* the open capture, or NULL; not owned */
  struct rp_history *history; /* the recording that launches belong to, or NULL; not owned */
  struct rp_pool *pool;       /* the default pool, or NULL; not owned: it clears this when it goes */
  struct rp_pool *pools;      /* all of them, linked; not owned */
  uint64_t waits;             /* times the host waited for all work, or for bytes it asked for */
  uint64_t downloaded;        /* bytes of tensors that the host asked for */
  uint64_t last_id;           /* of its blocks, of all pools: never used again */
  struct rp_program *builtin; /* kernels/copy.cu, once needed; owned, and does not count this device */
};

/* "cpu", "cuda", "cuda:1". NULL: the best present (REPRISE_DEVICE is the caller's business). */
rp_status rp_device_open(const char *name, rp_device **out);
int rp_device_count(const char *kind); /* how many of "cpu" or "cuda"; 0 stores why */
rp_device *rp_device_retain(rp_device *dev);
void rp_device_release(rp_device *dev);    /* takes NULL */
rp_status rp_device_close(rp_device *dev); /* waits; every later use fails with RP_CLOSED */
rp_status rp_device_usable(const rp_device *dev);
const rp_device_ops *rp_device_kind(const char *kind); /* NULL: not built in */

extern const rp_device_ops rp_cpu_ops;
#if RP_HAVE_CUDA
extern const rp_device_ops rp_cuda_ops;
#endif

#endif
