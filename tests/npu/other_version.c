/* SPDX-License-Identifier: Apache-2.0 */
/* other_version.c: a library in front of the stand-in's libascendcl.so whose version is that of a
 * later major. */
#include <stdint.h>

__attribute__((visibility("default"))) int aclrtGetVersion(int32_t *major, int32_t *minor,
                                                           int32_t *patch);
int aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
    *major = 2;
    *minor = *patch = 0;
    return 0;
}
