/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_code.c: writes a group of nodes as the code of `fused`: numbers its inputs and outputs and
 * assigns registers by a linear scan. */
#include "fuse.h"
#include "pattern.h"

#include <string.h>

/* By the number of the row; n is 0 if code may not name the operator. */
static const struct bp_fuse_member members[BP_ROW_COUNT] = {
#define MEMBER(name, n) [BP_ROW_##name] = {n, 0, 0},
#define TRUTH_MEMBER(name, n, from, to) [BP_ROW_##name] = {n, from, to},
    BP_FUSED_OPS(MEMBER) BP_FUSED_TRUTH_OPS(TRUTH_MEMBER)
#undef MEMBER
#undef TRUTH_MEMBER
};

const struct bp_fuse_member *bp_fuse_member_of(const struct bp_opdef *row)
{
    uint32_t number = bp_opdef_number(row);

    return number < BP_ROW_COUNT && members[number].n ? &members[number] : NULL;
}

enum { NOT_HERE = UINT32_MAX };

/* The code that is being written. */
struct encoder {
    const struct bp_ir *ir;
    const struct bp_fuse_group *group;
    struct bp_fuse_call *call;
    uint32_t reads[BP_FUSED_STEPS]; /* of each result within the group */
    uint32_t last[BP_FUSED_STEPS];  /* the last of the group's nodes that reads it */
    uint8_t place[BP_FUSED_STEPS];
    uint32_t busy, n_register; /* busy: a bit for each register in use */
    uint32_t truths;           /* a bit for each register of truth values */
    uint32_t dtype;            /* of the first input; BP_BOOL: there is none yet */
    bool writes;               /* the words of the code, too */
};

/* Returns the number within the group of the node that computes a value. */
static uint32_t encoder_find(const struct encoder *e, uint32_t value)
{
    const struct bp_ir_value *v = &e->ir->value[value];

    for (uint32_t i = 0; v->kind == BP_VALUE_RESULT && i < e->group->n; i++)
        if (e->group->node[i] == v->node) return i;
    return NOT_HERE;
}

static void encoder_count_reads(struct encoder *e)
{
    for (uint32_t i = 0; i < e->group->n; i++) {
        const struct bp_node *node = &e->ir->node[e->group->node[i]].call;
        e->reads[i] = 0;
        for (uint32_t k = 0; k < node->n_in; k++) {
            uint32_t from = encoder_find(e, bp_ir_same(e->ir, node->in[k]));
            if (from == NOT_HERE) continue;
            e->reads[from]++;
            e->last[from] = i;
        }
    }
}

/* Returns the place of an operand; a value from outside becomes an input. */
static bool encoder_operand(struct encoder *e, uint32_t value, uint8_t *out_place)
{
    struct bp_fuse_call *c = e->call;
    uint32_t from = encoder_find(e, value), dtype = e->ir->value[value].type->view.dtype;

    if (from != NOT_HERE) {
        *out_place = e->place[from];
        return true;
    }
    for (uint32_t i = 0; i < c->n_in; i++)
        if (c->in[i] == value) {
            *out_place = (uint8_t)(BP_FUSED_X + i);
            return true;
        }
    if (dtype == BP_BOOL) {
        c->is_open = true;
        *out_place = BP_FUSED_NONE;
        return true;
    }
    if (e->dtype == BP_BOOL) e->dtype = dtype;
    if (c->n_in == BP_FUSED_IN || dtype != e->dtype) return false;
    *out_place = (uint8_t)(BP_FUSED_X + c->n_in);
    c->in[c->n_in++] = value;
    return true;
}

/* Frees the registers that node number i reads last: its result may take one of them. */
static void encoder_free(struct encoder *e, uint32_t i)
{
    for (uint32_t from = 0; from < i; from++) {
        bool in_register = e->place[from] >= BP_FUSED_R && e->place[from] < BP_FUSED_Y;
        if (in_register && e->last[from] == i) e->busy &= ~(1u << (e->place[from] - BP_FUSED_R));
    }
}

/* Chooses a free register, which keeps its type: truth values or numbers. */
static bool encoder_register(struct encoder *e, uint32_t i, bool truth)
{
    uint32_t r = 0;

    while (e->busy >> r & 1 || (r < e->n_register && (e->truths >> r & 1) != truth)) r++;
    if (r >= BP_FUSED_REGISTERS) return false;
    e->busy |= 1u << r;
    if (truth) e->truths |= 1u << r;
    if (e->n_register < r + 1) e->n_register = r + 1;
    e->place[i] = (uint8_t)(BP_FUSED_R + r);
    return true;
}

/* Chooses the place of the result of node number i. */
static bool encoder_result(struct encoder *e, uint32_t i)
{
    uint32_t value = e->ir->node[e->group->node[i]].call.out[0];
    bool truth = e->ir->value[value].type->view.dtype == BP_BOOL;
    struct bp_fuse_call *c = e->call;

    if (e->ir->value[value].uses > e->reads[i] || !e->reads[i]) {
        c->is_open |= truth;
        if (truth) return encoder_register(e, i, true);
        if (c->n_out == BP_FUSED_OUT) return false;
        e->place[i] = (uint8_t)(BP_FUSED_Y + c->n_out);
        c->out[c->n_out++] = value;
        return true;
    }
    return encoder_register(e, i, truth);
}

static bool encoder_step(struct encoder *e, uint32_t i)
{
    const struct bp_node *node = &e->ir->node[e->group->node[i]].call;
    const struct bp_opinfo *op = &node->row->info;
    struct bp_fused_step step = {.from = {BP_FUSED_NONE, BP_FUSED_NONE, BP_FUSED_NONE}};

    for (uint32_t k = 0; k < node->n_in; k++)
        if (!encoder_operand(e, bp_ir_same(e->ir, node->in[k]), &step.from[k])) return false;
    encoder_free(e, i);
    if (!encoder_result(e, i)) return false;
    if (!e->writes) return true;
    memcpy(step.op, op->name, strlen(op->name));
    for (uint32_t k = 0; k < op->n_attr; k++)
        step.number[k] = bp_attr_get(&op->attr[k], node->attrs ? node->attrs : op->defaults);
    step.to = e->place[i];
    bp_fused_put(e->call->word, i, &step);
    return true;
}

static bool fuse_code(const struct bp_ir *ir, const struct bp_fuse_group *group, bool writes,
                      struct bp_fuse_call *out_call)
{
    struct encoder e = {.ir = ir, .group = group, .call = out_call, .dtype = BP_BOOL,
                        .writes = writes};

    out_call->n_in = out_call->n_out = 0;
    out_call->is_open = false;
    encoder_count_reads(&e);
    for (uint32_t i = 0; i < group->n; i++)
        if (!encoder_step(&e, i)) return false;
    out_call->word[0] = bp_fused_head_truths(out_call->n_in, out_call->n_out, e.n_register,
                                             e.truths);
    out_call->n_word = 1 + (size_t)group->n * BP_FUSED_STEP_WORDS;
    return true;
}

bool bp_fuse_encode(const struct bp_ir *ir, const struct bp_fuse_group *group,
                    struct bp_fuse_call *out_call)
{
    return fuse_code(ir, group, true, out_call);
}

bool bp_fuse_fits(const struct bp_ir *ir, const struct bp_fuse_group *group, bool *out_is_open)
{
    struct bp_fuse_call call;
    bool fits = fuse_code(ir, group, false, &call);

    if (fits) *out_is_open = call.is_open;
    return fits;
}
