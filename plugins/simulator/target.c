/* SPDX-License-Identifier: Apache-2.0 */
/* target.c: defines the simulator's names and constants for plugins/gpu, and the table of its
 * kernel images. The plugin is for tests, mainly of that host code, and is not installed. */
#include "gpu/gpu.h"
#include "image.h"

/* The first library does not exist, so that the second one is tried. The second is a path, because
 * a sanitizer's dlopen does not search the folders of this library. */
static const char *const libraries[] = {"libbp_simulator_of_others.so", SIM_DRIVER, NULL};
static const char *const cublaslt[] = {"libbp_sim_cublaslt.so", NULL};
static const char *const hipblaslt[] = {"libbp_sim_hipblaslt.so", NULL};
static const char *const cudnn[] = {"libbp_sim_cudnn.so", NULL};
static const char *const rocblas[] = {"libbp_sim_rocblas.so", NULL};
static const char *const nccl[] = {"libbp_sim_nccl.so", NULL};
/* Not in SIM_FOLDER: only tests that name them compile kernels, which takes time. */
static const char *const nvrtc[] = {"libbp_sim_nvrtc.so", NULL};
static const char *const hiprtc[] = {"libbp_sim_hiprtc.so", NULL};

/* Not in SIM_FOLDER: only tests that name them make records of the device. */
static const char *const cupti[] = {"libbp_standin_cupti.so", NULL};
static const char *const roctracer[] = {"libbp_standin_roctracer.so", NULL};
static const char *const nvtx[] = {"libbp_standin_nvtx.so", NULL};
static const char *const roctx[] = {"libbp_standin_roctx.so", NULL};

/* Tests compile plugins with the messages and folders of other targets. */
#ifndef SIM_LOST
#define SIM_LOST NULL
#endif
#ifndef SIM_PTX
#define SIM_PTX NULL
#endif
#ifndef SIM_FOLDERS
#define SIM_FOLDERS SIM_FOLDER
#endif
#ifndef SIM_DRIVER_FOLDERS
#define SIM_DRIVER_FOLDERS SIM_FOLDER
#endif

#define ENTRIES(family, type, prefix) \
    extern sim_entry *const prefix##family##_entries_##type[]; \
    extern const struct sim_kernel sim_##family##_kernels[];
#include "simulator_entries.def"

static const struct sim_image images[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT] = {
#define ENTRIES(family, type, prefix) \
    [FAMILY_##family][TYPE_##type] = {SIM_IMAGE, #type, sim_##family##_kernels, \
                                      prefix##family##_entries_##type},
#include "simulator_entries.def"
};

static const void *target_image(enum portable_family family, enum portable_type type, int which)
{
    static const struct sim_image other = {SIM_IMAGE_OF_OTHERS, "", NULL, NULL};

    if (which == 0) return &other;
    return which == 1 && images[family][type].magic ? &images[family][type] : NULL;
}

const struct gpu_target gpu_target = {
    .libraries = libraries,
    .no_driver = "no simulator",
    .no_device = "no simulated device",
    .nodes = "",
    .lost = SIM_LOST,
    .driver = "simulator",
    .ptx = SIM_PTX,
    .major = 1000,
    .minor = 10,
    .symbol = {
#define CALL(name, cuda, hip, parameters) "sim_" #name,
#include "gpu/calls.def"
    },
    .units = 1,
    .capability = {2, 3},
    .managed = {4, 5},
    .arch = "sim_",
    .targets = "20, 30+ptx",
    .end = (void *)3,
    .driver_folders = SIM_DRIVER_FOLDERS,
    .folders = SIM_FOLDERS,
    .vendor = {[GPU_VENDOR_CUBLASLT] = cublaslt, [GPU_VENDOR_HIPBLASLT] = hipblaslt,
               [GPU_VENDOR_CUDNN] = cudnn, [GPU_VENDOR_ROCBLAS] = rocblas,
               [GPU_VENDOR_NVRTC] = nvrtc, [GPU_VENDOR_HIPRTC] = hiprtc,
               [GPU_VENDOR_CCL] = nccl, [GPU_VENDOR_CUPTI] = cupti,
               [GPU_VENDOR_ROCTRACER] = roctracer, [GPU_VENDOR_NVTX] = nvtx,
               [GPU_VENDOR_ROCTX] = roctx},
    .image = target_image,
};
