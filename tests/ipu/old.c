/* SPDX-License-Identifier: Apache-2.0 */
/* old.c: a library with the names of the shim's functions, and another version of its interface. */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT uint32_t bp_ipu_version(void);
EXPORT uint32_t bp_ipu_version(void)
{
    return 999;
}

#ifndef OLD_LACKS
#define EMPTY(name) \
    EXPORT void name(void); \
    EXPORT void name(void) \
    { \
    }
EMPTY(bp_ipu_error)
EMPTY(bp_ipu_open)
EMPTY(bp_ipu_close)
EMPTY(bp_ipu_device_count)
EMPTY(bp_ipu_device_info)
EMPTY(bp_ipu_compile)
EMPTY(bp_ipu_restore)
EMPTY(bp_ipu_share)
EMPTY(bp_ipu_save)
EMPTY(bp_ipu_destroy)
EMPTY(bp_ipu_run)
EMPTY(bp_ipu_state)
#endif
