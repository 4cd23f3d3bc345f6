/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_kept.c: keeps cuDNN's graphs by their keys; see cudnn_kept.h. Making a graph can take
 * 0.1 s, since cuDNN compiles kernels for it, and 8 MB of host memory; and for some graphs that are
 * destroyed cuDNN 9.19 does not free about 70 KB. Therefore the cache also keeps the last few
 * graphs that no plan uses. */
#include "cudnn_kept.h"

enum { UNUSED = 8 }; /* number of unused graphs that a device keeps */

struct cudnn_kept {
    struct kit_cached kit; /* must be first */
    struct cudnn_graph graph;
};

static void cudnn_kept_destroy(const struct gpu_device *device, struct kit_cached *object)
{
    const struct bp_host *host = device->gpu->host;
    struct cudnn_kept *kept = (struct cudnn_kept *)object;

    cudnn_graph_drop(device, &kept->graph);
    host->release(host->ctx, kept, sizeof *kept);
}

static struct cudnn_kept *cudnn_kept_make(struct gpu_device *device, const void *key, size_t size,
                                          cudnn_graph_fn *make, const void *of)
{
    const struct bp_host *host = device->gpu->host;
    struct cudnn_kept *kept = host->allocate(host->ctx, sizeof *kept, _Alignof(struct cudnn_kept));

    if (!kept) return NULL;
    *kept = (struct cudnn_kept){.graph = {.n = 0}};
    if (!make(of, &kept->graph)) {
        host->release(host->ctx, kept, sizeof *kept);
    } else {
        if (kit_cache_add(&device->graphs, &kept->kit, key, size)) return kept;
        cudnn_kept_destroy(device, &kept->kit);
    }
    return NULL;
}

const struct cudnn_graph *cudnn_kept_take(struct gpu_device *device, const void *key, size_t size,
                                          cudnn_graph_fn *make, const void *of)
{
    struct cudnn_kept *kept = (struct cudnn_kept *)kit_cache_take(&device->graphs, key, size);

    if (!kept) kept = cudnn_kept_make(device, key, size, make, of);
    return kept ? &kept->graph : NULL;
}

void cudnn_graph_return(struct gpu_device *device, const struct cudnn_graph *graph)
{
    struct kit_cached *kept;

    if (!graph) return;
    kept = (struct kit_cached *)((char *)graph - offsetof(struct cudnn_kept, graph));
    pthread_mutex_lock(&device->loading);
    kept->users--;
    while ((kept = kit_cache_remove(&device->graphs, UNUSED)) != NULL)
        cudnn_kept_destroy(device, kept);
    pthread_mutex_unlock(&device->loading);
}

void cudnn_forget(struct gpu_device *device)
{
    struct kit_cached *kept;

    while ((kept = kit_cache_empty(&device->graphs)) != NULL) cudnn_kept_destroy(device, kept);
}

enum bp_status cudnn_graph_enqueue(const struct gpu_device *device, const struct cudnn_graph *graph,
                                   struct gpu_stream *stream, int n, const int64_t *id,
                                   void *const *at, void *workspace)
{
    const char *function;
    enum bp_status status;
    void *handle;
    int code;

    pthread_mutex_lock(&stream->kit.lock);
    status = gpu_vendor_handle(stream, &gpu_cudnn, &handle);
    if (status == BP_OK) {
        code = cudnn_graph_execute(device, graph, handle, n, id, at, workspace, &function);
        status = gpu_vendor_check(device, &gpu_cudnn, function, code);
    }
    pthread_mutex_unlock(&stream->kit.lock);
    return status;
}
