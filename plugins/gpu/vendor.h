/* SPDX-License-Identifier: Apache-2.0 */
/* vendor.h: libraries of the vendors of GPUs, which rows of higher priority call.
 *
 * Nothing of them is needed to build: their functions are lists (blaslt.def, ...), which are
 * looked up when the first plan asks for the library. A process opens each once and never closes
 * it: threads of its own may be in it. Where its file is, BP_<PLUGIN>_<LIBRARY> says (an absolute
 * path; "off": nowhere); else the one that the process has already is taken, or it is looked for in
 * LD_LIBRARY_PATH, where vendors put it, and where the loader looks. A library that is not there,
 * or cannot be used, is passed over: the portable rows stay. */
#ifndef GPU_VENDOR_H
#define GPU_VENDOR_H

#include "locate.h"

/* What each list of functions begins with: handles are made for the current context. */
struct gpu_vendor_calls {
    int (*create)(void **out);
    int (*destroy)(void *handle);
    const char *(*text)(int code);
};

/* A function; whether a library that lacks it is passed over. */
struct gpu_vendor_symbol {
    const char *name; /* NULL: there is none; what the table has in its place stays */
    bool needed;
};

/* A library, and what the process knows of it. */
struct gpu_vendor {
    const char *name;          /* "cuBLASLt" */
    enum gpu_vendor_id id;
    const struct gpu_vendor_symbol *symbol; /* of its functions, n of them */
    int n;
    bool for_streams;          /* each stream has a handle of its own */
    void **function;           /* where they go, */
    const struct gpu_vendor_calls *calls; /* which is where these are */
    size_t (*version)(void);   /* once it is open: 0, unknown; NULL: it is not asked */
    /* Makes a new handle ready, for a stream of the driver's or, NULL, for none: 0, or what the
     * function that is put out has answered. NULL: nothing is to be done. */
    int (*set_up)(void *handle, void *raw_stream, const char **out_function);
    void (*forget)(struct gpu_device *device); /* gives back what a device keeps of it; or NULL */
    pthread_mutex_t lock;      /* of opening */
    bool tried, opened;
    char path[GPU_PATH_SIZE];  /* of the file that was opened */
    char why[768];             /* not opened */
    atomic_bool told;
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

extern struct gpu_vendor gpu_nccl;

/* Opens it, once; false: vendor->why says why not. */
bool gpu_vendor_open(struct gpu_vendor *vendor);
/* Logs, once, which file was opened, with its version, or why none was. version: where
 * vendor->version is NULL; 0: unknown. */
void gpu_vendor_tell(const struct gpu *gpu, struct gpu_vendor *vendor, uint64_t version);

/* The device with its context that of the thread (gpu_device_use), the library open, and a handle
 * of the device's for work that is not in a stream. BP_ERR_UNSUPPORTED, without a message: pass
 * over the library; why is logged once. */
enum bp_status gpu_vendor_enter(struct gpu *gpu, uint32_t index, struct gpu_vendor *vendor,
                                struct gpu_caller *caller, struct gpu_device **out,
                                void **out_handle);

/* The stream is about to be captured: of each library that its device uses it has a handle then, or
 * there is a spare one. While a stream is captured none can be made, because libraries wait for the
 * device. */
void gpu_vendor_provide(struct gpu_stream *stream);

/* The handle of the stream, made and set up when it is first needed. Under the stream's lock. */
enum bp_status gpu_vendor_handle(struct gpu_stream *stream, struct gpu_vendor *vendor,
                                 void **out_handle);

/* A library's answer in a launch: BP_OK, or the reason is written. What the driver knows to have
 * failed comes first: libraries do not say that a device is lost. */
enum bp_status gpu_vendor_check(const struct gpu_device *device, const struct gpu_vendor *vendor,
                                const char *function, int code);
/* The same where nobody need be told: the reason is logged. */
bool gpu_vendor_good(const struct gpu_device *device, const struct gpu_vendor *vendor,
                     const char *function, int code);

/* Gives back the handles of a stream; and all that a device has. */
void gpu_vendor_finish(const struct gpu_device *device, void *handle[GPU_VENDORS]);
void gpu_vendor_close(struct gpu_device *device);

/* Memory for a plan that has been made, as a copy; NULL and a message: there is none. */
void *gpu_vendor_keep(const struct gpu_device *device, const struct gpu_vendor *vendor,
                      const void *made, size_t size);

/* Whether BP_<PLUGIN>_<NAME> is 1. */
bool gpu_vendor_is_set(const char *name);
/* TF32: products of f32 may round their factors to TF32. */
bool gpu_vendor_tf32(void);

#endif
