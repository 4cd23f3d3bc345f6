/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_kept.c: caches cuDNN's graphs for each device, so that plans of equal convolutions share
 * them. Making a graph can take 0.1 s, since cuDNN compiles kernels for it, and 8 MB of host
 * memory; and for some graphs that are destroyed cuDNN 9.19 does not free about 70 KB. Therefore
 * the cache also keeps the last few graphs that no plan uses. */
#include "cudnn_plan.h"
#include <string.h>

enum { UNUSED = 8 }; /* number of unused graphs that a device keeps */

/* All inputs of a graph. Keys are compared as bytes. */
struct key {
    int64_t alignment;
    int kind, dtype, rank, adds_bias, adds_residual, adds_relu;
    int shape[TENSORS][AXES], stride[TENSORS][AXES];
    struct cudnn_steps steps;
};
_Static_assert(sizeof(struct key) == sizeof(int64_t) + sizeof(int) * (18 + 2 * TENSORS * AXES),
               "no padding");

struct cudnn_kept {
    struct cudnn_graph graph; /* must be first: plans hold its address */
    struct key key;
    struct cudnn_kept *next; /* the graph that was used before this one */
    int users;
};

static struct key cudnn_kept_key_of(const struct cudnn_plan *p, int64_t alignment)
{
    struct key key = {.alignment = alignment, .kind = (int)p->kind, .dtype = p->dtype,
                      .rank = p->rank, .adds_bias = p->adds_bias, .adds_residual = p->adds_residual,
                      .adds_relu = p->adds_relu, .steps = p->steps};

    memcpy(key.shape, p->shape, sizeof key.shape);
    memcpy(key.stride, p->stride, sizeof key.stride);
    return key;
}

static void cudnn_kept_destroy(const struct gpu_device *device, struct cudnn_kept *kept)
{
    const struct bp_host *host = device->gpu->host;

    cudnn_graph_drop(device, &kept->graph);
    host->release(host->ctx, kept, sizeof *kept);
}

static struct cudnn_kept *cudnn_kept_make(const struct cudnn_plan *p, const struct key *key)
{
    const struct bp_host *host = p->device->gpu->host;
    struct cudnn_kept *kept = host->allocate(host->ctx, sizeof *kept, _Alignof(struct cudnn_kept));

    if (!kept) return NULL;
    *kept = (struct cudnn_kept){.key = *key};
    if (cudnn_graph_make(p, key->alignment, &kept->graph)) return kept;
    host->release(host->ctx, kept, sizeof *kept);
    return NULL;
}

const struct cudnn_graph *cudnn_graph_take(const struct cudnn_plan *p, int64_t alignment)
{
    const struct key key = cudnn_kept_key_of(p, alignment);
    struct cudnn_kept **at = &p->device->graphs, *kept;

    while (*at && memcmp(&(*at)->key, &key, sizeof key)) at = &(*at)->next;
    kept = *at;
    if (kept) *at = kept->next;
    else kept = cudnn_kept_make(p, &key);
    if (!kept) return NULL;
    kept->users++;
    kept->next = p->device->graphs;
    p->device->graphs = kept;
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
