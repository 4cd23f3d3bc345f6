/* SPDX-License-Identifier: Apache-2.0 */
/* folders.h: where NVIDIA's libraries are put: as gpu_target.folders. CUDA's own packages, those of
 * a distribution, of Python, which have a folder for each library. The driver's is a part of a
 * distribution, also where its loader does not know it: in Windows' subsystem, in NixOS. */
#ifndef CUDA_FOLDERS_H
#define CUDA_FOLDERS_H

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
