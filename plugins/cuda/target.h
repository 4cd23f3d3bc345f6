/* SPDX-License-Identifier: Apache-2.0 */
/* target.h: what cuda's target says; tests of plugins/gpu have it from here. */
#ifndef CUDA_TARGET_H
#define CUDA_TARGET_H

/* NVIDIA says so of codes 700, 710 and 714 to 719: a context that another makes does not help. */
#define CUDA_LOST "start the process again"

/* The build says which PTX images have. */
#ifndef CUDA_PTX
#define CUDA_PTX NULL
#endif

/* Where libraries are put, as gpu_target.folders: CUDA's own packages, those of a distribution, of
 * Python, which have a folder for each library. The driver's is a part of a distribution, also
 * where its loader does not know it: in Windows' subsystem, in NixOS. */

#ifdef __aarch64__
#define CUDA_MACHINE "sbsa-linux"
#define CUDA_SYSTEM "/usr/lib/aarch64-linux-gnu"
#else
#define CUDA_MACHINE "x86_64-linux"
#define CUDA_SYSTEM "/usr/lib/x86_64-linux-gnu"
#endif

#define CUDA_DRIVER_FOLDERS CUDA_SYSTEM ":/usr/lib64:/usr/lib/wsl/lib:/run/opengl-driver/lib"
#define CUDA_FOLDERS \
    "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib:" \
    "$CONDA_PREFIX/lib:$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib:" \
    "/usr/local/cuda/lib64:/usr/local/cuda/targets/" CUDA_MACHINE "/lib:" CUDA_SYSTEM ":" \
    "/usr/lib64:/usr/local/lib:/usr/local/cuda-*/lib64:" \
    "/usr/local/cuda-*/targets/" CUDA_MACHINE "/lib"

#endif
