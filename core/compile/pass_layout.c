/* SPDX-License-Identifier: Apache-2.0 */
/* pass_layout.c: lays images out channels-last. Where a convolution reads a row-major image and
 * another one reads what is computed from its result, the image is copied once; its later readers,
 * and all that keep the layout of their input, go on with the copy. Libraries (oneDNN) would
 * reorder the image and the result of each convolution otherwise. Outputs of the graph that became
 * channels-last by this are copied to row-major at the end (lower.c). Where channels are merged in
 * an order that needs a copy (the shuffle of channels), the copy is channels-last too.
 *
 * For a device that computes faster with row-major images, the pass removes the copy to
 * channels-last that an app (or the loader of ONNX models) makes of an input of the graph for its
 * convolutions.
 *
 * A device reports the order that it prefers (BP_IMAGES_*). Of devices that do not, those whose
 * work is done inline, by libraries for processors, prefer channels-last. On other devices
 * convolutions of portable kernels prefer row-major images: they compute from any strides, but
 * OpenCL's take 1.2 times as long for images that are channels-last. Convolutions without a row
 * that takes strides prefer row-major images on all devices: the core would copy the others
 * back. */
#include "layouts.h"
#include "passes.h"
#include "rewrite.h"

#include "../call/compose.h"
#include "../call/plan.h"
#include "../call/prepared.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

enum {
    AXES = 4,     /* of images */
    RESIDUAL = 3, /* the input of fused_conv that is added */
    LEAST_FLOPS = 1000000 /* a smaller convolution is not worth the launch of a copy */
};

struct layout_pass {
    struct bp_compilation *c;
    struct bp_ir *ir;
    struct bp_layouts layouts;
    uint32_t recorded; /* values before the pass */
    bool *leads; /* of each of them: a large convolution depends on it by nodes that
                    keep the layout of an input */
};

static bool node_is_conv(const struct bp_node *node)
{
    return node->row == &bp_opdef[BP_ROW_conv] || node->row == &bp_opdef[BP_ROW_fused_conv];
}

static bool is_large_conv(const struct bp_ir *ir, const struct bp_node *node)
{
    const struct bp_view *in[BP_FLAT_MAX], *out;

    if (!node_is_conv(node) || ir->value[node->out[0]].type->view.rank != AXES) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE ? NULL
                                           : &ir->value[bp_ir_same(ir, node->in[i])].type->view;
    out = &ir->value[node->out[0]].type->view;
    return bp_launch_flops(node->row, node->attrs, in, node->n_in, &out) >= LEAST_FLOPS;
}

/* Whether the result of a node has the layout of its input i, or should have it: that of concat has
 * the layout of its first input, and the others should lie alike. */
static bool keeps_layout(const struct bp_node *node, uint32_t i)
{
    return i < node->row->keeps || node->row == &bp_opdef[BP_ROW_concat];
}

/* Whether a view changes the axes between the first and the last two only, as reshape and transpose
 * that split, exchange and merge channels. */
static bool view_keeps_places(const struct bp_ir *ir, const struct bp_node *node)
{
    const struct bp_typed_view *x, *y;

    if (node->row != &bp_opdef[BP_ROW_reshape] && node->row != &bp_opdef[BP_ROW_transpose])
        return false;
    x = ir->value[bp_ir_same(ir, node->in[0])].type;
    y = ir->value[node->out[0]].type;
    if (x->view.rank < AXES || y->view.rank < AXES || x->shape[0] != y->shape[0]) return false;
    if (node->row == &bp_opdef[BP_ROW_transpose]) {
        const struct bp_transpose_attrs *turn = node->attrs;
        int64_t n = turn->perm.n;
        return n >= AXES && turn->perm.at[0] == 0 && turn->perm.at[n - 2] == n - 2 &&
               turn->perm.at[n - 1] == n - 1;
    }
    return x->shape[x->view.rank - 2] == y->shape[y->view.rank - 2] &&
           x->shape[x->view.rank - 1] == y->shape[y->view.rank - 1];
}

/* Finds the values on which large convolutions depend, from the last node to the first. */
static void find_leads(struct layout_pass *p)
{
    for (uint32_t n = p->ir->last; n != BP_NO_VALUE; n = p->ir->node[n].previous) {
        const struct bp_node *node = &p->ir->node[n].call;
        bool leads = is_large_conv(p->ir, node);
        for (uint32_t i = 0; i < node->n_out && !leads; i++)
            leads = node->out[i] != BP_NO_VALUE && p->leads[node->out[i]];
        for (uint32_t i = 0; i < node->n_in && leads; i++)
            if (node->in[i] != BP_NO_VALUE &&
                (keeps_layout(node, i) || view_keeps_places(p->ir, node)))
                p->leads[bp_ir_same(p->ir, node->in[i])] = true;
    }
}

/* Whether a convolution, whose invocation is that of `layouts`, should read its image
 * channels-last. */
static bool wants_channels_last(const struct layout_pass *p, uint32_t n)
{
    const struct bp_node *node = &p->ir->node[n].call;
    const struct bp_view *x;
    uint32_t v;

    if (!is_large_conv(p->ir, node) || !p->leads[node->out[0]]) return false;
    v = bp_ir_same(p->ir, node->in[0]);
    x = &p->layouts.at[v].view;
    return !(x->flags & BP_VIEW_STRIDED) && x->shape[1] > 1 && x->shape[2] * x->shape[3] > 1 &&
           bp_ir_is_stable(p->ir, v) && !bp_ir_is_frozen(p->ir, v) &&
           bp_select_has(p->layouts.inv, BP_KERNEL_STRIDED);
}

/* Records a copy of x whose channels are innermost. */
static enum bp_status record_last(struct bp_rewrite *rw, struct bp_tensor *x,
                                  struct bp_tensor **out_result)
{
    static const int64_t last[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
    struct bp_transpose_attrs turn =
        *(const struct bp_transpose_attrs *)bp_opdef[BP_ROW_transpose].info.defaults;
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));

    turn.perm = (struct bp_dims){last, AXES};
    x = MAKE(&c, assign, NULL, MAKE(&c, transpose, &turn, x));
    turn.perm.at = back;
    bp_compose_keep(&c, MAKE(&c, transpose, &turn, x), out_result);
    return bp_compose_end(&c);
}

/* Inserts a copy of value v that is channels-last before node n, named after it. */
static enum bp_status layout_copy(struct layout_pass *p, uint32_t v, uint32_t n, uint32_t *out_copy)
{
    struct bp_tensor *x, *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, p->ir, &n, 1));
    status = bp_rewrite_in(&rw, v, &x);
    if (status == BP_OK) status = record_last(&rw, x, &result);
    if (status == BP_OK) return bp_rewrite_insert(&rw, result, n, out_copy);
    bp_rewrite_cancel(&rw);
    return status;
}

/* Whether a node computes faster from an input i that is channels-last: it keeps the input's
 * layout, or adds the input as a residual to a result that may have this layout. */
static bool takes_layout(const struct bp_node *node, uint32_t i)
{
    return keeps_layout(node, i) ||
           (node->row == &bp_opdef[BP_ROW_fused_conv] && i == node->in_at[RESIDUAL]);
}

/* Lets the nodes from n on that read value v, and take its layout, read the copy. */
static void readers_take(struct layout_pass *p, uint32_t n, uint32_t v, uint32_t copy)
{
    for (; n != BP_NO_VALUE && p->ir->value[v].uses; n = p->ir->node[n].next) {
        const struct bp_node *node = &p->ir->node[n].call;
        bool takes = false;
        for (uint32_t i = 0; i < node->n_in; i++)
            takes = takes || (takes_layout(node, i) && node->in[i] != BP_NO_VALUE &&
                              bp_ir_same(p->ir, node->in[i]) == v);
        for (uint32_t i = 0; i < node->n_in && takes; i++)
            if (node->in[i] != BP_NO_VALUE && bp_ir_same(p->ir, node->in[i]) == v)
                bp_ir_set_input(p->ir, n, i, copy);
    }
}

/* Whether node n merges channels of images that are not row-major, into an image that a large
 * convolution depends on. It was visited. */
static bool merges_channels(const struct layout_pass *p, uint32_t n)
{
    const struct bp_node *node = &p->ir->node[n].call;
    const struct bp_typed_view *y;

    if (!p->layouts.copies || node->row != &bp_opdef[BP_ROW_reshape] ||
        node->out[0] >= p->recorded || !p->leads[node->out[0]])
        return false;
    y = p->ir->value[node->out[0]].type;
    return y->view.rank == AXES && y->shape[1] > 1 && y->shape[2] * y->shape[3] > 1 &&
           p->ir->value[bp_ir_same(p->ir, node->in[0])].type->view.rank > AXES &&
           view_keeps_places(p->ir, node);
}

/* Records the merge with the channels innermost, so that the copy which it needs is
 * channels-last. */
static enum bp_status record_merge(struct bp_rewrite *rw, const struct bp_node *node,
                                   struct bp_tensor **out_result)
{
    static const int64_t back[] = {0, 3, 1, 2};
    const int64_t *shape = rw->ir->value[node->out[0]].type->shape;
    const int64_t last[] = {shape[0], shape[2], shape[3], shape[1]};
    struct bp_transpose_attrs turn =
        *(const struct bp_transpose_attrs *)bp_opdef[BP_ROW_transpose].info.defaults;
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    int64_t perm[BP_RANK_MAX];
    struct bp_tensor *x;
    uint32_t rank;

    TRY(bp_rewrite_in(rw, node->in[0], &x));
    rank = x->view.rank;
    for (uint32_t a = 0; a < rank; a++) perm[a] = a < 1 ? 0 : a < 3 ? rank - 3 + a : a - 2;
    turn.perm = (struct bp_dims){perm, rank};
    x = bp_compose_reshape(&c, MAKE(&c, transpose, &turn, x), AXES, last);
    turn.perm = (struct bp_dims){back, AXES};
    bp_compose_keep(&c, MAKE(&c, transpose, &turn, x), out_result);
    return bp_compose_end(&c);
}

static enum bp_status layout_merge(struct layout_pass *p, uint32_t n)
{
    const struct bp_node *node = &p->ir->node[n].call;
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, p->ir, &n, 1));
    status = record_merge(&rw, node, &result);
    if (status == BP_OK) return bp_rewrite_end(&rw, result, node->out[0]);
    bp_rewrite_cancel(&rw);
    return status;
}

static enum bp_status layout_node(struct layout_pass *p, uint32_t n, uint32_t *out_next)
{
    uint32_t v, copy, before = p->ir->node[n].previous;

    TRY(bp_layouts_visit(&p->layouts, n));
    *out_next = p->ir->node[n].next;
    if (merges_channels(p, n)) {
        TRY(layout_merge(p, n));
    } else if (wants_channels_last(p, n)) {
        v = bp_ir_same(p->ir, p->ir->node[n].call.in[0]);
        TRY(layout_copy(p, v, n, &copy));
        readers_take(p, n, v, copy);
    } else {
        return BP_OK;
    }
    p->c->changes++;
    *out_next = before == BP_NO_VALUE ? p->ir->first : p->ir->node[before].next;
    return BP_OK;
}

static enum bp_status layout_all(struct layout_pass *p)
{
    struct bp_ir *ir = p->ir;

    find_leads(p);
    TRY(bp_layouts_keep_outputs(ir));
    for (uint32_t n = ir->first, next; n != BP_NO_VALUE; n = next) TRY(layout_node(p, n, &next));
    return BP_OK;
}

static bool has_large_convs(const struct bp_ir *ir)
{
    uint32_t found = 0;

    for (uint32_t n = ir->first; n != BP_NO_VALUE && found < 2; n = ir->node[n].next)
        found += is_large_conv(ir, &ir->node[n].call);
    return found > 1;
}

/* Whether a node names its kernel, which may refuse other strides than those of the recording. */
static bool names_kernels(const struct bp_ir *ir)
{
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        if (ir->node[n].call.kernel) return true;
    return false;
}

/* ---- copies to channels-last that are removed ---- */

/* Returns the input of the node that computes value v, if that node is a call of this operator, and
 * nothing else reads its result if `alone` is set; BP_NO_VALUE otherwise. */
static uint32_t input_of(const struct bp_ir *ir, uint32_t v, enum bp_row_number row, bool alone)
{
    const struct bp_ir_value *value = &ir->value[v];
    const struct bp_node *node;

    if (value->kind != BP_VALUE_RESULT || (alone && value->uses != 1)) return BP_NO_VALUE;
    node = &ir->node[value->node].call;
    if (node->row != &bp_opdef[row] || node->kernel) return BP_NO_VALUE;
    return bp_ir_same(ir, node->in[0]);
}

/* Whether value v is a transposition of four axes with this permutation. */
static bool turns_axes(const struct bp_ir *ir, uint32_t v, const int64_t perm[AXES])
{
    const struct bp_transpose_attrs *turn = ir->node[ir->value[v].node].call.attrs;

    if (turn->perm.n != AXES) return false;
    for (int a = 0; a < AXES; a++)
        if (turn->perm.at[a] != perm[a] && turn->perm.at[a] + AXES != perm[a]) return false;
    return true;
}

/* Returns the input of the graph whose channels-last copy value v is; BP_NO_VALUE: v is no such
 * copy. */
static uint32_t copied_input(const struct bp_ir *ir, uint32_t v)
{
    static const int64_t last[AXES] = {0, 2, 3, 1}, back[AXES] = {0, 3, 1, 2};
    uint32_t dense = input_of(ir, v, BP_ROW_transpose, false), turned, x;

    if (dense == BP_NO_VALUE || !turns_axes(ir, v, back)) return BP_NO_VALUE;
    turned = input_of(ir, dense, BP_ROW_assign, true);
    if (turned == BP_NO_VALUE) return BP_NO_VALUE;
    x = input_of(ir, turned, BP_ROW_transpose, true);
    return x != BP_NO_VALUE && turns_axes(ir, turned, last) && ir->value[x].kind == BP_VALUE_INPUT
               ? x
               : BP_NO_VALUE;
}

/* Returns how many convolutions read value v as their image. */
static uint32_t image_readers(const struct bp_ir *ir, uint32_t v)
{
    uint32_t n = 0;

    for (uint32_t i = ir->first; i != BP_NO_VALUE; i = ir->node[i].next)
        n += node_is_conv(&ir->node[i].call) && bp_ir_same(ir, ir->node[i].call.in[0]) == v;
    return n;
}

static enum bp_image_order preferred_order(const struct bp_device *device)
{
    if (device->properties.images) return (enum bp_image_order)device->properties.images;
    return device->is_inline ? BP_IMAGES_CHANNELS_LAST : BP_IMAGES_UNKNOWN;
}

/* Whether a convolution of image v, whose invocation is inv, should read it row-major. */
static bool wants_row_major(const struct bp_ir *ir, uint32_t v, struct bp_invocation *inv)
{
    enum bp_image_order order = preferred_order(ir->device);
    uint32_t dtype = ir->value[v].type->view.dtype;

    if (order == BP_IMAGES_ROW_MAJOR) return true;
    if (order == BP_IMAGES_UNKNOWN &&
        !bp_select_has_priority(ir->device, &bp_opdef[BP_ROW_conv], dtype, 1))
        return true;
    return !bp_select_has(inv, BP_KERNEL_STRIDED);
}

/* Whether only convolutions read value v, a copy of the input x, and they should read the input. */
static bool is_needless(const struct bp_ir *ir, uint32_t v, uint32_t x, struct bp_invocation *inv)
{
    if (!bp_value_may_become(ir, v, x) || image_readers(ir, v) != ir->value[v].uses) return false;
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) {
        const struct bp_node *node = &ir->node[n].call;
        if (!node_is_conv(node) || bp_ir_same(ir, node->in[0]) != v) continue;
        bp_ir_invocation(ir, node, inv);
        if (!wants_row_major(ir, v, inv)) return false;
    }
    return true;
}

/* Lets the convolutions that read a channels-last copy of an input read the input. The copy and the
 * transpositions before and after it are removed. */
static enum bp_status remove_copies(struct bp_compilation *c)
{
    struct bp_invocation *inv = calloc(1, sizeof *inv);
    struct bp_ir *ir = c->ir;

    if (!inv) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");

    for (uint32_t n = ir->first, next; n != BP_NO_VALUE; n = next) {
        const struct bp_node *node = &ir->node[n].call;
        uint32_t v = node->row == &bp_opdef[BP_ROW_transpose] ? node->out[0] : BP_NO_VALUE;
        uint32_t x = v == BP_NO_VALUE ? v : copied_input(ir, v), at = v;
        next = ir->node[n].next;
        if (x == BP_NO_VALUE || !is_needless(ir, v, x, inv)) continue;
        bp_ir_forward(ir, v, x);
        for (int i = 0; i < 3; i++) {
            uint32_t dead = ir->value[at].node;
            at = bp_ir_same(ir, ir->node[dead].call.in[0]);
            bp_ir_kill(ir, dead);
        }
        c->changes++;
    }
    free(inv);
    return BP_OK;
}

enum bp_status bp_pass_layout(struct bp_compilation *c)
{
    struct layout_pass p = {.c = c, .ir = c->ir, .recorded = c->ir->n_value};
    enum bp_status status;

    TRY(remove_copies(c));
    if (preferred_order(c->ir->device) != BP_IMAGES_CHANNELS_LAST) return BP_OK;
    if (!has_large_convs(c->ir) || names_kernels(c->ir) ||
        bp_layouts_update_results(c->ir))
        return BP_OK;
    TRY(bp_layouts_init(&p.layouts, c->ir));
    p.leads = calloc(c->ir->n_value + 1, sizeof *p.leads);
    status = p.leads ? layout_all(&p)
                     : bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    free(p.leads);
    bp_layouts_finish(&p.layouts);
    return status;
}
