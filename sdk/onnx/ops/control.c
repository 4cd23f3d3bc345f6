/* SPDX-License-Identifier: Apache-2.0 */
/* control.c: runs If and Loop. The branch and the number of iterations must be known while a graph
 * is recorded. Outputs of a body are passed on unchanged, as recorded or computed values. */
#include "body.h"
#include <stdlib.h>

/* Reads an input that is one truth value. absent: the result if the input is absent. */
static enum bp_status truth_of(struct onnx_call *c, uint32_t i, struct onnx_value *v, bool absent,
                               bool *out)
{
    struct onnx_ints ints;

    TRY(onnx_value_ints(c, i, v, &ints));
    if (ints.n >= 0 && ints.n != 1)
        return onnx_error(BP_ERR_INVALID, "a condition has %lld elements, expected 1",
                          (long long)ints.n);
    *out = ints.n < 0 ? absent : ints.at[0] != 0;
    return BP_OK;
}

enum bp_status onnx_if(struct onnx_call *c)
{
    struct onnx_value **made, *condition = onnx_in_value(c, 0);
    struct onnx_inner inner;
    enum bp_status status;
    bool holds = false;

    if (!condition) return onnx_error(BP_ERR_INVALID, "a condition is expected");
    TRY(truth_of(c, 0, condition, false, &holds));
    TRY(onnx_inner_find(c, holds ? "then_branch" : "else_branch", &inner));
    if (inner.body->n_input || inner.body->n_output < c->node->n_out)
        return onnx_error(BP_ERR_INVALID, "the branch has %u inputs and %u outputs, expected 0 "
                          "and %u", inner.body->n_input, inner.body->n_output, c->node->n_out);
    made = calloc(inner.body->n_output + 1, sizeof *made);
    if (!made) return onnx_no_memory();
    status = onnx_inner_run(c, &inner, NULL, made);
    for (uint32_t i = 0; i < inner.body->n_output && status == BP_OK; i++)
        status = onnx_give_value(c, i, made[i]);
    free(made);
    return status;
}

struct loop {
    struct onnx_call *c;
    struct onnx_inner inner;
    uint32_t n_state, n_scan;
    struct onnx_value **in;   /* inputs of the body: iteration number, condition, states */
    struct onnx_value **made; /* outputs of the body: condition, states, elements of scans */
    struct onnx_list *scan;
    int64_t rounds;
    bool has_condition, holds;
};

static enum bp_status control_begin(struct onnx_call *c, struct loop *l)
{
    const struct onnx_body *body;
    struct onnx_value *condition = onnx_in_value(c, 1);
    struct onnx_ints rounds;

    *l = (struct loop){.c = c, .has_condition = condition != NULL};
    TRY(onnx_inner_find(c, "body", &l->inner));
    body = l->inner.body;
    l->n_state = c->node->n_in > 2 ? c->node->n_in - 2 : 0;
    if (body->n_input != l->n_state + 2 || body->n_output < l->n_state + 1)
        return onnx_error(BP_ERR_INVALID, "the body has %u inputs and %u outputs, for %u values "
                          "that are carried", body->n_input, body->n_output, l->n_state);
    l->n_scan = body->n_output - l->n_state - 1;
    TRY(onnx_in_ints(c, 0, &rounds));
    if (rounds.n >= 0 && rounds.n != 1)
        return onnx_error(BP_ERR_INVALID, "the trip count has %lld elements, expected 1",
                          (long long)rounds.n);
    l->rounds = rounds.n < 0 ? INT64_MAX : rounds.at[0];
    TRY(truth_of(c, 1, condition, true, &l->holds));
    l->in = calloc(body->n_input + 1, sizeof *l->in);
    l->made = calloc(body->n_output + 1, sizeof *l->made);
    l->scan = calloc(l->n_scan + 1, sizeof *l->scan);
    if (!l->in || !l->made || !l->scan) return onnx_no_memory();
    for (uint32_t i = 0; i < l->n_state; i++)
        if (!(l->in[i + 2] = onnx_value_retain(onnx_in_value(c, i + 2))))
            return onnx_error(BP_ERR_INVALID, "input %u is missing", i + 2);
    if (condition) l->in[1] = onnx_value_retain(condition);
    else {
        const uint8_t yes = 1;
        struct bp_tensor *t;
        TRY(onnx_constant(c, BP_BOOL, 0, NULL, &yes, &t));
        TRY(onnx_value_tensor(c->run, t, false, &l->in[1]));
    }
    return BP_OK;
}

/* Moves the outputs of the body to its inputs for the next iteration. */
static enum bp_status control_carry(struct loop *l)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i <= l->n_state; i++) {
        onnx_value_release(l->in[i + 1]);
        l->in[i + 1] = l->made[i];
    }
    for (uint32_t i = 0; i < l->n_scan; i++) {
        enum bp_status added = onnx_list_add(&l->scan[i], l->made[i + l->n_state + 1]);
        if (status == BP_OK) status = added;
    }
    return status;
}

static enum bp_status go_round(struct loop *l)
{
    /* No condition can end this loop early, so a loop that is too long is rejected before any of it
     * is recorded. */
    if (!l->has_condition && l->rounds > 0) TRY(onnx_check_unrolled(l->c, l->rounds - 1));
    for (int64_t i = 0; i < l->rounds && l->holds; i++) {
        TRY(onnx_check_round(l->c->run));
        TRY(onnx_check_unrolled(l->c, i));
        onnx_value_release(l->in[0]);
        l->in[0] = NULL;
        TRY(onnx_number(l->c, i, &l->in[0]));
        TRY(onnx_inner_run(l->c, &l->inner, l->in, l->made));
        TRY(control_carry(l));
        if (l->has_condition) TRY(truth_of(l->c, 1, l->in[1], true, &l->holds));
    }
    return BP_OK;
}

static enum bp_status give_loop(struct loop *l)
{
    for (uint32_t i = 0; i < l->n_state; i++)
        TRY(onnx_give_value(l->c, i, onnx_value_retain(l->in[i + 2])));
    for (uint32_t i = 0; i < l->n_scan; i++) {
        struct onnx_value *all;
        if (!onnx_wants(l->c, i + l->n_state)) continue;
        TRY(l->scan[i].n ? onnx_join(l->c, l->scan[i].at, l->scan[i].n, 0, true, &all)
                         : onnx_inner_none(l->c, &l->inner, i + l->n_state + 1, 0, &all));
        TRY(onnx_give_value(l->c, i + l->n_state, all));
    }
    return BP_OK;
}

enum bp_status onnx_loop(struct onnx_call *c)
{
    struct loop l;
    enum bp_status status = control_begin(c, &l);

    if (status == BP_OK) status = go_round(&l);
    if (status == BP_OK) status = give_loop(&l);
    for (uint32_t i = 0; l.in && i < l.n_state + 2; i++) onnx_value_release(l.in[i]);
    for (uint32_t i = 0; l.scan && i < l.n_scan; i++) onnx_list_finish(&l.scan[i]);
    free(l.in);
    free(l.made);
    free(l.scan);
    return status;
}
