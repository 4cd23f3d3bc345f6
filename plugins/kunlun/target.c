/* SPDX-License-Identifier: Apache-2.0 */
/* target.c: defines the names and constants of Kunlun's runtime, XRE 5, for plugins/gpu. The
 * library has the names and numbers of CUDA's runtime. There is no compiler for its kernels here,
 * so the plugin has the rows of XBLAS only. docs/targets.md lists what is not known. */
#include "runtime.h"

static const char *const libraries[] = {"libcudart.so*", NULL};
static const char *const xblas[] = {"libxpu_blas*.so*", "libcublas.so*", NULL};

/* XRE's usual folders; Python packages bring the libraries too. */
#define KUNLUN_FOLDERS \
    "$XPU_TOOLKIT_ROOT/so:$XPU_TOOLKIT_ROOT/lib64:/usr/local/xpu/so:/usr/local/xpu*/so:" \
    "$VIRTUAL_ENV/lib/python3*/site-packages/torch_xmlir:" \
    "$CONDA_PREFIX/lib/python3*/site-packages/torch_xmlir"

const struct gpu_target gpu_target = {
    .libraries = libraries,
    .no_driver = "no runtime of XRE 5",
    .no_device = "no Kunlun device",
    .nodes = "/dev/xpu[0-9c]*",
    .lost = "start the process again",
    .driver = "XRE",
    .major = 1000,
    .minor = 10,
    .symbol =
        {
#define NAME(call, name) [GPU_CALL_##call] = name
            NAME(error_text, "cudaGetErrorString"),
            NAME(initialise, "cudaGetDeviceCount"),
            NAME(driver_version, "cudaDriverGetVersion"),
            NAME(device_count, "cudaGetDeviceCount"),
            NAME(device_get, "cudaGetDevice"),
            NAME(device_name, "cudaGetDeviceProperties"),
            NAME(device_memory, "cudaMemGetInfo"),
            NAME(device_attribute, "cudaDeviceGetAttribute"),
            NAME(device_pci, "cudaDeviceGetPCIBusId"),
            NAME(context_retain, "cudaSetDevice"),
            NAME(context_release, "cudaSetDevice"),
            NAME(context_get, "cudaGetDevice"),
            NAME(context_set, "cudaSetDevice"),
            NAME(context_flags, "cudaSetDeviceFlags"),
            NAME(context_synchronize, "cudaDeviceSynchronize"),
            NAME(memory_info, "cudaMemGetInfo"),
            NAME(memory_allocate, "cudaMalloc"),
            NAME(memory_free, "cudaFree"),
            NAME(pinned_allocate, "cudaHostAlloc"),
            NAME(pinned_free, "cudaFreeHost"),
            NAME(managed_allocate, "cudaMallocManaged"),
            NAME(copy_in, "cudaMemcpyAsync"),
            NAME(copy_out, "cudaMemcpyAsync"),
            NAME(copy_within, "cudaMemcpyAsync"),
            NAME(stream_create, "cudaStreamCreateWithFlags"),
            NAME(stream_destroy, "cudaStreamDestroy"),
            NAME(stream_synchronize, "cudaStreamSynchronize"),
            NAME(stream_wait, "cudaStreamWaitEvent"),
            NAME(event_create, "cudaEventCreateWithFlags"),
            NAME(event_destroy, "cudaEventDestroy"),
            NAME(event_record, "cudaEventRecord"),
            NAME(event_query, "cudaEventQuery"),
            NAME(event_synchronize, "cudaEventSynchronize"),
            NAME(peer_possible, "cudaDeviceCanAccessPeer"),
            NAME(peer_enable, "cudaDeviceEnablePeerAccess"),
            NAME(copy_peer, "cudaMemcpyPeerAsync"),
            NAME(capture_begin, "cudaStreamBeginCapture"),
            NAME(capture_end, "cudaStreamEndCapture"),
            NAME(graph_instantiate, "cudaGraphInstantiateWithFlags"),
            NAME(graph_destroy, "cudaGraphDestroy"),
            NAME(program_launch, "cudaGraphLaunch"),
            NAME(program_destroy, "cudaGraphExecDestroy"),
#undef NAME
        },
    .units = 16,         /* cudaDevAttrMultiProcessorCount */
    .managed = {83, 89}, /* cudaDevAttrManagedMemory, .._ConcurrentManagedAccess */
    .arch = "",
    .targets = "",
    .driver_folders = KUNLUN_FOLDERS,
    .folders = KUNLUN_FOLDERS,
    .vendor = {[GPU_VENDOR_XBLAS] = xblas},
    .own = &kunlun_own,
};
