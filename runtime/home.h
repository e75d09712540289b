/* home.h - where the files that belong to the runtime lie: lua/, kernels/, prebuilt/.
 *
 *   $REPRISE_HOME, else the first of
 *   <folder of the program or of core.so>, its share/reprise, and the same for the folders above it
 *   share/reprise of the prefix that the build was configured for
 *
 * so that a build folder, a portable folder and an install prefix are all found by one rule.
 */
#ifndef RP_HOME_H
#define RP_HOME_H

#include "err.h"

/* The file this code was loaded from: the program, or core.so. Never NULL; "?" when the system does not say. */
const char *rp_home_file(void);
/* Looks as above and calls rp_home_set, once a process. Finding nothing is no failure: home stays ".".
 * Errors: RP_MISSING when REPRISE_HOME names a folder that holds no lua/reprise. */
rp_status rp_home_find(void);

#endif
