/* SPDX-License-Identifier: Apache-2.0 */
/* reload.c: lets the core free the contents of large weights while only packed copies of them are
 * read (bp_tensor_set_source), and reads them again from the files of the model, which stay
 * open. */
#include "resolve.h"
#include "row.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RELOAD_MIN = 65536, /* bytes; smaller weights are not registered */
    RELOAD_FILES = 16   /* the most files of a model that stay open */
};

/* An open file, as it was when the model was loaded. */
struct onnx_file {
    struct onnx_file *next; /* of the files of a model that is being loaded */
    _Atomic uint32_t refs;
    int file;
    struct stat about;
    char name[160]; /* for messages */
};

struct reload {
    struct onnx_file *file; /* a reference */
    uint64_t offset;
};

static bool same_state(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void reload_close(struct onnx_file *f)
{
    if (atomic_fetch_sub(&f->refs, 1) != 1) return;
    close(f->file);
    free(f);
}

struct onnx_file *onnx_reload_file(struct bp_model *model, int file, const char *name)
{
    struct onnx_file *f;
    struct stat about;
    int n = 0;

    if (model->options.keep_weights || fstat(file, &about)) return NULL;
    for (f = model->file; f; f = f->next, n++)
        if (same_state(&f->about, &about)) return f;
    f = n < RELOAD_FILES ? calloc(1, sizeof *f) : NULL;
    if (!f) return NULL;
    f->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (f->file < 0) {
        free(f);
        return NULL;
    }
    atomic_init(&f->refs, 1);
    f->about = about;
    strncpy(f->name, name, sizeof f->name - 1);
    f->next = model->file;
    model->file = f;
    return f;
}

void onnx_reload_finish(struct bp_model *model)
{
    struct onnx_file *next;

    for (struct onnx_file *f = model->file; f; f = next) {
        next = f->next;
        reload_close(f);
    }
    model->file = NULL;
    free(model->place);
    model->place = NULL;
}

/* ---- sources ---- */

static enum bp_status reload_write(void *ctx, void *data, uint64_t bytes)
{
    const struct reload *r = ctx;
    uint64_t offset = r->offset;
    struct stat now;
    char *to = data;

    if (fstat(r->file->file, &now) || !same_state(&now, &r->file->about))
        return onnx_error(
            BP_ERR_INVALID,
            "%s was changed since the model was loaded, so its weights cannot be read "
            "again: load the model anew, or load it with options.keep_weights",
            r->file->name);
    while (bytes) {
        ssize_t n = pread(r->file->file, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return onnx_error(BP_ERR_INVALID, "%s: weights cannot be read again: %s", r->file->name,
                              n ? strerror(errno) : "the file has become shorter");
        to += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return BP_OK;
}

static void reload_release(void *ctx)
{
    struct reload *r = ctx;

    reload_close(r->file);
    free(r);
}

static enum bp_status reload_register(const struct onnx_place *place, struct bp_tensor *t)
{
    struct bp_tensor_source source = {
        .size = sizeof source, .write = reload_write, .release = reload_release};
    struct reload *r;
    enum bp_status status;

    if (!place->file || onnx_info(t).bytes < RELOAD_MIN) return BP_OK;
    r = malloc(sizeof *r);
    if (!r) return onnx_no_memory();
    *r = (struct reload){place->file, place->offset};
    atomic_fetch_add(&place->file->refs, 1);
    source.ctx = r;
    status = bp_tensor_set_source(t, &source);
    if (status) reload_release(r);
    return status;
}

enum bp_status onnx_reload_weights(struct bp_model *model)
{
    for (uint32_t slot = 0; model->place && slot < model->n_slot; slot++)
        if (model->constant[slot] && model->constant[slot]->tensor)
            TRY(reload_register(&model->place[slot], model->constant[slot]->tensor));
    return BP_OK;
}

/* ---- weights that are viewed ---- */

enum {
    READ_BY_VIEW = 1,
    READ_OTHERWISE = 2
};

static bool is_view(const struct onnx_node *node)
{
    static const char *const ops[] = {"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Flatten"};

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(onnx_text(node->proto->op_type), ops[i])) return true;
    return false;
}

static void reload_note_reads(const struct onnx_body *body, uint8_t *reads)
{
    for (uint32_t n = 0; n < body->n_node; n++) {
        const struct onnx_node *node = &body->node[n];
        for (uint32_t i = 0; i < node->n_in; i++)
            if (node->in[i] != ONNX_NO_SLOT)
                reads[node->in[i]] |= is_view(node) ? READ_BY_VIEW : READ_OTHERWISE;
        for (uint32_t i = 0; i < node->n_body; i++) reload_note_reads(&node->body[i], reads);
    }
    for (uint32_t i = 0; i < body->n_output; i++)
        if (body->output[i] != ONNX_NO_SLOT) reads[body->output[i]] |= READ_OTHERWISE;
}

enum bp_status onnx_reload_viewed(struct bp_model *model)
{
    uint8_t *reads = calloc(model->n_slot + 1, sizeof *reads);
    enum bp_status status = BP_OK;

    if (!reads) return onnx_no_memory();
    reload_note_reads(&model->body, reads);
    for (uint32_t slot = 0; slot < model->n_slot && !status; slot++) {
        struct onnx_place *place = &model->place[slot];
        if (!place->file || reads[slot] != READ_BY_VIEW) continue;
        status = onnx_freeze(model->constant[slot]);
        if (!status) status = reload_register(place, model->constant[slot]->tensor);
        place->file = NULL;
    }
    free(reads);
    return status;
}

void onnx_reload_describe(const struct bp_model *model, struct bp_model_info *info)
{
    for (uint32_t slot = 0; slot < model->n_slot; slot++) {
        struct bp_tensor_info t;
        if (!model->weight[slot].tensor) continue;
        t = onnx_info(model->constant[slot]->tensor);
        info->dropped_bytes += t.dropped ? t.bytes : 0;
        info->restores += t.restores;
    }
}
