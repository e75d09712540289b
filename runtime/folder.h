/* folder.h - a folder of cache entries: whom to believe, how to read, how to write. Knows nothing of
 * sources.
 *
 *   entry = "RPRISE01" | xxh3-128 of the rest, seeded by the key
 *         | symbol count | symbols, NUL-ended | size of the image | image
 *
 * Numbers are 8 bytes, little-endian. The seed makes an entry that lies under another's name a bad one.
 */
#ifndef RP_FOLDER_H
#define RP_FOLDER_H

#include "device.h"

typedef struct rp_key {
  uint64_t low, high;
  char text[33];
} rp_key; /* text: hexadecimal, the name of the entry */

typedef enum rp_found { RP_FOUND_NONE, RP_FOUND_BAD, RP_FOUND_GOOD } rp_found;

rp_key rp_key_of(const void *bytes, size_t size);

/* A descriptor of the folder; -1, with errno: it is not there, or refused (EACCES): its owner is neither
 * we nor root, or others may write. create: 0, else the mode with which missing folders are made. */
int rp_folder_open(const char *path, unsigned create);
size_t rp_folder_count(int folder); /* entries, good and bad */
/* RP_NOMEM alone fails; an entry that cannot be read is RP_FOUND_NONE, one that is not whole RP_FOUND_BAD. */
rp_status rp_folder_read(int folder, const rp_key *key, size_t symbols, rp_image *out, rp_found *found);
/* Replaces the entry at once for every reader. RP_IO names the entry. */
rp_status rp_folder_write(int folder, const rp_key *key, const rp_image *image, unsigned mode);
/* Waits, a minute at most, until no other process or thread makes this entry. *lock is given to close; -1:
 * no lock could be had, which costs only time. RP_INTERRUPTED. */
rp_status rp_folder_lock(int folder, const rp_key *key, int *lock);

#endif
