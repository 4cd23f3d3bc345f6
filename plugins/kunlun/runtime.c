/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.c: calls the runtime library of XRE 5, which has the functions of CUDA's runtime, as
 * plugins/gpu calls a driver. The runtime has no contexts: each thread has a current device, as in
 * HIP. Functions that older releases lack are replaced or reported as unsupported. */
#include "runtime.h"
#include <glob.h>
#include <string.h>

#define KIT_LIST "kunlun/cudart.def"
#define KIT_TABLE cuda
#include <kit/table.h>

/* Codes of CUDA's runtime, and its directions of copies. */
enum {
    INVALID_VALUE = 1,
    NOT_SUPPORTED = 801
};
enum {
    TO_DEVICE = 1,
    TO_HOST = 2,
    WITHIN_DEVICE = 3
};

static int runtime_initialise(unsigned flags)
{
    (void)flags;
    return GPU_SUCCESS;
}

static int runtime_driver_version(int *out)
{
    *out = 0;
    return cuda.call.cudaDriverGetVersion ? cuda.call.cudaDriverGetVersion(out) : GPU_SUCCESS;
}

static int runtime_device_get(int *out, int number)
{
    *out = number;
    return GPU_SUCCESS;
}

/* The runtime returns names in a struct whose layout is not known. */
static int runtime_device_name(char *out, int size, int device)
{
    (void)device;
    return snprintf(out, (size_t)size, "Kunlun XPU") < size ? GPU_SUCCESS : INVALID_VALUE;
}

/* The runtime reports the memory of the current device only. */
static int runtime_device_memory(size_t *out, int device)
{
    size_t free_bytes;
    int before = 0, code = cuda.call.cudaGetDevice(&before), back;

    if (!code) code = cuda.call.cudaSetDevice(device);
    if (code) return code;
    code = cuda.call.cudaMemGetInfo(&free_bytes, out);
    back = cuda.call.cudaSetDevice(before);
    return code ? code : back;
}

/* An unknown attribute is 0. */
static int runtime_device_attribute(int *out, int attribute, int device)
{
    *out = 0;
    if (!cuda.call.cudaDeviceGetAttribute) return GPU_SUCCESS;
    return cuda.call.cudaDeviceGetAttribute(out, attribute, device);
}

static int runtime_context_retain(void **out, int device)
{
    (void)device;
    *out = NULL;
    return GPU_SUCCESS;
}

static int runtime_context_release(int device)
{
    (void)device;
    return GPU_SUCCESS;
}

static int runtime_pinned_allocate(void **out, size_t size, unsigned flags)
{
    if (cuda.call.cudaHostAlloc) return cuda.call.cudaHostAlloc(out, size, flags);
    return cuda.call.cudaMallocHost ? cuda.call.cudaMallocHost(out, size) : NOT_SUPPORTED;
}

static int runtime_managed_allocate(void **out, size_t size, unsigned flags)
{
    if (!cuda.call.cudaMallocManaged) return NOT_SUPPORTED;
    return cuda.call.cudaMallocManaged(out, size, flags);
}

static int runtime_copy_in(void *dst, const void *src, size_t size, void *stream)
{
    return cuda.call.cudaMemcpyAsync(dst, src, size, TO_DEVICE, stream);
}

static int runtime_copy_out(void *dst, const void *src, size_t size, void *stream)
{
    return cuda.call.cudaMemcpyAsync(dst, src, size, TO_HOST, stream);
}

static int runtime_copy_within(void *dst, const void *src, size_t size, void *stream)
{
    return cuda.call.cudaMemcpyAsync(dst, src, size, WITHIN_DEVICE, stream);
}

static int runtime_peer_possible(int *out, int device, int peer)
{
    *out = 0;
    if (!cuda.call.cudaDeviceCanAccessPeer || !cuda.call.cudaDeviceEnablePeerAccess)
        return GPU_SUCCESS;
    return cuda.call.cudaDeviceCanAccessPeer(out, device, peer);
}

static int runtime_peer_enable(int peer, unsigned flags)
{
    return cuda.call.cudaDeviceEnablePeerAccess(peer, flags);
}

/* The code lets the core copy through the host's memory. */
static int runtime_copy_peer(void *dst, int to, const void *src, int from, size_t size,
                             void *stream)
{
    if (!cuda.call.cudaMemcpyPeerAsync) return NOT_SUPPORTED;
    return cuda.call.cudaMemcpyPeerAsync(dst, to, src, from, size, stream);
}

bool kunlun_has_fill(void)
{
    return cuda.call.cudaMemsetAsync != NULL;
}

enum bp_status kunlun_fill_zero(struct gpu_stream *stream, void *memory, uint64_t size)
{
    return gpu_check_named(stream->device->gpu, stream->device, GPU_CALL_copy_within,
                           "cudaMemsetAsync",
                           cuda.call.cudaMemsetAsync(memory, 0, size, stream->raw));
}

/* NVIDIA's runtime has the same file name and the same functions. Beside XRE's lies its own
 * library. */
static bool runtime_fits(const char *path)
{
    const char *end = strrchr(path, '/');
    char pattern[KIT_PATH_SIZE + sizeof "libxpurt.so*"];
    bool found;
    glob_t all;

    if (!end) return false;
    snprintf(pattern, sizeof pattern, "%.*s/libxpurt.so*", (int)(end - path), path);
    found = glob(pattern, 0, NULL, &all) == 0;
    if (found) globfree(&all);
    return found;
}

const struct gpu_own kunlun_own = {
    .call = {.initialise = runtime_initialise,
             .driver_version = runtime_driver_version,
             .device_get = runtime_device_get,
             .device_name = runtime_device_name,
             .device_memory = runtime_device_memory,
             .device_attribute = runtime_device_attribute,
             .context_retain = runtime_context_retain,
             .context_release = runtime_context_release,
             .pinned_allocate = runtime_pinned_allocate,
             .managed_allocate = runtime_managed_allocate,
             .copy_in = runtime_copy_in,
             .copy_out = runtime_copy_out,
             .copy_within = runtime_copy_within,
             .peer_possible = runtime_peer_possible,
             .peer_enable = runtime_peer_enable,
             .copy_peer = runtime_copy_peer},
    .symbol = cuda_symbols,
    .function = cuda.function,
    .n = sizeof cuda_symbols / sizeof *cuda_symbols,
    .fits = runtime_fits,
    .unfit = "no libxpurt.so is beside it, so it is NVIDIA's",
};
