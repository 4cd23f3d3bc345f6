/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c: keeps constant inputs as packing entries wrote them (portable.h). Plans share them: a
 * model that runs with several shapes has a plan for each shape and constant. */
#include "xpu.h"

#include <stdlib.h>
#include <string.h>

struct portable_kept {
    struct kit_cached kit; /* must be first */
    struct xpu_device *device;
    cl_mem buffer;
    uint32_t input;
};

/* The constant, and the packing; behind it are the arguments of the entry. */
struct kept_key {
    uint64_t constant;
    cl_mem from;
    void *at;
    int64_t count, input, number, type; /* number: of the entry */
};

/* Writes the key to memory from malloc. *out_size is 0 if the constant is not shared. NULL: no
 * memory. */
static void *kept_key(const struct bp_prep *prep, uint32_t input, const struct portable *pack,
                      size_t *out_size)
{
    bool is_shared = BP_HAS(prep, constant) && prep->constant && prep->constant[input];
    const struct bp_view *view = prep->in[input];
    struct kept_key key = {.constant = is_shared ? prep->constant[input] : 0,
                           .from = view->memory,
                           .at = view->data,
                           .count = pack->count,
                           .input = input,
                           .number = portable_entry_number(pack->family, pack->entry),
                           .type = (int64_t)pack->type};
    char *out = malloc(sizeof key + pack->args_size);

    *out_size = is_shared ? sizeof key + pack->args_size : 0;
    if (!out) return NULL;
    memcpy(out, &key, sizeof key);
    memcpy(out + sizeof key, pack->args, pack->args_size);
    return out;
}

/* Runs the entry with new memory and waits for its end. */
static bool kept_fill(struct xpu_device *d, const struct bp_prep *prep, const struct portable *pack,
                      size_t bytes, struct portable_kept *kept)
{
    const struct xpu_calls *call = d->self->call;
    struct bp_launch launch = {.self = d->self, .kernel = prep->kernel, .device = d->number};
    struct portable p = *pack;
    cl_int code = CL_SUCCESS;

    kept->buffer = call->clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (!kept->buffer) return false;
    p.n_operand = 0;
    portable_kept_append(&p, kept);
    portable_view(&p, prep->in[kept->input]);
    if (portable_run(&launch, &p) == BP_OK && call->clFinish(d->common->queue) == CL_SUCCESS)
        return true;
    xpu_buffer_release(d->self, kept->buffer);
    return false;
}

/* Under the lock of packed constants. */
static struct portable_kept *kept_make(struct xpu_device *d, const struct bp_prep *prep,
                                       uint32_t input, const struct portable *pack, size_t bytes)
{
    struct portable_kept *kept = calloc(1, sizeof *kept);

    if (!kept) return NULL;
    kept->device = d;
    kept->input = input;
    if (kept_fill(d, prep, pack, bytes, kept)) return kept;
    free(kept);
    return NULL;
}

static void kept_drop(struct xpu *self, struct portable_kept *kept)
{
    xpu_buffer_release(self, kept->buffer);
    free(kept);
}

struct portable_kept *portable_keep(void *p, const struct bp_prep *prep, uint32_t input,
                                    const struct portable *pack, size_t bytes, uint64_t *out_bytes)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[prep->device];
    struct portable_kept *kept;
    size_t size;
    void *key;

    if (!(prep->in[input]->flags & BP_VIEW_CONSTANT) || !prep->in[input]->memory) return NULL;
    key = kept_key(prep, input, pack, &size);
    if (!key) return NULL;
    pthread_mutex_lock(&d->kept_lock);
    *out_bytes = 0;
    kept = (struct portable_kept *)kit_cache_take(&d->kept, key, size);
    if (!kept) {
        kept = kept_make(d, prep, input, pack, bytes);
        *out_bytes = bytes;
        if (kept && !kit_cache_add(&d->kept, &kept->kit, key, size)) {
            kept_drop(self, kept);
            kept = NULL;
        }
    }
    pthread_mutex_unlock(&d->kept_lock);
    free(key);
    return kept;
}

uint32_t portable_kept_input(const struct portable_kept *kept)
{
    return kept->input;
}

void portable_kept_append(struct portable *p, const struct portable_kept *kept)
{
    p->operand[p->n_operand++] = (struct portable_operand){NULL, kept->buffer};
}

void portable_kept_destroy(void *self, const struct bp_kernel *row, void *plan)
{
    struct portable_kept *kept = plan;
    struct kit_cached *unused;
    struct xpu_device *d;

    (void)row;
    if (!kept) return;
    d = kept->device;
    pthread_mutex_lock(&d->kept_lock);
    kept->kit.users--;
    unused = kit_cache_remove(&d->kept, 0);
    pthread_mutex_unlock(&d->kept_lock);
    if (unused) kept_drop(self, (struct portable_kept *)unused);
}
