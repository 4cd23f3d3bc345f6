/* SPDX-License-Identifier: Apache-2.0 */
/* target.c: defines the names and constants of HIP's runtime for plugins/gpu, and the table of its
 * kernel images. The runtime is AMD's, or that of DCUs, which has another name. No struct of HIP is
 * used, because the runtimes have different layouts. */
#include "target.h"
#include "gpu/gpu.h"

static const char *const libraries[] = {
    "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
    "libgalaxyhip.so.5", "libgalaxyhip.so", NULL,
};

static const char *const rocblas[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3",
                                      "librocblas.so.0", "librocblas.so", NULL};

static const char *const hipblaslt[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so",
                                        NULL};

static const char *const rccl[] = {"librccl.so.1", NULL};

static const char *const hiprtc[] = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                     "libhiprtc.so", NULL};

static const char *const roctracer[] = {"libroctracer64.so.4", NULL};

static const char *const roctx[] = {"libroctx64.so.4", "librocprofiler-sdk-roctx.so.1",
                                    "librocprofiler-sdk-roctx.so.0", NULL};

enum { ARCHITECTURES = 16 }; /* the maximum number */

/* The build writes this file: IMAGE(number, arch, family, type) for each image. */
#define IMAGE(number, arch, family, type) \
    extern const unsigned char hip_##arch##_##family##_##type[];
#include "hip_images.def"

static const unsigned char *const
    images[ARCHITECTURES + 1][PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT] = {
#define IMAGE(number, arch, family, type) \
    [number][FAMILY_##family][TYPE_##type] = hip_##arch##_##family##_##type,
#include "hip_images.def"
};

/* One image for each architecture: the runtime accepts that of the device. */
static const void *target_image(enum portable_family family, enum portable_type type, int which)
{
    return images[which][family][type];
}

const struct gpu_target gpu_target = {
    .libraries = libraries,
    .no_driver = "no AMD driver",
    .no_device = "no AMD device",
    .nodes = "/dev/kfd",
    .lost = HIP_LOST,
    .driver = "HIP",
    .major = 10000000,
    .minor = 100000,
    .symbol = {
#define CALL(name, cuda, hip, parameters) #hip,
#include "gpu/calls.def"
    },
    .units = 63,       /* hipDeviceAttributeMultiprocessorCount */
    .managed = {24, 9}, /* .._ManagedMemory, .._ConcurrentManagedAccess */
    .arch = "gfx",
    .targets = GPU_TARGETS,
    .dlpack_type = 10, /* kDLROCM */
    .end = (void *)3,  /* HIP_LAUNCH_PARAM_END */
    .driver_folders = HIP_FOLDERS,
    .folders = HIP_FOLDERS,
    .vendor = {[GPU_VENDOR_HIPBLASLT] = hipblaslt, [GPU_VENDOR_ROCBLAS] = rocblas,
               [GPU_VENDOR_HIPRTC] = hiprtc, [GPU_VENDOR_CCL] = rccl,
               [GPU_VENDOR_ROCTRACER] = roctracer, [GPU_VENDOR_ROCTX] = roctx},
    .image = target_image,
};
