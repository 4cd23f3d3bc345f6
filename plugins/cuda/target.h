/* SPDX-License-Identifier: Apache-2.0 */
/* target.h: defines messages and library folders of the cuda plugin's target; tests of plugins/gpu
 * include it too. */
#ifndef CUDA_TARGET_H
#define CUDA_TARGET_H

/* NVIDIA's documentation requires this after codes 700, 710 and 714 to 719: another new context
 * does not help. */
#define CUDA_LOST "start the process again"

/* The build defines the PTX version of the images. */
#ifndef CUDA_PTX
#define CUDA_PTX NULL
#endif

/* The folders of libraries, in the format of gpu_target.folders: those of CUDA's own packages, of
 * Linux distributions, and of Python packages, which have one folder for each library. The driver
 * belongs to the distribution, even where the loader does not know its folder: in Windows'
 * subsystem for Linux and in NixOS. */

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
    "/usr/local/cuda/lib64:/usr/local/cuda/targets/" CUDA_MACHINE "/lib:" \
    "/usr/local/cuda/extras/CUPTI/lib64:" CUDA_SYSTEM ":" \
    "/usr/lib64:/usr/local/lib:/usr/local/cuda-*/lib64:" \
    "/usr/local/cuda-*/targets/" CUDA_MACHINE "/lib"

#endif
