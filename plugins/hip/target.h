/* SPDX-License-Identifier: Apache-2.0 */
/* target.h: what hip's target says. */
#ifndef HIP_TARGET_H
#define HIP_TARGET_H

/* After most failures of work the runtime ends the process by itself. */
#define HIP_LOST "start the process again"

/* Where the libraries of AMD and of DCUs are put, as gpu_target.folders: their packages often do
 * not tell the system's loader. */

#define HIP_FOLDERS \
    "/opt/rocm/lib:/opt/rocm*/lib:/opt/dtk/lib:/opt/dtk/hip/lib:/opt/dtk*/lib:/opt/dtk*/hip/lib:" \
    "/opt/hyhal/lib:/usr/lib/x86_64-linux-gnu:/usr/lib64"

#endif
