/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c: returns the version of this library, and environment variables of the process. */
#include "base.h"

#include <stdlib.h>

const char *bp_version(void)
{
    return BP_VERSION;
}

const char *bp_env_get(const char *name)
{
    return secure_getenv(name);
}
