/* SPDX-License-Identifier: Apache-2.0 */
/* folders.h: where the libraries of AMD and of DCUs are put: as gpu_target.folders. Their packages
 * often do not tell the system's loader. */
#ifndef HIP_FOLDERS_H
#define HIP_FOLDERS_H

#define HIP_FOLDERS \
    "/opt/rocm/lib:/opt/rocm*/lib:/opt/dtk/lib:/opt/dtk/hip/lib:/opt/dtk*/lib:/opt/dtk*/hip/lib:" \
    "/opt/hyhal/lib:/usr/lib/x86_64-linux-gnu:/usr/lib64"

#endif
