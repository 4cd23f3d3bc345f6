/* SPDX-License-Identifier: Apache-2.0 */
/* scope.c: maps the names of a graph or function to slots. */
#include "resolve.h"
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct named {
    const char *name; /* owned by the model's message */
    uint32_t slot;
};

static int scope_by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

bool onnx_scope_find(const struct scope *scope, const char *name, uint32_t *out_slot)
{
    const struct named wanted = {name, 0};

    for (; scope; scope = scope->outer) {
        void *const *found = tfind(&wanted, &scope->names, scope_by_name);
        if (!found) continue;
        *out_slot = ((const struct named *)*found)->slot;
        return true;
    }
    return false;
}

enum bp_status onnx_scope_bind(struct scope *scope, const char *name, uint32_t slot)
{
    struct named *entry = malloc(sizeof *entry), **found;

    if (!entry) return onnx_no_memory();
    *entry = (struct named){name, slot};
    found = tsearch(entry, &scope->names, scope_by_name);
    if (found && *found == entry) return BP_OK;
    free(entry);
    return found ? onnx_error(BP_ERR_INVALID, "model: the name '%.80s' is made twice", name)
                 : onnx_no_memory();
}

/* Adds a slot that nodes of the body `owner` set; NULL: a weight. */
static enum bp_status add_slot(struct resolver *r, const struct onnx_body *owner,
                               uint32_t *out_slot)
{
    uint32_t n = r->model->n_slot;

    if (!(n & (n - 1))) {
        size_t room = n ? 2 * (size_t)n : 1;
        const struct onnx_body **grown = realloc(r->owner, room * sizeof *grown);
        struct onnx_weight *weight;
        if (!grown) return onnx_no_memory();
        r->owner = grown;
        weight = realloc(r->model->weight, room * sizeof *weight);
        if (!weight) return onnx_no_memory();
        r->model->weight = weight;
    }
    r->owner[n] = owner;
    r->model->weight[n] = (struct onnx_weight){0};
    *out_slot = r->model->n_slot++;
    return BP_OK;
}

enum bp_status onnx_scope_new(struct resolver *r, const char *name, uint32_t *out_slot)
{
    if (!*name) return onnx_error(BP_ERR_INVALID, "model: an input has no name");
    TRY(add_slot(r, r->body, out_slot));
    return onnx_scope_bind(r->scope, name, *out_slot);
}

enum bp_status onnx_scope_weight(struct resolver *r, const char *name,
                                 const Onnx__TensorProto *tensor,
                                 const Onnx__SparseTensorProto *sparse)
{
    uint32_t slot = 0;

    if (!*name) return onnx_error(BP_ERR_INVALID, "model: an initialiser has no name");
    TRY(add_slot(r, NULL, &slot));
    r->model->weight[slot] = (struct onnx_weight){tensor, sparse};
    return onnx_scope_bind(r->scope, name, slot);
}

bool onnx_scope_is_weight(const struct resolver *r, const char *name)
{
    const struct scope own = {.names = r->scope->names};
    uint32_t slot;

    return onnx_scope_find(&own, name, &slot) && !r->owner[slot];
}

void onnx_scope_finish(struct scope *scope)
{
    tdestroy(scope->names, free);
    scope->names = NULL;
}
