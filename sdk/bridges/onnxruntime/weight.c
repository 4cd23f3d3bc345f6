/* SPDX-License-Identifier: Apache-2.0 */
/* weight.c: makes tensors of large initializers: over ONNX Runtime's memory or over the file that
 * has them, where the device reads host memory, and otherwise copies. */
#include "write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A part of a file in memory. */
struct mapping {
    void *at;
    size_t size;
};

static void mapping_finish(void *ctx)
{
    struct mapping *m = ctx;

    munmap(m->at, m->size);
    free(m);
}

/* Makes a tensor over a part of a buffer of size bytes, and gives the buffer up. */
static enum bp_status weight_at(struct ort_offer *offer, const struct ort_weight *w, void *data,
                                uint64_t skip, struct mapping *owner, struct bp_tensor **out)
{
    const struct bp_tensor_options o = {
        .size = sizeof o, .dtype = w->dtype, .rank = w->rank, .shape = w->shape};
    struct bp_buffer *buffer;
    enum bp_status status;

    status = bp_buffer_create_over(offer->device, data, skip + w->bytes,
                                   owner ? mapping_finish : NULL, owner, &buffer);
    if (status) {
        if (owner) mapping_finish(owner);
        return status;
    }
    status = bp_tensor_create_over(buffer, skip, &o, out);
    bp_buffer_destroy(buffer);
    return status;
}

/* Maps the part of a file that has the weight. ONNX Runtime reads such a file twice, to different
 * memory, so its memory at the load is not that of the runs. */
static enum bp_status weight_of_file(struct ort_offer *offer, const struct ort_weight *w,
                                     struct bp_tensor **out)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = w->offset % page;
    int file = open(w->file, O_RDONLY | O_CLOEXEC);
    struct mapping *m = malloc(sizeof *m);

    if (file < 0 || !m) {
        if (file >= 0) close(file);
        free(m);
        return BP_ERR_NOT_FOUND;
    }
    m->size = (size_t)(skip + w->bytes);
    m->at = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, file, (off_t)(w->offset - skip));
    close(file);
    if (m->at == MAP_FAILED) {
        free(m);
        return BP_ERR_NOT_FOUND;
    }
    return weight_at(offer, w, m->at, skip, m, out);
}

static enum bp_status weight_copy(struct ort_offer *offer, const struct ort_weight *w,
                                  struct bp_tensor **out)
{
    enum bp_status status = bp_tensor_create(offer->device, w->dtype, w->rank, w->shape, out);

    if (status) return status;
    pthread_mutex_lock(&offer->lock);
    status = bp_tensor_write(offer->stream, *out, w->data, w->bytes);
    if (status == BP_OK) status = bp_stream_synchronize(offer->stream);
    pthread_mutex_unlock(&offer->lock);
    if (status) bp_tensor_destroy(*out);
    return status;
}

/* ONNX Runtime keeps its memory as long as the session. It is used only if the first run can check
 * that the weight is still there. */
enum bp_status ort_weight_make(struct ort_offer *offer, const struct ort_weight *w,
                               struct bp_tensor **out)
{
    bool host = bridge_memory_is_host(offer->memory);

    if (host && w->file && weight_of_file(offer, w, out) == BP_OK) return BP_OK;
    if (host && w->input != UINT32_MAX &&
        weight_at(offer, w, (void *)(uintptr_t)w->data, 0, NULL, out) == BP_OK)
        return BP_OK;
    return weight_copy(offer, w, out);
}

/* Joins the model's folder and a path that is relative to it; NULL: no memory. */
static char *weight_path(const char *model, const char *relative)
{
    const char *slash = *relative == '/' ? NULL : strrchr(model, '/');
    size_t n = slash ? (size_t)(slash - model) + 1 : 0, size = n + strlen(relative) + 1;
    char *path = malloc(size);

    if (path) snprintf(path, size, "%.*s%s", (int)n, model, relative);
    return path;
}

struct ort_status *ort_weight_find_file(const struct ort_graph *graph,
                                        const struct ort_value_info *info, struct ort_weight *w)
{
    struct ort_external *external = NULL;
    const char *model = "";
    int64_t offset;

    TRY(ort.graph_path(graph, &model));
    TRY(ort.value_info_external(info, &external));
    if (!external) return NULL;
    offset = ort.external_offset(external);
    if (offset >= 0 && ort.external_bytes(external) == w->bytes) {
        w->file = weight_path(model, ort.external_path(external));
        w->offset = (uint64_t)offset;
    }
    ort.external_release(external);
    return NULL;
}
