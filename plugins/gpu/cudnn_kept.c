/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_kept.c: keeps cuDNN's graphs by their keys; see cudnn_kept.h. Making a graph can take
 * 0.1 s, since cuDNN compiles kernels for it, and 8 MB of host memory; and for some graphs that are
 * destroyed cuDNN 9.19 does not free about 70 KB. Therefore the cache also keeps the last few
 * graphs that no plan uses. */
#include "cudnn_kept.h"
#include <string.h>

enum {
    UNUSED = 8, /* number of unused graphs that a device keeps */
    KEY_MOST = 256
};

struct cudnn_kept {
    struct cudnn_graph graph; /* must be first: plans hold its address */
    struct cudnn_kept *next;  /* the graph that was used before this one */
    int users;
    size_t size; /* of the key */
    unsigned char key[KEY_MOST];
};

static void cudnn_kept_destroy(const struct gpu_device *device, struct cudnn_kept *kept)
{
    const struct bp_host *host = device->gpu->host;

    cudnn_graph_drop(device, &kept->graph);
    host->release(host->ctx, kept, sizeof *kept);
}

static struct cudnn_kept *cudnn_kept_make(const struct gpu_device *device, const void *key,
                                          size_t size, cudnn_graph_fn *make, const void *of)
{
    const struct bp_host *host = device->gpu->host;
    struct cudnn_kept *kept = host->allocate(host->ctx, sizeof *kept, _Alignof(struct cudnn_kept));

    if (!kept) return NULL;
    *kept = (struct cudnn_kept){.size = size};
    memcpy(kept->key, key, size);
    if (make(of, &kept->graph)) return kept;
    host->release(host->ctx, kept, sizeof *kept);
    return NULL;
}

const struct cudnn_graph *cudnn_kept_take(struct gpu_device *device, const void *key, size_t size,
                                          cudnn_graph_fn *make, const void *of)
{
    struct cudnn_kept **at = &device->graphs, *kept;

    if (size > KEY_MOST) return NULL;
    while (*at && ((*at)->size != size || memcmp((*at)->key, key, size))) at = &(*at)->next;
    kept = *at;
    if (kept) *at = kept->next;
    else kept = cudnn_kept_make(device, key, size, make, of);
    if (!kept) return NULL;
    kept->users++;
    kept->next = device->graphs;
    device->graphs = kept;
    return &kept->graph;
}

/* Destroys the graphs that no plan uses, except the last few. */
static void cudnn_kept_trim(struct gpu_device *device)
{
    struct cudnn_kept **at = &device->graphs, *kept;
    int unused = 0;

    while ((kept = *at) != NULL) {
        unused += !kept->users;
        if (kept->users || unused <= UNUSED) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        cudnn_kept_destroy(device, kept);
    }
}

void cudnn_graph_return(struct gpu_device *device, const struct cudnn_graph *graph)
{
    struct cudnn_kept *kept = (struct cudnn_kept *)graph;

    if (!kept) return;
    pthread_mutex_lock(&device->loading);
    kept->users--;
    cudnn_kept_trim(device);
    pthread_mutex_unlock(&device->loading);
}

void cudnn_forget(struct gpu_device *device)
{
    struct cudnn_kept *kept;

    while ((kept = device->graphs) != NULL) {
        device->graphs = kept->next;
        cudnn_kept_destroy(device, kept);
    }
}
