/* ahead.h - sources that will be needed, compiled side by side. */
#ifndef RP_AHEAD_H
#define RP_AHEAD_H

#include "program.h"

/* Puts what is not there yet of `specs` into the cache, so that rp_program_compile finds it; waits for all. What fails
 * here fails there again, and says why. Nothing where no folder keeps what is compiled. */
void rp_ahead(rp_device *dev, const rp_program_spec *specs, size_t count);

#endif
