/* SPDX-License-Identifier: Apache-2.0 */
/* vendor.c: finds and opens libraries, and keeps their handles; see vendor.h. */
#include "vendor.h"
#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 1024, NAME_SIZE = 48 };

static struct gpu_vendor *const vendors[] = {
#ifdef GPU_CUBLASLT
    &gpu_cublaslt,
#endif
#ifdef GPU_CUDNN
    &gpu_cudnn,
#endif
#ifdef GPU_ROCBLAS
    &gpu_rocblas,
#endif
};

/* "BP_CUDA_CUBLASLT" */
static void variable(char out[NAME_SIZE], const char *name)
{
    snprintf(out, NAME_SIZE, "BP_%s_%s", GPU_NAME, name);
    for (char *c = out; *c; c++) *c = (char)toupper(*c);
}

static bool is_there(char *out, size_t length, const char *folder, const char *file)
{
    snprintf(out, PATH_SIZE, "%.*s/%s", (int)length, folder, file);
    return folder[0] == '/' && !access(out, R_OK);
}

/* In one of the folders of a list as LD_LIBRARY_PATH is. */
static bool is_in_list(char *out, const char *list, const char *file)
{
    while (list && *list) {
        size_t length = strcspn(list, ":");
        if (is_there(out, length, list, file)) return true;
        list += length + (list[length] == ':');
    }
    return false;
}

/* The path of the library's file; false: there is none. */
static bool find_file(const struct gpu_vendor *vendor, char out[PATH_SIZE])
{
    const char *const *file = gpu_target.vendor[vendor->id], *given;
    char name[NAME_SIZE];

    variable(name, vendor->name);
    given = secure_getenv(name);
    if (given && *given) {
        snprintf(out, PATH_SIZE, "%s", given);
        return given[0] == '/' && !access(given, R_OK);
    }
    for (; *file; file++)
        if (is_in_list(out, secure_getenv("LD_LIBRARY_PATH"), *file) ||
            is_in_list(out, gpu_target.folders, *file))
            return true;
    return false;
}

static enum bp_status usable(const struct gpu *gpu, const struct gpu_vendor *vendor,
                             const char *row)
{
    char path[PATH_SIZE], name[NAME_SIZE];

    if (find_file(vendor, path)) return BP_OK;
    variable(name, vendor->name);
    return bp_fail(gpu->host, BP_ERR_UNSUPPORTED,
                   "%s: there is no library %s (%s, in LD_LIBRARY_PATH or where it is put "
                   "usually); install it, or set %s to its absolute path",
                   row, vendor->name, gpu_target.vendor[vendor->id][0], name);
}

enum bp_status portable_usable(void *self, const struct bp_kernel *row)
{
    const char *last = strrchr(row->name, '_');

    for (size_t i = 0; row->priority && i < sizeof vendors / sizeof *vendors; i++)
        if (!strcasecmp(last + 1, vendors[i]->name)) return usable(self, vendors[i], row->name);
    return BP_OK;
}

static bool open_once(struct gpu_vendor *vendor)
{
    char path[PATH_SIZE];
    bool there = find_file(vendor, path);
    void *library = there ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!library) {
        snprintf(vendor->why, sizeof vendor->why, "%s cannot be opened: %s", vendor->name,
                 there ? dlerror() : "there is no file of it");
        return false;
    }
    for (int i = 0; i < vendor->n; i++) {
        vendor->function[i] = dlsym(library, vendor->symbol[i].name);
        if (vendor->function[i] || !vendor->symbol[i].needed) continue;
        snprintf(vendor->why, sizeof vendor->why, "%s, %.150s, has no function %s", vendor->name,
                 path, vendor->symbol[i].name);
        return false;
    }
    return true;
}

static bool is_open(struct gpu_vendor *vendor, bool *out_first)
{
    bool opened;

    pthread_mutex_lock(&vendor->lock);
    *out_first = !vendor->tried;
    if (!vendor->tried) vendor->opened = open_once(vendor);
    vendor->tried = true;
    opened = vendor->opened;
    pthread_mutex_unlock(&vendor->lock);
    return opened;
}

bool gpu_vendor_open(struct gpu_vendor *vendor)
{
    bool first;

    return is_open(vendor, &first);
}

/* Under the device's lock. A failure is not asked for again. */
static void *device_handle(struct gpu_device *device, struct gpu_vendor *vendor)
{
    void **handle = &device->vendor[vendor->id];

    if (!*handle && !device->vendor_failed[vendor->id])
        device->vendor_failed[vendor->id] = !gpu_vendor_good(device, vendor, vendor->symbol[0].name,
                                                             vendor->calls->create(handle));
    return *handle;
}

enum bp_status gpu_vendor_enter(struct gpu *gpu, uint32_t index, struct gpu_vendor *vendor,
                                struct gpu_device **out, void **out_handle)
{
    struct gpu_device *device;
    bool first;

    if (!is_open(vendor, &first)) {
        if (first)
            bp_log(gpu->host, BP_LOG_WARN, GPU_NAME ": %s: its rows are passed over", vendor->why);
        return BP_ERR_UNSUPPORTED;
    }
    TRY(gpu_device_use(gpu, index, &device));
    pthread_mutex_lock(&device->lock);
    *out_handle = device_handle(device, vendor);
    pthread_mutex_unlock(&device->lock);
    *out = device;
    return *out_handle ? BP_OK : BP_ERR_UNSUPPORTED;
}

enum bp_status gpu_vendor_handle(struct gpu_stream *stream, struct gpu_vendor *vendor,
                                 void **out_handle)
{
    void **handle = &stream->vendor[vendor->id];

    if (!*handle)
        TRY(gpu_vendor_check(stream->device, vendor, vendor->symbol[0].name,
                             vendor->calls->create(handle)));
    *out_handle = *handle;
    return BP_OK;
}

enum bp_status gpu_vendor_check(const struct gpu_device *device, const struct gpu_vendor *vendor,
                                const char *function, int code)
{
    size_t unused[2];

    if (__builtin_expect(code == 0, 1)) return BP_OK;
    TRY(GPU_CALL(device, memory_info, &unused[0], &unused[1]));
    return bp_fail(device->gpu->host, BP_ERR_DEVICE, GPU_NAME ":%u: %s answers %d: %s",
                   device->index, function, code, vendor->calls->text(code));
}

bool gpu_vendor_good(const struct gpu_device *device, const struct gpu_vendor *vendor,
                     const char *function, int code)
{
    if (code != 0)
        bp_log(device->gpu->host, BP_LOG_WARN, GPU_NAME ":%u: %s answers %d: %s", device->index,
               function, code, vendor->calls->text(code));
    return code == 0;
}

void gpu_vendor_finish(const struct gpu_device *device, void *handle[GPU_VENDORS])
{
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (handle[vendors[i]->id])
            gpu_vendor_good(device, vendors[i], vendors[i]->symbol[1].name,
                            vendors[i]->calls->destroy(handle[vendors[i]->id]));
}

void *gpu_vendor_keep(const struct gpu_device *device, const struct gpu_vendor *vendor,
                      const void *made, size_t size)
{
    const struct bp_host *host = device->gpu->host;
    void *plan = host->allocate(host->ctx, size, _Alignof(max_align_t));

    if (plan) return memcpy(plan, made, size);
    bp_fail(host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a plan of %s, %zu bytes",
            device->index, vendor->name, size);
    return NULL;
}

bool gpu_vendor_tf32(void)
{
    char name[NAME_SIZE];
    const char *given;

    variable(name, "TF32");
    given = secure_getenv(name);
    return given && !strcmp(given, "1");
}
