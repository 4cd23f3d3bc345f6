/* SPDX-License-Identifier: Apache-2.0 */
/* cudart.c: implements the functions of CUDA's runtime on the simulator; see xre.h. */
#include "base.h"
#include "simulator/sim.h"
#include "xre.h"
#include <string.h>

enum {
    DEVICES = sizeof sim.device / sizeof *sim.device
};
enum {
    TO_DEVICE = 1,
    TO_HOST = 2,
    WITHIN_DEVICE = 3,
    PORTABLE = 3
};

static pthread_mutex_t xre_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static bool xre_ready;
static void *xre_context[DEVICES];
static _Thread_local int xre_device;

/* Starts the simulator with the first call. */
static int xre_begin(void)
{
    int code = SIM_SUCCESS;

    pthread_mutex_lock(&xre_lock);
    if (!xre_ready) code = sim_initialise(0);
    xre_ready = !code;
    pthread_mutex_unlock(&xre_lock);
    return code;
}

/* The context of a device; the first use creates it. */
static int context_of(int device, void **out)
{
    int code = xre_begin();

    if (code) return code;
    if (device < 0 || device >= sim.n_device) return SIM_INVALID_DEVICE;
    pthread_mutex_lock(&xre_lock);
    if (!xre_context[device]) code = sim_context_retain(&xre_context[device], device);
    *out = xre_context[device];
    pthread_mutex_unlock(&xre_lock);
    return code;
}

int xre_use(void)
{
    void *context = NULL;
    int code = context_of(xre_device, &context);

    return code ? code : sim_context_set(context);
}

int xre_enter(const char *function)
{
    return base_leave(base_enter(function));
}

/* Begins a call of a function that needs no device, and stores its result at `out`. */
static int xre_begin_call(const char *function, const void *out)
{
    int code = xre_enter(function);

    if (!code && !out) code = SIM_INVALID_VALUE;
    return code ? code : xre_begin();
}

/* Begins a call of a function of the thread's device; the second function stores its result at
 * `out`. */
static int xre_call(const char *function)
{
    int code = xre_enter(function);

    return code ? code : xre_use();
}

static int xre_call_for(const char *function, const void *out)
{
    int code = xre_call(function);

    return code || out ? code : SIM_INVALID_VALUE;
}

XRE_API int cudaGetDeviceCount(int *out);
int cudaGetDeviceCount(int *out)
{
    int code = xre_begin_call(__func__, out);

    return code ? code : sim_device_count(out);
}

XRE_API int cudaSetDevice(int device);
int cudaSetDevice(int device)
{
    int code = xre_begin_call(__func__, &device);

    if (code) return code;
    if (device < 0 || device >= sim.n_device) return SIM_INVALID_DEVICE;
    xre_device = device;
    return xre_use();
}

XRE_API int cudaGetDevice(int *out);
int cudaGetDevice(int *out)
{
    int code = xre_begin_call(__func__, out);

    if (!code) *out = xre_device;
    return code;
}

XRE_API const char *cudaGetErrorString(int code);
const char *cudaGetErrorString(int code)
{
    const char *text = NULL;

    return sim_error_text(code, &text) ? "unrecognized error code" : text;
}

XRE_API int cudaDeviceSynchronize(void);
int cudaDeviceSynchronize(void)
{
    int code = xre_call(__func__);

    return code ? code : sim_context_synchronize();
}

XRE_API int cudaMemGetInfo(size_t *out_free, size_t *out_total);
int cudaMemGetInfo(size_t *out_free, size_t *out_total)
{
    int code = xre_call_for(__func__, out_total);

    return code ? code : sim_memory_info(out_free, out_total);
}

XRE_API int cudaMalloc(void **out, size_t size);
int cudaMalloc(void **out, size_t size)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_memory_allocate(out, size);
}

XRE_API int cudaFree(void *memory);
int cudaFree(void *memory)
{
    int code = xre_call(__func__);

    return code ? code : sim_memory_free(memory);
}

XRE_API int cudaFreeHost(void *memory);
int cudaFreeHost(void *memory)
{
    int code = xre_call(__func__);

    return code ? code : sim_pinned_free(memory);
}

XRE_API int cudaStreamCreateWithFlags(void **out, unsigned flags);
int cudaStreamCreateWithFlags(void **out, unsigned flags)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_stream_create(out, flags);
}

XRE_API int cudaStreamDestroy(void *stream);
int cudaStreamDestroy(void *stream)
{
    int code = xre_call(__func__);

    return code ? code : sim_stream_destroy(stream);
}

XRE_API int cudaStreamSynchronize(void *stream);
int cudaStreamSynchronize(void *stream)
{
    int code = xre_call(__func__);

    return code ? code : sim_stream_synchronize(stream);
}

XRE_API int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    int code = xre_call(__func__);

    return code ? code : sim_stream_wait(stream, event, flags);
}

XRE_API int cudaEventCreateWithFlags(void **out, unsigned flags);
int cudaEventCreateWithFlags(void **out, unsigned flags)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_event_create(out, flags);
}

XRE_API int cudaEventDestroy(void *event);
int cudaEventDestroy(void *event)
{
    int code = xre_call(__func__);

    return code ? code : sim_event_destroy(event);
}

XRE_API int cudaEventRecord(void *event, void *stream);
int cudaEventRecord(void *event, void *stream)
{
    int code = xre_call(__func__);

    return code ? code : sim_event_record(event, stream);
}

XRE_API int cudaEventQuery(void *event);
int cudaEventQuery(void *event)
{
    int code = xre_call(__func__);

    return code ? code : sim_event_query(event);
}

XRE_API int cudaEventSynchronize(void *event);
int cudaEventSynchronize(void *event)
{
    int code = xre_call(__func__);

    return code ? code : sim_event_synchronize(event);
}

XRE_API int cudaMallocHost(void **out, size_t size);
int cudaMallocHost(void **out, size_t size)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_pinned_allocate(out, size, PORTABLE);
}

XRE_API int cudaMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream);
int cudaMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream)
{
    int code = xre_call(__func__);

    if (code) return code;
    switch (kind) {
    case TO_DEVICE: return sim_copy_in(dst, src, size, stream);
    case TO_HOST: return sim_copy_out(dst, src, size, stream);
    case WITHIN_DEVICE: return sim_copy_within(dst, src, size, stream);
    default: return SIM_INVALID_VALUE;
    }
}

#ifndef XRE_FEW
XRE_API int cudaHostAlloc(void **out, size_t size, unsigned flags);
int cudaHostAlloc(void **out, size_t size, unsigned flags)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_pinned_allocate(out, size, flags);
}

XRE_API int cudaMallocManaged(void **out, size_t size, unsigned flags);
int cudaMallocManaged(void **out, size_t size, unsigned flags)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_managed_allocate(out, size, flags);
}

XRE_API int cudaDriverGetVersion(int *out);
int cudaDriverGetVersion(int *out)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_driver_version(out);
}

XRE_API int cudaSetDeviceFlags(unsigned flags);
int cudaSetDeviceFlags(unsigned flags)
{
    int code = xre_call(__func__);

    return code ? code : sim_context_flags(flags);
}

XRE_API int cudaDeviceGetPCIBusId(char *out, int size, int device);
int cudaDeviceGetPCIBusId(char *out, int size, int device)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_device_pci(out, size, device);
}

XRE_API int cudaDeviceCanAccessPeer(int *out, int device, int peer);
int cudaDeviceCanAccessPeer(int *out, int device, int peer)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_peer_possible(out, device, peer);
}

XRE_API int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamBeginCapture(void *stream, int mode)
{
    int code = xre_call(__func__);

    return code ? code : sim_capture_begin(stream, mode);
}

/* A call that fails on demand ends the capture, too: no call leaves a stream captured. */
XRE_API int cudaStreamEndCapture(void *stream, void **out);
int cudaStreamEndCapture(void *stream, void **out)
{
    int demanded = xre_enter(__func__), code = xre_use();

    if (!code && !out) code = SIM_INVALID_VALUE;
    if (!code) code = sim_capture_end(stream, out);
    if (!demanded || code) return code;
    sim_graph_destroy(*out);
    *out = NULL;
    return demanded;
}

XRE_API int cudaGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags);
int cudaGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags)
{
    int code = xre_call_for(__func__, out);

    return code ? code : sim_graph_instantiate(out, graph, flags);
}

XRE_API int cudaGraphDestroy(void *graph);
int cudaGraphDestroy(void *graph)
{
    int code = xre_call(__func__);

    return code ? code : sim_graph_destroy(graph);
}

XRE_API int cudaGraphLaunch(void *program, void *stream);
int cudaGraphLaunch(void *program, void *stream)
{
    int code = xre_call(__func__);

    return code ? code : sim_program_launch(program, stream);
}

XRE_API int cudaGraphExecDestroy(void *program);
int cudaGraphExecDestroy(void *program)
{
    int code = xre_call(__func__);

    return code ? code : sim_program_destroy(program);
}

/* Work that fills memory. */
struct xre_fill {
    void *memory;
    int value;
    size_t size;
};

static int xre_run_fill(void *work, int code)
{
    const struct xre_fill *fill = work;
    void *at = sim_reach(fill->memory, fill->size);

    if (code || !at) return code ? code : SIM_ILLEGAL_ADDRESS;
    memset(at, fill->value, fill->size);
    return SIM_SUCCESS;
}

XRE_API int cudaMemsetAsync(void *memory, int value, size_t size, void *stream);
int cudaMemsetAsync(void *memory, int value, size_t size, void *stream)
{
    const struct xre_fill fill = {memory, value, size};
    int code = xre_call(__func__);

    if (code) return code;
    pthread_mutex_lock(&sim.lock);
    if (!sim_reach(memory, size)) code = SIM_INVALID_VALUE;
    else code = sim_submit(stream, xre_run_fill, &fill, sizeof fill);
    pthread_mutex_unlock(&sim.lock);
    return code;
}

/* Attributes by CUDA's numbers: multiprocessors, managed memory, and managed memory that the host
 * may use at any time. */
XRE_API int cudaDeviceGetAttribute(int *out, int attribute, int device);
int cudaDeviceGetAttribute(int *out, int attribute, int device)
{
    int code = xre_begin_call(__func__, out);

    if (code) return code;
    switch (attribute) {
    case 16: return sim_device_attribute(out, 1, device);
    case 83: return sim_device_attribute(out, 4, device);
    case 89: return sim_device_attribute(out, 5, device);
    default: return SIM_INVALID_VALUE;
    }
}

XRE_API int cudaDeviceEnablePeerAccess(int peer, unsigned flags);
int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    void *context = NULL;
    int code = xre_call(__func__);

    if (!code) code = context_of(peer, &context);
    return code ? code : sim_peer_enable(context, flags);
}

XRE_API int cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t size,
                                void *stream);
int cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t size, void *stream)
{
    void *context[2] = {NULL, NULL};
    int code = xre_call(__func__);

    if (!code) code = context_of(to, &context[0]);
    if (!code) code = context_of(from, &context[1]);
    return code ? code : sim_copy_peer(dst, context[0], src, context[1], size, stream);
}
#endif
