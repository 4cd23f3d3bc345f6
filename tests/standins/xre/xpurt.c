/* SPDX-License-Identifier: Apache-2.0 */
/* xpurt.c: the stand-in for XRE's own library, which lies beside its libcudart.so. */
#include "xre.h"

XRE_API int xpu_get_runtime_version(unsigned *out_major, unsigned *out_minor);
int xpu_get_runtime_version(unsigned *out_major, unsigned *out_minor)
{
    *out_major = 5;
    *out_minor = 0;
    return 0;
}
