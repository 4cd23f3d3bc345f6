/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c: keeps constant inputs as packing entries wrote them (portable.h). Plans share them: a
 * model that runs with several shapes has a plan for each shape and constant. */
#include "xpu.h"

#include <stdlib.h>
#include <string.h>

struct portable_kept {
    struct portable_kept *next;
    struct xpu_device *device;
    cl_mem buffer;
    uint64_t plans; /* that use it */
    uint32_t input;
    /* The constant, and the packing. */
    uint64_t constant; /* 0: it is not shared */
    cl_mem from;
    void *at;
    int number; /* of the entry */
    enum portable_type type;
    int64_t count;
    size_t args_size;
    unsigned char args[];
};

static struct portable_kept *kept_find(const struct xpu_device *d, const struct portable_kept *like)
{
    for (struct portable_kept *k = d->kept; k && like->constant; k = k->next)
        if (k->constant == like->constant && k->from == like->from && k->at == like->at &&
            k->input == like->input && k->number == like->number && k->type == like->type &&
            k->count == like->count && k->args_size == like->args_size &&
            !memcmp(k->args, like->args, like->args_size))
            return k;
    return NULL;
}

/* Describes the result of `pack`, without memory for it. */
static struct portable_kept *kept_make(struct xpu_device *d, const struct bp_prep *prep,
                                       uint32_t input, const struct portable *pack)
{
    struct portable_kept *kept = malloc(sizeof *kept + pack->args_size);
    const struct bp_view *view = prep->in[input];

    if (!kept) return NULL;
    *kept = (struct portable_kept){.device = d,
                                   .plans = 1,
                                   .input = input,
                                   .from = view->memory,
                                   .at = view->data,
                                   .number = portable_entry_number(pack->family, pack->entry),
                                   .type = pack->type,
                                   .count = pack->count,
                                   .args_size = pack->args_size};
    if (BP_HAS(prep, constant) && prep->constant) kept->constant = prep->constant[input];
    memcpy(kept->args, pack->args, pack->args_size);
    return kept;
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

struct portable_kept *portable_keep(void *p, const struct bp_prep *prep, uint32_t input,
                                    const struct portable *pack, size_t bytes, uint64_t *out_bytes)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[prep->device];
    struct portable_kept *kept, *found;

    if (!(prep->in[input]->flags & BP_VIEW_CONSTANT) || !prep->in[input]->memory) return NULL;
    kept = kept_make(d, prep, input, pack);
    if (!kept) return NULL;
    pthread_mutex_lock(&d->kept_lock);
    found = kept_find(d, kept);
    if (found) {
        found->plans++;
    } else if (kept_fill(d, prep, pack, bytes, kept)) {
        kept->next = d->kept;
        d->kept = found = kept;
    }
    pthread_mutex_unlock(&d->kept_lock);
    *out_bytes = found == kept ? bytes : 0;
    if (found != kept) free(kept);
    return found;
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
    struct portable_kept *kept = plan, **at;
    bool ended;

    (void)row;
    if (!kept) return;
    pthread_mutex_lock(&kept->device->kept_lock);
    ended = !--kept->plans;
    for (at = &kept->device->kept; ended && *at != kept;) at = &(*at)->next;
    if (ended) *at = kept->next;
    pthread_mutex_unlock(&kept->device->kept_lock);
    if (!ended) return;
    xpu_buffer_release(self, kept->buffer);
    free(kept);
}
