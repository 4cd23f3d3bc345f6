/* SPDX-License-Identifier: Apache-2.0 */
/* target.c: defines the names and constants of CUDA's driver for plugins/gpu, and the table of its
 * kernel images. */
#include "target.h"
#include "gpu/gpu.h"

static const char *const libraries[] = {"libcuda.so.1", "libcuda.so", NULL};
static const char *const cublaslt[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                       "libcublasLt.so.11", NULL};
static const char *const cudnn[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};

static const char *const nccl[] = {"libnccl.so.2", NULL};

/* The file of CUDA 11.2 is that of all later 11. */
static const char *const nvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", NULL};

/* A library of CUDA 11 has a file for each of its versions. */
static const char *const cupti[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                    "libcupti.so.11.7", "libcupti.so.11.6", "libcupti.so.11.5",
                                    "libcupti.so.11.4", "libcupti.so", NULL};
static const char *const nvtx[] = {"libnvToolsExt.so.1", NULL};

/* The build writes this file: IMAGE(family, type) for each image in the object file. */
#define IMAGE(family, type) extern const unsigned char cuda_##family##_##type[];
#include "cuda_images.def"

static const unsigned char *const images[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT] = {
#define IMAGE(family, type) [FAMILY_##family][TYPE_##type] = cuda_##family##_##type,
#include "cuda_images.def"
};

/* One image holds the code of all architectures, and PTX for future ones. */
static const void *target_image(enum portable_family family, enum portable_type type, int which)
{
    return which == 0 ? images[family][type] : NULL;
}

const struct gpu_target gpu_target = {
    .libraries = libraries,
    .no_driver = "no NVIDIA driver",
    .no_device = "no NVIDIA device",
    .nodes = "/dev/nvidia[0-9c]*",
    .lost = CUDA_LOST,
    .driver = "CUDA",
    .ptx = CUDA_PTX,
    .major = 1000,
    .minor = 10,
    .symbol = {
#define CALL(name, cuda, hip, parameters) #cuda,
#include "gpu/calls.def"
    },
    .units = 16,      /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    .capability = {75, 76}, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR */
    .managed = {83, 89},    /* .._MANAGED_MEMORY, .._CONCURRENT_MANAGED_ACCESS */
    .arch = "sm_",
    .targets = GPU_TARGETS,
    .dlpack_type = 2, /* kDLCUDA */
    .end = (void *)0, /* CU_LAUNCH_PARAM_END */
    .driver_folders = CUDA_DRIVER_FOLDERS,
    .folders = CUDA_FOLDERS,
    .vendor = {[GPU_VENDOR_CUBLASLT] = cublaslt, [GPU_VENDOR_CUDNN] = cudnn,
               [GPU_VENDOR_NVRTC] = nvrtc, [GPU_VENDOR_CCL] = nccl,
               [GPU_VENDOR_CUPTI] = cupti, [GPU_VENDOR_NVTX] = nvtx},
    .image = target_image,
};
