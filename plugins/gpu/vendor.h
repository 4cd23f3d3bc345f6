/* SPDX-License-Identifier: Apache-2.0 */
/* vendor.h: finds, opens and calls the libraries of GPU vendors (cuBLASLt, cuDNN, NVRTC, rocBLAS,
 * NCCL), on which kernel rows of higher priority are built.
 *
 * The build needs none of these libraries: lists (blaslt.def, ...) name their functions, which are
 * looked up when the first plan needs the library. A process opens each library once and never
 * closes it, because threads of the library may still run its code. BP_<PLUGIN>_<LIBRARY> can name
 * the library's file (an absolute path; "off": none). Without this setting the plugin uses the
 * library that the process has already loaded, or searches LD_LIBRARY_PATH, the vendor's usual
 * folders, and the folders of the system's loader. If a library is missing or unusable, the
 * portable rows remain. */
#ifndef GPU_VENDOR_H
#define GPU_VENDOR_H

#include "gpu.h"
#include <kit/library.h>

/* The first functions of each list. The library creates a handle for the current context. */
struct gpu_vendor_calls {
    int (*create)(void **out);
    int (*destroy)(void *handle);
    const char *(*text)(int code);
};

/* A library, and the state that the process keeps about it. */
struct gpu_vendor {
    const char *name;          /* "cuBLASLt" */
    enum gpu_vendor_id id;
    struct kit_library library; /* its functions: the first are those of gpu_vendor_calls */
    bool for_streams;          /* each stream has its own handle */
    const struct gpu_vendor_calls *calls; /* the functions of each library in its table; NULL: the
                                             library has no handles */
    size_t (*version)(void);   /* called once the library is open; returns 0 if unknown; NULL: not
                                  called */
    /* Prepares a new handle for a stream of the driver, or for no stream (NULL). Returns 0, or the
     * code of the function whose name is stored in out_function. NULL: no preparation is needed. */
    int (*set_up)(void *handle, void *raw_stream, const char **out_function);
    void (*forget)(struct gpu_device *device); /* frees the library's state of a device; or NULL */
    atomic_bool reported;
};

#ifdef GPU_CUBLASLT
extern struct gpu_vendor gpu_cublaslt;
#endif
#ifdef GPU_HIPBLASLT
extern struct gpu_vendor gpu_hipblaslt;
#endif
#ifdef GPU_CUDNN
extern struct gpu_vendor gpu_cudnn;
#endif
#ifdef GPU_ROCBLAS
extern struct gpu_vendor gpu_rocblas;
#endif
#ifdef GPU_XBLAS
extern struct gpu_vendor gpu_xblas;
#endif
#ifdef GPU_NVRTC
extern struct gpu_vendor gpu_nvrtc;
#endif
#ifdef GPU_HIPRTC
extern struct gpu_vendor gpu_hiprtc;
#endif

extern struct gpu_vendor gpu_nccl;

/* Whether the library of a kernel row exists, as portable_usable, but without a message. */
bool gpu_vendor_has(struct gpu *gpu, const struct bp_kernel *row);
/* Opens the library, once. false: vendor->library.why has the reason. */
bool gpu_vendor_open(struct gpu_vendor *vendor);
/* Logs once the file and the version of the library, or why it could not be opened. version: used
 * where vendor->version is NULL; 0: unknown. */
void gpu_vendor_report(const struct gpu *gpu, struct gpu_vendor *vendor, uint64_t version);

/* Makes the device's context current (gpu_device_use), opens the library, and returns a handle of
 * the device for work outside of streams. BP_ERR_UNSUPPORTED, without a message: do not use the
 * library; the reason has been logged once. */
enum bp_status gpu_vendor_enter(struct gpu *gpu, uint32_t index, struct gpu_vendor *vendor,
                                struct kit_context *caller, struct gpu_device **out,
                                void **out_handle);

/* Called before the stream is captured. Ensures that there is a handle for each library that the
 * device uses: the stream's own or a spare one of the device. No handle can be created while a
 * stream is captured, because the libraries then wait for the device. */
void gpu_vendor_provide(struct gpu_stream *stream);

/* Returns the stream's handle, which is created and set up when it is first needed. Under the
 * stream's lock. */
enum bp_status gpu_vendor_handle(struct gpu_stream *stream, struct gpu_vendor *vendor,
                                 void **out_handle);

/* Checks the code that a library's function returned for a launch: BP_OK, or the reason is written.
 * A failure of the driver is reported first, because the libraries do not report that a device is
 * lost. */
enum bp_status gpu_vendor_check(const struct gpu_device *device, const struct gpu_vendor *vendor,
                                const char *function, int code);
/* The same where the caller cannot return an error: logs the reason. true: the code is 0. */
bool gpu_vendor_good(const struct gpu_device *device, const struct gpu_vendor *vendor,
                     const char *function, int code);

/* Destroy the handles of a stream; and all handles of a device. */
void gpu_vendor_finish(const struct gpu_device *device, void *handle[GPU_VENDORS]);
void gpu_vendor_close(struct gpu_device *device);

/* Copies a finished plan into allocated memory. NULL, with a message: out of memory. */
void *gpu_vendor_keep(const struct gpu_device *device, const struct gpu_vendor *vendor,
                      const void *made, size_t size);
/* Frees it. self: the instance. */
void gpu_vendor_drop(const void *self, void *plan, size_t size);

/* Runs a launch with the device's context, under the stream's lock: one thread at a time uses a
 * handle. */
enum bp_status gpu_vendor_run(const struct bp_launch *launch,
                              enum bp_status (*run)(const struct bp_launch *launch));

/* The setting TF32: products of f32 may round their factors to TF32. */
bool gpu_vendor_tf32(void);

#endif
