/* mem.h - all host memory of the runtime, so that specs can make each allocation fail in turn.
 *
 * Like malloc and friends; on failure they return NULL (and have stored "out of host memory" with rp_fail).
 * rp_free takes NULL. Counters are a process's, and atomic.
 */
#ifndef RP_MEM_H
#define RP_MEM_H

#include <stddef.h>
#include <stdint.h>

void *rp_alloc(size_t bytes);
void *rp_alloc_zero(size_t count, size_t bytes); /* overflow of the product is a failure */
void *rp_resize(void *p, size_t bytes);          /* on failure p is untouched */
char *rp_copy_text(const char *text);            /* strdup */
void rp_free(void *p);

/* Grows *array (elements of `bytes`) so that it holds at least `need`; *room is its present room. */
int rp_grow(void *array, size_t *room, size_t need, size_t bytes); /* 0 on failure, array untouched */

uint64_t rp_mem_live(void);                  /* allocations not yet freed */
void rp_mem_fail_after(int64_t allocations); /* that many succeed, the next one fails once; < 0: never */

#endif
