/* cache.h - compiled kernels on disk, found by a hash of everything that went into them.
 *
 *   <home>/prebuilt/KEY          read-only, shipped beside the program; KEY without the compiler
 *   <cache>/KEY                  the user's ($REPRISE_CACHE, else $XDG_CACHE_HOME/reprise, else ~/.cache/reprise);
 *                                KEY with the compiler's identity
 *   entry = "RPRISE01" | xxh3-128 of the rest, seeded by KEY | symbol count | symbols, NUL-ended | size | image
 *
 * Entries are checked whole before use; a bad one is rebuilt and never loaded. A folder is refused unless its owner is
 * we or root and no others may write. Writers use a temporary file in the same folder and rename.
 */
#ifndef RP_CACHE_H
#define RP_CACHE_H

#include "device.h"

/* Where images came from. compiled: runs of a compiler; rebuilt: those of them that replaced a bad entry. */
typedef struct rp_cache_counts {
  uint64_t prebuilt, hits, compiled, rebuilt;
} rp_cache_counts;

/* Where kernels/ and prebuilt/ lie; copied. Set once by the front end before the first compile. */
rp_status rp_home_set(const char *path);
const char *rp_home(void); /* never NULL; "." until set */

/* The image of `source` for a target: from disk, else compiled and stored. Free with rp_image_free. */
rp_status rp_cache_get(const rp_device_ops *ops, const char *arch, const rp_source *source, rp_image *out);
/* Is it there, without a run of a compiler? */
bool rp_cache_has(const rp_device_ops *ops, const char *arch, const rp_source *source);
/* Is there a folder of the user's that keeps what is compiled? */
bool rp_cache_keeps(void);
/* Compiles `source` into folder as a prebuilt entry (key without the compiler). */
rp_status rp_cache_build(const char *folder, const rp_device_ops *ops, const char *arch,
                         const rp_source *source);
/* The folders "prebuilt" and "cache": how many entries, or why they are not used. For `reprise --doctor`. */
void rp_cache_examine(rp_fact_fn *tell, void *to);
void rp_image_free(rp_image *image);
rp_cache_counts rp_cache_counted(void); /* of this process */

#endif
