/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c: implements the functions in which CUDA's driver differs from the simulator's. */
#include "standin.h"
#include <stdlib.h>

const struct standin standin = {.library = "libcuda.so.1", .end = (void *)0, .most = UINT64_MAX};

int standin_driver_version(int *out)
{
    *out = 13000;
    return SIM_SUCCESS;
}

/* Attributes by CUDA's numbers: multiprocessors, the two halves of the architecture, managed
 * memory, and managed memory that the host may use at any time. */
int standin_device_attribute(int *out, int attribute, int device)
{
    int arch = atoi(standin_arch());
    int code = sim_device_attribute(out, 1, device);

    if (code || attribute == 16) return code;
    if (attribute == 83 || attribute == 89)
        return sim_device_attribute(out, attribute == 83 ? 4 : 5, device);
    if (attribute != 75 && attribute != 76)
        return standin_refuse(SIM_INVALID_VALUE, "no attribute %d is known here", attribute);
    *out = attribute == 75 ? arch / 10 : arch % 10;
    return SIM_SUCCESS;
}
