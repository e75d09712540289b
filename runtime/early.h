/* early.h - which nodes of a chain may begin before the node ahead of them has ended.
 *
 * A WAITS kernel touches memory only after wait_previous(), except what its EARLY parameters point to. So its incoming
 * edge may be programmatic if no earlier node of the graph writes those bytes; then everything after a wait is ordered
 * behind everything before it, over any number of hops.
 */
#ifndef RP_EARLY_H
#define RP_EARLY_H

#include "record.h"

/* Sets `programmatic` of each launch, one a node of the record, in order. */
rp_status rp_early_mark(const rp_record *rec, rp_launch *launches);

#endif
