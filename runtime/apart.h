/* apart.h - REPRISE_POOL=off: memory of its own behind each tensor, for memory checkers.
 *
 * The pool goes on counting, planning and limiting as always, and its offsets stay what they are; but blocks and the
 * values of a graph lie where the device's `take` put them, so that a checker knows where each of them ends, and that
 * it is gone. A temporary of a graph is then not laid over another. Counted: outputs outlive their graph.
 */
#ifndef RP_APART_H
#define RP_APART_H

#include "device.h"

typedef struct rp_apart rp_apart;

/* Is REPRISE_POOL `off`, or does the device guard its tensors, and can it do so? Errors: RP_ARGUMENT for a value other than on and off. */
rp_status rp_apart_wanted(const rp_device *dev, bool *out);
rp_status rp_apart_take(rp_device *dev, size_t bytes,
                        rp_apart **out); /* contents undefined; 0 counts as one byte */
uintptr_t rp_apart_address(const rp_apart *apart);
rp_apart *rp_apart_retain(rp_apart *apart); /* takes NULL */
void rp_apart_release(rp_apart *apart); /* takes NULL; the device must not be in the middle of work on it */

#endif
