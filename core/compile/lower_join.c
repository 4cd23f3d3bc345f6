/* SPDX-License-Identifier: Apache-2.0 */
/* lower_join.c: places the inputs of concat in the memory of its result, so that they need not be
 * copied there. Concats that each append to the result of the one before share the memory of the
 * last one: their results are slices of it. An elementwise node whose result only such a concat and
 * other elementwise nodes read writes its result there. Other inputs are copied into their slice.
 *
 * Slices have gaps between their elements unless the axis is the outermost one, so only nodes that
 * read gaps at full speed may read them; and only on devices whose launches run inline: kernels for
 * GPUs read tensors without gaps faster. */
#include "fuse.h"
#include "lower.h"

#include <backplane/attrs.h>
#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* The state of the search for joins. */
struct join_search {
    struct bp_lowering *l;
    const struct bp_ir *ir;
    bool *needs_dense; /* of each value: a node reads it that may be slow for gaps */
    uint32_t *last;    /* of each value: the last concat whose first input it is */
    uint32_t *next;    /* of each node: the concat that appends to its result, or BP_NO_VALUE */
    bool *appends;     /* of each node: it appends to the result of another concat */
};

static bool node_is_concat(const struct bp_ir *ir, const struct bp_node *node)
{
    return !bp_ir_has_layouts(ir, node) && node->row == &bp_opdef[BP_ROW_concat] &&
           node->n_in > 1 && node->out[0] != BP_NO_VALUE;
}

/* Whether the node's kernels read and write tensors with gaps at the speed of those without. */
static bool node_takes_gaps(const struct bp_ir *ir, const struct bp_node *node)
{
    if (bp_ir_has_layouts(ir, node)) return false;
    return bp_fuse_member_of(node->row) || node->row->broadcasts ||
           node->row == &bp_opdef[BP_ROW_fused] || node->row == &bp_opdef[BP_ROW_assign];
}

static uint32_t concat_axis(const struct bp_ir *ir, const struct bp_node *node)
{
    const struct bp_concat_attrs *a = node->attrs;

    return (uint32_t)(a->axis < 0 ? a->axis + ir->value[node->out[0]].type->view.rank : a->axis);
}

/* Whether the value has memory of its own, which neither the app nor an update sees. */
static bool value_is_private(const struct bp_ir *ir, uint32_t v)
{
    const struct bp_ir_value *value = &ir->value[v];

    return value->kind == BP_VALUE_RESULT && value->root == v && !value->returned &&
           !value->updated;
}

static enum bp_status search_init(struct join_search *s, struct bp_lowering *l)
{
    const struct bp_ir *ir = l->schedule->ir;

    *s = (struct join_search){.l = l, .ir = ir};
    l->n_place = ir->n_value;
    l->place = malloc((ir->n_value + 1) * sizeof *l->place);
    s->needs_dense = calloc(ir->n_value + 1, sizeof *s->needs_dense);
    s->last = malloc((ir->n_value + 1) * sizeof *s->last);
    s->next = malloc((ir->n_node + 1) * sizeof *s->next);
    s->appends = calloc(ir->n_node + 1, sizeof *s->appends);
    if (!l->place || !s->needs_dense || !s->last || !s->next || !s->appends)
        return bp_lower_no_memory();
    for (uint32_t v = 0; v < ir->n_value; v++) {
        l->place[v] = (struct bp_join_place){.join = BP_NO_VALUE};
        s->last[v] = BP_NO_VALUE;
    }
    for (uint32_t n = 0; n < ir->n_node; n++) s->next[n] = BP_NO_VALUE;
    return BP_OK;
}

static void search_finish(struct join_search *s)
{
    free(s->needs_dense);
    free(s->last);
    free(s->next);
    free(s->appends);
}

static void find_readers(struct join_search *s)
{
    for (uint32_t n = s->ir->first; n != BP_NO_VALUE; n = s->ir->node[n].next) {
        const struct bp_node *node = &s->ir->node[n].call;
        if (node_takes_gaps(s->ir, node) || node_is_concat(s->ir, node)) continue;
        for (uint32_t i = 0; i < node->n_in; i++)
            if (node->in[i] != BP_NO_VALUE) s->needs_dense[node->in[i]] = true;
    }
}

/* Whether the inputs of concat `less` are the first ones of concat `more`, which has others too. */
static bool inputs_begin(const struct bp_node *less, const struct bp_node *more)
{
    return less->n_in < more->n_in && !memcmp(less->in, more->in, less->n_in * sizeof *less->in);
}

/* Whether concat n appends to the result of concat m, which may become a slice of n's. */
static bool may_append(const struct join_search *s, uint32_t m, uint32_t n)
{
    const struct bp_node *less = &s->ir->node[m].call, *more = &s->ir->node[n].call;
    uint32_t result = less->out[0];

    return (more->in[0] == result || inputs_begin(less, more)) && s->next[m] == BP_NO_VALUE &&
           concat_axis(s->ir, less) == concat_axis(s->ir, more) &&
           value_is_private(s->ir, result) && !s->needs_dense[result];
}

static void find_chains(struct join_search *s)
{
    const struct bp_ir *ir = s->ir;

    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) {
        const struct bp_node *node = &ir->node[n].call;
        uint32_t first, m;
        if (!node_is_concat(ir, node)) continue;
        first = node->in[0];
        m = ir->value[first].kind == BP_VALUE_RESULT ? ir->value[first].node : BP_NO_VALUE;
        if (m == BP_NO_VALUE || !node_is_concat(ir, &ir->node[m].call) || !may_append(s, m, n))
            m = s->last[first];
        if (m != BP_NO_VALUE && may_append(s, m, n)) {
            s->next[m] = n;
            s->appends[n] = true;
        }
        s->last[first] = n;
    }
}

/* Whether the node that computes the value may write it into a slice. */
static bool may_write_slice(const struct join_search *s, uint32_t v)
{
    const struct bp_node *node;

    if (!value_is_private(s->ir, v) || s->needs_dense[v]) return false;
    if (s->l->place[v].join != BP_NO_VALUE) return false;
    node = &s->ir->node[s->ir->value[v].node].call;
    return node_takes_gaps(s->ir, node) && node->n_out == 1;
}

/* Gives places in the join to those inputs of concat n that their nodes may write there. `begin`:
 * the first input that the concat before does not join. Returns how many there are. */
static uint32_t place_parts(struct join_search *s, uint32_t n, uint32_t join, uint32_t begin)
{
    const struct bp_node *node = &s->ir->node[n].call;
    uint32_t axis = concat_axis(s->ir, node), placed = 0;
    int64_t at = 0;

    for (uint32_t i = 0; i < node->n_in; i++) {
        if (i >= begin && may_write_slice(s, node->in[i])) {
            s->l->place[node->in[i]] = (struct bp_join_place){.join = join, .at = at};
            placed++;
        }
        at += s->ir->value[node->in[i]].type->shape[axis];
    }
    return placed;
}

/* Makes a join of the concats from n on, if it saves copies. */
static void join_chain(struct join_search *s, uint32_t n)
{
    struct bp_lowering *l = s->l;
    uint32_t last = n, concats = 0, parts = 0, begin = 0;
    uint32_t join = l->n_join;

    while (s->next[last] != BP_NO_VALUE) last = s->next[last];
    const struct bp_node *end = &s->ir->node[last].call;
    if (!value_is_private(s->ir, end->out[0])) return;
    for (uint32_t m = n; m != BP_NO_VALUE; m = s->next[m], concats++) {
        const struct bp_node *node = &s->ir->node[m].call;
        uint32_t after = s->next[m];
        parts += place_parts(s, m, join, begin);
        if (after != BP_NO_VALUE)
            begin = s->ir->node[after].call.in[0] == node->out[0] ? 1 : node->n_in;
    }
    if (concats < 2 && !parts) return;
    for (uint32_t m = n; m != BP_NO_VALUE; m = s->next[m])
        l->place[s->ir->node[m].call.out[0]] = (struct bp_join_place){.join = join,
                                                                      .is_result = true};
    l->join[l->n_join++] = (struct bp_join){.root = BP_NO_VALUE,
                                            .axis = concat_axis(s->ir, end),
                                            .type = s->ir->value[end->out[0]].type};
}

enum bp_status bp_joins_find(struct bp_lowering *l)
{
    const struct bp_ir *ir = l->schedule->ir;
    struct join_search s;
    enum bp_status status;
    uint32_t concats = 0;

    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        concats += node_is_concat(ir, &ir->node[n].call);
    if (!concats || !ir->device->is_inline) return BP_OK;
    l->join = malloc(concats * sizeof *l->join);
    status = search_init(&s, l);
    if (!l->join) status = bp_lower_no_memory();
    if (status == BP_OK) {
        find_readers(&s);
        find_chains(&s);
        for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
            if (node_is_concat(ir, &ir->node[n].call) && !s.appends[n]) join_chain(&s, n);
    }
    search_finish(&s);
    return status;
}

void bp_joins_finish(struct bp_lowering *l)
{
    free(l->join);
    free(l->place);
}

/* ---- lowering ---- */

/* Sorts the axes by their strides, the outermost first. */
static void axes_sort(const struct bp_view *v, uint32_t order[BP_RANK_MAX])
{
    for (uint32_t i = 0; i < v->rank; i++) {
        uint32_t k = i;
        for (; k && v->stride[order[k - 1]] < v->stride[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

static void strides_fill(const int64_t *shape, const uint32_t *order, uint32_t rank,
                         int64_t *out_stride)
{
    int64_t step = 1;

    for (uint32_t i = rank; i-- > 0;) {
        out_stride[order[i]] = step;
        step *= shape[order[i]];
    }
}

bool bp_view_has_gaps(const struct bp_view *v)
{
    uint32_t order[BP_RANK_MAX];
    int64_t stride[BP_RANK_MAX];

    axes_sort(v, order);
    strides_fill(v->shape, order, v->rank, stride);
    for (uint32_t i = 0; i < v->rank; i++)
        if (v->shape[i] > 1 && v->stride[i] != stride[i]) return true;
    return false;
}

static void view_set_strides(struct bp_typed_view *type, const int64_t *stride)
{
    memcpy(type->stride, stride, type->view.rank * sizeof *stride);
    type->view.flags = bp_strides_are_contiguous(type->view.rank, type->shape, type->stride)
                           ? 0
                           : BP_VIEW_STRIDED;
}

/* Makes the memory of a join, whose axes have the order of one of its inputs. The join is given up
 * if that input has gaps. */
static enum bp_status join_make(struct bp_lowering *l, struct bp_join *join,
                                const struct bp_view *like)
{
    struct bp_typed_view type;
    uint32_t order[BP_RANK_MAX];
    int64_t stride[BP_RANK_MAX];

    if (join->root != BP_NO_VALUE || join->off) return BP_OK;
    join->off = bp_view_has_gaps(like);
    if (join->off) return BP_OK;
    bp_typed_view_init(&type, &join->type->view);
    axes_sort(like, order);
    strides_fill(type.shape, order, type.view.rank, stride);
    view_set_strides(&type, stride);
    TRY(bp_lower_add_value(l, &type.view, &join->root));
    l->schedule->value[join->root]->is_joined = true;
    return BP_OK;
}

/* Describes the slice with the extents of `part`, and returns its offset in bytes. */
static uint64_t slice_type(const struct bp_lowering *l, const struct bp_join *join,
                           const struct bp_view *part, int64_t at, struct bp_typed_view *out_type)
{
    const struct bp_typed_view *whole = &l->schedule->value[join->root]->type;

    bp_typed_view_init(out_type, part);
    view_set_strides(out_type, whole->stride);
    return (uint64_t)(at * whole->stride[join->axis]) * (bp_dtype_bits(part->dtype) / 8);
}

static void value_set_slice(const struct bp_lowering *l, const struct bp_join *join, uint32_t value,
                            const struct bp_typed_view *type, uint64_t offset)
{
    bp_lower_set_type(l->schedule, l->schedule->value[value], &type->view);
    bp_lower_set_view(l->schedule, value, join->root, offset);
}

/* Copies an input of a concat into its slice, unless it lies there. */
static enum bp_status slice_fill(struct bp_lowering *l, const struct bp_join *join, uint32_t from,
                                 int64_t at)
{
    const struct bp_scheduled_value *value = l->schedule->value[from];
    struct bp_typed_view type;
    uint64_t offset = slice_type(l, join, &value->type.view, at, &type);
    uint32_t slice;

    if (value->root == join->root && value->offset == offset) return BP_OK;
    TRY(bp_lower_add_value(l, NULL, &slice));
    value_set_slice(l, join, slice, &type, offset);
    return bp_lower_assign(l, from, slice);
}

enum bp_status bp_join_lower(struct bp_lowering *l, const struct bp_node *node, bool *out_done)
{
    const struct bp_ir *ir = l->schedule->ir;
    uint32_t v = node->out[0];
    struct bp_typed_view type;
    struct bp_join *join;
    int64_t at = 0;

    *out_done = false;
    if (v >= l->n_place || l->place[v].join == BP_NO_VALUE || !l->place[v].is_result) return BP_OK;
    join = &l->join[l->place[v].join];
    TRY(join_make(l, join, &l->schedule->value[l->in[0]]->type.view));
    if (join->off) return BP_OK;
    for (uint32_t i = 0; i < node->n_in; i++) {
        TRY(slice_fill(l, join, l->in[i], at));
        at += ir->value[node->in[i]].type->shape[join->axis];
    }
    slice_type(l, join, &l->schedule->value[l->out[0]]->type.view, 0, &type);
    value_set_slice(l, join, l->out[0], &type, 0);
    *out_done = true;
    return BP_OK;
}

/* Prepares the call once more, so that it writes the slice. false: its kernel does not. */
static bool prepare_slice(struct bp_lowering *l, const struct bp_node *node,
                          const struct bp_view *slice, struct bp_prepared **p)
{
    struct bp_prepared *again = NULL;
    void *attrs = NULL;
    bool good;

    if (node->attrs && bp_attrs_clone(&node->row->info, node->attrs, &attrs)) return false;
    l->inv->attrs = attrs;
    l->inv->given[0] = slice;
    good = bp_prepared_make(l->inv, &again) == BP_OK;
    l->inv->given[0] = NULL;
    if (!good) {
        free(attrs);
        return false;
    }
    good = again->n_step == 1 && !again->step->kind && !again->step->transform;
    bp_prepared_release(good ? *p : again);
    if (good) *p = again;
    return good;
}

enum bp_status bp_join_place(struct bp_lowering *l, const struct bp_node *node,
                             struct bp_prepared **p, bool *out_placed)
{
    const struct bp_join_place *place;
    struct bp_typed_view type;
    struct bp_join *join;
    uint64_t offset;

    *out_placed = false;
    if (node->n_out != 1 || node->out[0] >= l->n_place) return BP_OK;
    place = &l->place[node->out[0]];
    if (place->join == BP_NO_VALUE || place->is_result || (*p)->n_step != 1) return BP_OK;
    join = &l->join[place->join];
    TRY(join_make(l, join, &(*p)->type[(*p)->n_in].view));
    if (join->off) return BP_OK;
    offset = slice_type(l, join, &(*p)->type[(*p)->n_in].view, place->at, &type);
    type.view.device = (uint16_t)l->schedule->device->index;
    type.view.space = BP_SPACE_DEVICE;
    if (!prepare_slice(l, node, &type.view, p)) return BP_OK;
    value_set_slice(l, join, l->out[0], &type, offset);
    *out_placed = true;
    return BP_OK;
}
