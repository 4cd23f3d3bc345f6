/* SPDX-License-Identifier: Apache-2.0 */
/* target.h: defines messages and library folders of the hip plugin's target. */
#ifndef HIP_TARGET_H
#define HIP_TARGET_H

/* After most failures of work on the device the runtime itself ends the process. */
#define HIP_LOST "start the process again"

/* The folders of the libraries of AMD and of DCUs, in the format of gpu_target.folders: their
 * packages often do not register the folders with the system's loader. */

#define HIP_FOLDERS \
    "/opt/rocm/lib:/opt/rocm*/lib:/opt/dtk/lib:/opt/dtk/hip/lib:/opt/dtk*/lib:/opt/dtk*/hip/lib:" \
    "/opt/hyhal/lib:/usr/lib/x86_64-linux-gnu:/usr/lib64"

#endif
