/* SPDX-License-Identifier: Apache-2.0 */
/* template_compare.c: compares graphs, or their representations after the passes, and finds the
 * extents and attributes that depend on a parameter. */
#include "templates.h"

#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_MAX = 40
}; /* bits of a number that depends on the parameter */

struct comparison {
    const struct bp_samples *samples;
    const struct bp_parts *part; /* of each sample */
    struct bp_changes *changes;
    uint32_t room_extent, room_attr;
};

struct bp_parts bp_parts_of_graph(const struct bp_graph *g)
{
    return (struct bp_parts){.value = (char *)g->value,
                             .node = (char *)g->node,
                             .value_size = sizeof *g->value,
                             .node_size = sizeof *g->node,
                             .type_at = offsetof(struct bp_value, type),
                             .constant_at = offsetof(struct bp_value, constant),
                             .kind_at = offsetof(struct bp_value, kind),
                             .input = g->input,
                             .output = g->output,
                             .n_value = g->n_value,
                             .n_node = g->n_node,
                             .n_input = g->n_input,
                             .n_output = g->n_output};
}

struct bp_parts bp_parts_of_ir(const struct bp_ir *ir)
{
    _Static_assert(offsetof(struct bp_ir_node, call) == 0, "a node begins with its call");
    return (struct bp_parts){.value = (char *)ir->value,
                             .node = (char *)ir->node,
                             .value_size = sizeof *ir->value,
                             .node_size = sizeof *ir->node,
                             .type_at = offsetof(struct bp_ir_value, type),
                             .constant_at = offsetof(struct bp_ir_value, constant),
                             .kind_at = offsetof(struct bp_ir_value, kind),
                             .input = ir->input,
                             .output = ir->output,
                             .n_value = ir->n_value,
                             .n_node = ir->n_node,
                             .n_input = ir->n_input,
                             .n_output = ir->n_output};
}

bool bp_samples_line(const struct bp_samples *s, const int64_t *value, int64_t *out_first,
                     int64_t *out_slope)
{
    const int64_t limit = INT64_C(1) << NUMBER_MAX;
    uint32_t other = s->base ? 0 : 1;
    int64_t steps = s->at[other] - s->at[s->base], more;
    bool differ = false;

    for (uint32_t k = 0; k < s->n; k++) differ = differ || value[k] != value[s->base];
    *out_first = value[s->base];
    *out_slope = 0;
    if (!differ) return true;
    for (uint32_t k = 0; k < s->n; k++)
        if (value[k] > limit || value[k] < -limit || s->at[k] > limit || s->at[k] < -limit)
            return false;
    more = value[other] - value[s->base];
    if (!steps) return false;
    *out_slope = more / steps;
    for (uint32_t k = 0; k < s->n; k++) {
        int64_t expected;
        if (__builtin_mul_overflow(*out_slope, s->at[k] - s->at[s->base], &expected) ||
            value[k] - value[s->base] != expected)
            return false;
    }
    return true;
}

static enum bp_status add_change(struct bp_change **list, uint32_t *n, uint32_t *room,
                                 const struct bp_change *change)
{
    if (*n == *room) {
        uint32_t more = *room ? 2 * *room : 64;
        struct bp_change *grown = realloc(*list, more * sizeof *grown);
        if (!grown) return bp_template_no_memory();
        *list = grown;
        *room = more;
    }
    (*list)[(*n)++] = *change;
    return BP_OK;
}

/* ---- values ---- */

/* An axis of 1 or 0 places means something else than a longer one (broadcasts, empty tensors), so
 * that extents which depend on the parameter must be above 1 in all samples, and so between
 * them. */
static enum bp_status compare_extent(struct comparison *c, uint32_t v, uint32_t axis)
{
    struct bp_change change = {.index = v, .offset = axis};
    int64_t extent[BP_SAMPLES_MAX], least = INT64_MAX;

    for (uint32_t k = 0; k < c->samples->n; k++) {
        extent[k] = (*bp_parts_type(&c->part[k], v))->shape[axis];
        if (extent[k] < least) least = extent[k];
    }
    if (!bp_samples_line(c->samples, extent, &change.first, &change.slope))
        return bp_error(BP_ERR_UNSUPPORTED,
                        "axis %u of value %u does not depend on the parameter "
                        "by a sum with a multiple",
                        axis, v);
    if (!change.slope) return BP_OK;
    if (least < 2)
        return bp_error(BP_ERR_UNSUPPORTED, "axis %u of value %u has %lld places", axis, v,
                        (long long)least);
    c->changes->value[v] = true;
    return add_change(&c->changes->extent, &c->changes->n_extent, &c->room_extent, &change);
}

static enum bp_status compare_value(struct comparison *c, uint32_t v)
{
    const struct bp_typed_view *type = *bp_parts_type(c->part, v);

    for (uint32_t k = 1; k < c->samples->n; k++) {
        const struct bp_typed_view *other = *bp_parts_type(&c->part[k], v);
        if (bp_parts_kind(&c->part[k], v) != bp_parts_kind(c->part, v) ||
            bp_view_meta(&other->view) != bp_view_meta(&type->view) ||
            !*bp_parts_constant(&c->part[k], v) != !*bp_parts_constant(c->part, v))
            return bp_error(BP_ERR_UNSUPPORTED, "value %u is of another kind or type", v);
    }
    if (type->view.flags & BP_VIEW_STRIDED)
        return bp_error(BP_ERR_UNSUPPORTED, "value %u is strided", v);
    for (uint32_t a = 0; a < type->view.rank; a++) TRY(compare_extent(c, v, a));
    return BP_OK;
}

/* ---- nodes ---- */

static int64_t attr_integer(const struct bp_parts *part, uint32_t n, const struct bp_change *at)
{
    const char *field = (const char *)bp_parts_node(part, n)->attrs + at->offset;
    struct bp_dims dims;
    int64_t value;

    if (at->is_list) {
        memcpy(&dims, field, sizeof dims);
        return dims.at[at->entry];
    }
    memcpy(&value, field + sizeof value * at->entry, sizeof value);
    return value;
}

/* Numbers below 0 count from an end or stand for something else, so that a number keeps its
 * sign. */
static enum bp_status compare_integer(struct comparison *c, const struct bp_attr *a, uint32_t n,
                                      uint32_t entry)
{
    struct bp_change change = {
        .index = n, .offset = a->offset, .entry = entry, .is_list = a->kind == BP_ATTR_DIMS};
    int64_t value[BP_SAMPLES_MAX];
    uint32_t below = 0;

    for (uint32_t k = 0; k < c->samples->n; k++) {
        value[k] = attr_integer(&c->part[k], n, &change);
        below += value[k] < 0;
    }
    if (!bp_samples_line(c->samples, value, &change.first, &change.slope) ||
        (change.slope && below && below != c->samples->n))
        return bp_error(BP_ERR_UNSUPPORTED,
                        "attribute %s of node %s does not depend on the "
                        "parameter by a sum with a multiple",
                        a->name, bp_parts_node(c->part, n)->name);
    if (!change.slope) return BP_OK;
    c->changes->node[n] = true;
    return add_change(&c->changes->attr, &c->changes->n_attr, &c->room_attr, &change);
}

/* The number of integers of an attribute; UINT32_MAX: it differs, or other parts of the attribute
 * do. */
static uint32_t attr_count(const struct comparison *c, const struct bp_attr *a, uint32_t n)
{
    const char *first = (const char *)bp_parts_node(c->part, n)->attrs + a->offset;
    struct bp_dims dims = {0};

    if (a->kind == BP_ATTR_DIMS) memcpy(&dims, first, sizeof dims);
    for (uint32_t k = 1; k < c->samples->n; k++) {
        const char *other = (const char *)bp_parts_node(&c->part[k], n)->attrs + a->offset;
        struct bp_dims o;
        if (a->kind == BP_ATTR_DIMS) {
            memcpy(&o, other, sizeof o);
            if (o.n != dims.n) return UINT32_MAX;
        } else if (a->kind != BP_ATTR_I64 && a->kind != BP_ATTR_INTS) {
            if (memcmp(first, other, 8u * a->count) != 0) return UINT32_MAX;
        }
    }
    if (a->kind == BP_ATTR_DIMS) return (uint32_t)dims.n;
    return a->kind == BP_ATTR_I64 || a->kind == BP_ATTR_INTS ? a->count : 0;
}

static enum bp_status compare_attrs(struct comparison *c, uint32_t n)
{
    const struct bp_node *node = bp_parts_node(c->part, n);
    const struct bp_opinfo *op = &node->row->info;

    for (uint32_t i = 0; node->attrs && i < op->n_attr; i++) {
        uint32_t count = attr_count(c, &op->attr[i], n);
        if (count == UINT32_MAX)
            return bp_error(BP_ERR_UNSUPPORTED, "attribute %s of node %s differs", op->attr[i].name,
                            node->name);
        for (uint32_t e = 0; e < count; e++) TRY(compare_integer(c, &op->attr[i], n, e));
    }
    return BP_OK;
}

/* The members behind the declared ports and the bound variables are not set. */
static bool same_ports(const struct bp_node *a, const struct bp_node *b)
{
    const struct bp_opinfo *op = &a->row->info;

    for (uint32_t i = 0; i < BP_VAR_COUNT; i++)
        if (a->bound >> i & 1 && a->dtype[i] != b->dtype[i]) return false;
    return !memcmp(a->in_at, b->in_at, (op->n_in + 1u) * sizeof *a->in_at) &&
           (!a->row->varies || !memcmp(a->out_at, b->out_at, (op->n_out + 1u) * sizeof *a->out_at));
}

static bool same_call(const struct bp_node *a, const struct bp_node *b)
{
    return a->row == b->row && a->n_in == b->n_in && a->n_out == b->n_out && a->want == b->want &&
           a->bound == b->bound && !a->attrs == !b->attrs && !a->kernel == !b->kernel &&
           (!a->kernel || !strcmp(a->kernel, b->kernel)) && !strcmp(a->name, b->name) &&
           same_ports(a, b) && !memcmp(a->in, b->in, a->n_in * sizeof *a->in) &&
           !memcmp(a->out, b->out, a->n_out * sizeof *a->out);
}

static enum bp_status compare_node(struct comparison *c, uint32_t n)
{
    const struct bp_node *node = bp_parts_node(c->part, n);

    if (node->row->random || node->row->bound)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s draws random numbers, or its extents depend on "
                        "data",
                        node->row->info.name);
    for (uint32_t k = 1; k < c->samples->n; k++)
        if (!same_call(node, bp_parts_node(&c->part[k], n)))
            return bp_error(BP_ERR_UNSUPPORTED, "node %s (%s) differs", node->name,
                            node->row->info.name);
    return compare_attrs(c, n);
}

static enum bp_status compare_sizes(const struct comparison *c)
{
    const struct bp_parts *p = c->part;

    for (uint32_t k = 1; k < c->samples->n; k++) {
        const struct bp_parts *o = &c->part[k];
        if (o->n_value != p->n_value || o->n_node != p->n_node || o->n_input != p->n_input ||
            o->n_output != p->n_output ||
            memcmp(o->input, p->input, p->n_input * sizeof *p->input) != 0 ||
            memcmp(o->output, p->output, p->n_output * sizeof *p->output) != 0)
            return bp_error(BP_ERR_UNSUPPORTED,
                            "there are %u nodes and %u values instead of %u "
                            "and %u, or other inputs and outputs",
                            o->n_node, o->n_value, p->n_node, p->n_value);
    }
    return BP_OK;
}

enum bp_status bp_changes_find(const struct bp_samples *samples, const struct bp_parts *part,
                               struct bp_changes *out)
{
    struct comparison c = {.samples = samples, .part = part, .changes = out};

    *out = (struct bp_changes){.value = calloc(part->n_value + 1, sizeof *out->value),
                               .node = calloc(part->n_node + 1, sizeof *out->node)};
    if (!out->value || !out->node) return bp_template_no_memory();
    TRY(compare_sizes(&c));
    for (uint32_t v = 0; v < part->n_value; v++) TRY(compare_value(&c, v));
    for (uint32_t n = 0; n < part->n_node; n++) TRY(compare_node(&c, n));
    return BP_OK;
}

void bp_changes_finish(struct bp_changes *changes)
{
    free(changes->extent);
    free(changes->attr);
    free(changes->value);
    free(changes->node);
    *changes = (struct bp_changes){0};
}
