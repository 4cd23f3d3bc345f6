/* SPDX-License-Identifier: Apache-2.0 */
/* pass_fuse.c: replaces groups of elementwise nodes of one shape by calls of `fused`, which reads
 * and writes memory once. The call stands where the last node of the group stood: so no other node
 * before that place may read a result of the group, and nothing may update what the group reads. */
#include "fuse.h"
#include "passes.h"
#include "rewrite.h"

#include "../call/prepared.h"

#include <backplane/attrs.h>

#include <stdlib.h>
#include <string.h>

static const uint32_t no_group = UINT32_MAX;

struct fuse {
    struct bp_ir *ir;
    uint32_t *order;       /* of each node: its position in the order of execution */
    uint32_t *group;       /* of each node: its group, or no_group */
    uint32_t *read_at, *reader; /* of each value v: the nodes reader[read_at[v]] to
                                   reader[read_at[v + 1] - 1] read it */
    struct bp_fuse_group *list;
    uint32_t n_list, room_list;
};

static void fuse_finish(struct fuse *f)
{
    free(f->order);
    free(f->group);
    free(f->read_at);
    free(f->reader);
    free(f->list);
}

static enum bp_status fuse_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

/* Lists the readers of each value. */
static enum bp_status fuse_list_readers(struct fuse *f)
{
    const struct bp_ir *ir = f->ir;
    uint32_t all = 0;

    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        for (uint32_t i = 0; i < ir->node[n].call.n_in; i++)
            if (ir->node[n].call.in[i] != BP_NO_VALUE)
                f->read_at[bp_ir_same(ir, ir->node[n].call.in[i]) + 1]++, all++;
    for (uint32_t v = 0; v < ir->n_value; v++) f->read_at[v + 1] += f->read_at[v];
    f->reader = malloc((all + 1) * sizeof *f->reader);
    if (!f->reader) return fuse_no_memory();
    for (uint32_t n = ir->last; n != BP_NO_VALUE; n = ir->node[n].previous)
        for (uint32_t i = 0; i < ir->node[n].call.n_in; i++)
            if (ir->node[n].call.in[i] != BP_NO_VALUE)
                f->reader[--f->read_at[bp_ir_same(ir, ir->node[n].call.in[i]) + 1]] = n;
    memmove(f->read_at, f->read_at + 1, ir->n_value * sizeof *f->read_at);
    f->read_at[ir->n_value] = all;
    return BP_OK;
}

static enum bp_status fuse_init(struct fuse *f, struct bp_ir *ir)
{
    uint32_t at = 0;

    *f = (struct fuse){.ir = ir,
                       .order = calloc(ir->n_node + 1, sizeof *f->order),
                       .group = malloc((ir->n_node + 1) * sizeof *f->group),
                       .read_at = calloc(ir->n_value + 2, sizeof *f->read_at)};
    if (!f->order || !f->group || !f->read_at) return fuse_no_memory();
    for (uint32_t n = 0; n < ir->n_node; n++) f->group[n] = no_group;
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) f->order[n] = at++;
    return fuse_list_readers(f);
}

/* ---- groups ---- */

static bool is_truth(const struct bp_ir *ir, uint32_t value)
{
    return ir->value[value].type->view.dtype == BP_BOOL;
}

/* Whether a value is a truth value, or else of a dtype that a kernel of `fused` computes, a
 * float. */
static bool is_value(const struct bp_ir *ir, uint32_t value, bool truth)
{
    uint32_t dtype = ir->value[value].type->view.dtype;

    if (truth) return dtype == BP_BOOL;
    return bp_select_has_dtype(ir->device, &bp_opdef[BP_ROW_fused], dtype);
}

/* Whether a node computes floats or truth values by an operator that code may name, from memory
 * that nothing changes. A device without a kernel of `fused` runs the operators as they are. */
static bool is_member(const struct bp_ir *ir, uint32_t n)
{
    const struct bp_node *node = &ir->node[n].call;
    const struct bp_fuse_member *m = bp_fuse_member_of(node->row);

    if (!m || node->kernel || node->n_in != m->n || node->n_out != 1) return false;
    if (!is_value(ir, node->out[0], m->to_truth)) return false;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t x = bp_ir_same(ir, node->in[i]);
        if (!is_value(ir, x, m->truths >> i & 1)) return false;
        if (!bp_ir_is_stable(ir, x)) return false;
    }
    return true;
}

/* Joins two groups in the order of execution. false: they have too many nodes. */
static bool groups_join(const struct fuse *f, const struct bp_fuse_group *a,
                        const struct bp_fuse_group *b, struct bp_fuse_group *out)
{
    uint32_t i = 0, k = 0;

    if (a->n + b->n > BP_FUSED_STEPS) return false;
    for (out->n = 0; out->n < a->n + b->n; out->n++) {
        bool first = k == b->n || (i < a->n && f->order[a->node[i]] < f->order[b->node[k]]);
        out->node[out->n] = first ? a->node[i++] : b->node[k++];
    }
    return true;
}

/* Whether the nodes of a group may be computed where its last node stands: each other reader of
 * their results stands behind it. a, b: the groups of its nodes. */
static bool group_is_movable(const struct fuse *f, const struct bp_fuse_group *g, uint32_t a,
                             uint32_t b)
{
    uint32_t place = f->order[g->node[g->n - 1]];

    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t v = f->ir->node[g->node[i]].call.out[0];
        for (uint32_t r = f->read_at[v]; r < f->read_at[v + 1]; r++) {
            uint32_t reader = f->reader[r];
            if (f->group[reader] != a && f->group[reader] != b && f->order[reader] < place)
                return false;
        }
    }
    return true;
}

static enum bp_status group_add(struct fuse *f, uint32_t n)
{
    if (f->n_list == f->room_list) {
        uint32_t room = 2 * f->room_list + 8;
        struct bp_fuse_group *list = realloc(f->list, room * sizeof *list);
        if (!list) return fuse_no_memory();
        f->list = list;
        f->room_list = room;
    }
    f->group[n] = f->n_list;
    f->list[f->n_list] = (struct bp_fuse_group){.n = 1};
    f->list[f->n_list++].node[0] = n;
    return BP_OK;
}

/* Whether a group computes nothing but truth values. */
static bool group_is_truths(const struct bp_ir *ir, const struct bp_fuse_group *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (!is_truth(ir, ir->node[g->node[i]].call.out[0])) return false;
    return true;
}

/* Joins group `other` to group `own`, if the result is one call. Groups of truth values are no
 * calls: they grow until a node takes them that is the only reader of their results. */
static void group_take(struct fuse *f, uint32_t own, uint32_t other)
{
    struct bp_fuse_group all;
    bool is_open;

    if (!groups_join(f, &f->list[own], &f->list[other], &all) ||
        !group_is_movable(f, &all, own, other) || !bp_fuse_fits(f->ir, &all, &is_open))
        return;
    if (is_open && !group_is_truths(f->ir, &all)) return;
    for (uint32_t i = 0; i < f->list[other].n; i++) f->group[f->list[other].node[i]] = own;
    f->list[other].n = 0;
    f->list[own] = all;
}

/* Whether an operand has the type of a result, besides that one of both may be a truth value. */
static bool is_like(const struct bp_view *x, const struct bp_view *y)
{
    struct bp_view same = *x;

    if (x->dtype == BP_BOOL || y->dtype == BP_BOOL) same.dtype = y->dtype;
    return bp_same_type(&same, y);
}

/* Joins the groups of the nodes that compute this node's operands, which have its shape: first
 * those of truth values, without which the node is in no call. */
static void group_take_operands(struct fuse *f, uint32_t n)
{
    const struct bp_ir *ir = f->ir;
    const struct bp_node *node = &ir->node[n].call;
    const struct bp_view *y = &ir->value[node->out[0]].type->view;

    for (uint32_t i = 0; i < 2 * node->n_in; i++) {
        uint32_t value = bp_ir_same(ir, node->in[i % node->n_in]);
        const struct bp_ir_value *x = &ir->value[value];
        uint32_t other = x->kind == BP_VALUE_RESULT ? f->group[x->node] : no_group;
        if (is_truth(ir, value) != (i < node->n_in)) continue;
        if (other == no_group || other == f->group[n] || !is_like(&x->type->view, y)) continue;
        group_take(f, f->group[n], other);
    }
}

/* Joins the groups of the nodes that compute what the group's comparisons read. */
static void group_take_compared(struct fuse *f, uint32_t n)
{
    const struct bp_fuse_group *g = &f->list[f->group[n]];

    for (uint32_t i = 0; i < g->n; i++)
        if (g->node[i] != n && is_truth(f->ir, f->ir->node[g->node[i]].call.out[0]))
            group_take_operands(f, g->node[i]);
}

/* ---- rewriting ---- */

static enum bp_status call_record(struct bp_rewrite *rw, const struct bp_fuse_call *call,
                                  struct bp_tensor **out)
{
    struct bp_fused_attrs attrs = {.size = sizeof attrs,
                                   .code = {call->word, (int64_t)call->n_word}};
    struct bp_tensor *in[BP_FUSED_IN];
    struct bp_arg arg = {in, call->n_in};
    struct bp_room room = {out, call->n_out};

    for (uint32_t i = 0; i < call->n_in; i++) TRY(bp_rewrite_in(rw, call->in[i], &in[i]));
    return bp_call_groups(bp_rewrite_scope(rw), BP_ROW_fused, &arg, 1, &attrs, &room, 1);
}

static enum bp_status group_apply(struct bp_ir *ir, const struct bp_fuse_group *g)
{
    struct bp_tensor *out[BP_FUSED_OUT] = {NULL};
    struct bp_fuse_call call;
    struct bp_rewrite rw;
    enum bp_status status;

    if (!bp_fuse_encode(ir, g, &call)) return BP_OK; /* was encoded before */
    TRY(bp_rewrite_begin(&rw, ir, g->node, g->n));
    status = call_record(&rw, &call, out);
    if (status == BP_OK) return bp_rewrite_end_all(&rw, out, call.out, call.n_out);
    bp_rewrite_cancel(&rw);
    return status;
}

/* Finds groups and replaces them. */
static enum bp_status fuse_round(struct fuse *f, uint32_t *out_changes)
{
    for (uint32_t n = f->ir->first; n != BP_NO_VALUE; n = f->ir->node[n].next) {
        if (!is_member(f->ir, n)) continue;
        TRY(group_add(f, n));
        group_take_operands(f, n);
        if (bp_fuse_member_of(f->ir->node[n].call.row)->truths) group_take_compared(f, n);
    }
    *out_changes = 0;
    for (uint32_t g = 0; g < f->n_list; g++) {
        if (f->list[g].n < 2 || group_is_truths(f->ir, &f->list[g])) continue;
        TRY(group_apply(f->ir, &f->list[g]));
        *out_changes += f->list[g].n;
    }
    return BP_OK;
}

/* A call stands behind the first nodes of its group, which may let other nodes form a group. */
enum bp_status bp_pass_fuse(struct bp_compilation *c)
{
    uint32_t changes;

    do {
        struct fuse f;
        enum bp_status status = fuse_init(&f, c->ir);
        if (status == BP_OK) status = fuse_round(&f, &changes);
        fuse_finish(&f);
        if (status) return status;
        bp_ir_resolve(c->ir);
        c->changes += changes;
    } while (changes);
    return BP_OK;
}
