/* SPDX-License-Identifier: Apache-2.0 */
/* template_apply.c: fills the numbers of a parameter into a copy of a graph or of its
 * representation. */
#include "templates.h"

#include <stdlib.h>
#include <string.h>

struct application {
    const struct bp_changes *changes;
    const struct bp_parts *to;
    int64_t steps; /* the parameter less that of the base */
};

/* Gives each value that differs a type of its own. */
static enum bp_status apply_extents(const struct application *a)
{
    const struct bp_changes *c = a->changes;

    for (uint32_t i = 0; i < c->n_extent;) {
        uint32_t v = c->extent[i].index;
        struct bp_typed_view **slot = bp_parts_type(a->to, v), *own = malloc(sizeof *own);
        struct bp_type type = {.dtype = (*slot)->view.dtype, .rank = (*slot)->view.rank};
        if (!own) return bp_template_no_memory();
        memcpy(type.shape, (*slot)->shape, sizeof type.shape);
        for (; i < c->n_extent && c->extent[i].index == v; i++)
            type.shape[c->extent[i].offset] = c->extent[i].first + c->extent[i].slope * a->steps;
        *own = **slot;
        bp_typed_view_dense(own, &type);
        own->view.layout = (*slot)->view.layout;
        *slot = own;
    }
    return BP_OK;
}

static void apply_attr(void *attrs, const struct bp_change *change, int64_t value)
{
    char *field = (char *)attrs + change->offset;
    struct bp_dims dims;

    if (change->is_list) {
        memcpy(&dims, field, sizeof dims);
        ((int64_t *)(uintptr_t)dims.at)[change->entry] = value;
    } else {
        memcpy(field + sizeof value * change->entry, &value, sizeof value);
    }
}

static enum bp_status apply_attrs(const struct application *a)
{
    const struct bp_changes *c = a->changes;

    for (uint32_t i = 0; i < c->n_attr;) {
        uint32_t n = c->attr[i].index;
        struct bp_node *node = bp_parts_node(a->to, n);
        void *own;
        TRY(bp_attrs_copy(&node->row->info, node->attrs, &own));
        node->attrs = own;
        for (; i < c->n_attr && c->attr[i].index == n; i++)
            apply_attr(own, &c->attr[i], c->attr[i].first + c->attr[i].slope * a->steps);
        TRY(bp_attrs_check(&node->row->info, own));
    }
    return BP_OK;
}

static void apply_constants(const struct application *a, const struct bp_changed_constants *all,
                            struct bp_tensor *const *made)
{
    for (uint32_t v = 0; all->n && v < a->to->n_value; v++) {
        struct bp_tensor **slot = bp_parts_constant(a->to, v);
        if (!a->changes->value[v] || !*slot) continue;
        for (uint32_t i = 0; i < all->n; i++) {
            if (all->list[i].base != *slot) continue;
            bp_tensor_destroy(*slot);
            *slot = bp_tensor_retain(made[i]);
            break;
        }
    }
}

/* Infers the types of a node's results and compares them with those of the template. */
static enum bp_status check_types(const struct application *a, const struct bp_node *node,
                                  struct bp_device *device, struct bp_invocation *inv)
{
    bp_invocation_of_node(node, device, inv);
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE)
            bp_invocation_set_type(inv, i, *bp_parts_type(a->to, node->out[i]));
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) inv->in[i] = &(*bp_parts_type(a->to, node->in[i]))->view;
    TRY(node->row->infer(inv));
    for (uint32_t i = 0; i < node->n_out; i++) {
        const struct bp_typed_view *type;
        if (node->out[i] == BP_NO_VALUE) continue;
        type = *bp_parts_type(a->to, node->out[i]);
        if (inv->out[i].dtype != type->view.dtype || inv->out[i].rank != type->view.rank ||
            !bp_same_extents(type->view.rank, inv->out[i].shape, type->shape))
            return bp_error(BP_ERR_UNSUPPORTED, "node %s (%s) has a result of another type",
                            node->name, node->row->info.name);
    }
    return BP_OK;
}

enum bp_status bp_changes_apply(const struct bp_changes *changes,
                                const struct bp_changed_constants *constants,
                                const struct bp_samples *samples, int64_t at,
                                struct bp_tensor *const *made, struct bp_device *device,
                                const struct bp_parts *to)
{
    const struct application a = {changes, to, at - samples->at[samples->base]};
    struct bp_invocation *inv;
    enum bp_status status = BP_OK;

    TRY(apply_extents(&a));
    TRY(apply_attrs(&a));
    apply_constants(&a, constants, made);
    inv = calloc(1, sizeof *inv);
    if (!inv) return bp_template_no_memory();
    for (uint32_t n = 0; n < to->n_node && !status; n++)
        if (changes->node[n]) status = check_types(&a, bp_parts_node(to, n), device, inv);
    free(inv);
    return status;
}
