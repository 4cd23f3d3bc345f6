/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c: runs Scan: a body is run for each element of tensors along an axis. Up to opset 8, axis 0
 * is a batch axis, and each batch is a separate scan along axis 1. */
#include "body.h"
#include <stdlib.h>
#include <string.h>

struct scan {
    struct onnx_call *c;
    struct onnx_inner inner;
    uint32_t n_state, n_over, n_made; /* numbers of states, of scan inputs, of scan outputs */
    int64_t length;
    struct onnx_value **in;   /* inputs of the body: states, elements of scan inputs */
    struct onnx_value **made; /* outputs of the body: states, elements of scan outputs */
    struct onnx_list *out;    /* the elements of each of the n_made scan outputs */
};

static enum bp_status scan_begin(struct onnx_call *c, uint32_t n_in, struct scan *s)
{
    const struct onnx_body *body;

    *s = (struct scan){.c = c};
    TRY(onnx_inner_find(c, "body", &s->inner));
    body = s->inner.body;
    s->n_over = (uint32_t)onnx_attr_int(c, "num_scan_inputs", 0);
    if (!s->n_over || s->n_over > n_in || body->n_input != n_in)
        return onnx_error(BP_ERR_INVALID, "%u inputs for a body of %u, num_scan_inputs is %u",
                          n_in, body->n_input, s->n_over);
    s->n_state = n_in - s->n_over;
    if (body->n_output < s->n_state)
        return onnx_error(BP_ERR_INVALID, "the body has %u outputs, for %u states",
                          body->n_output, s->n_state);
    s->n_made = body->n_output - s->n_state;
    s->in = calloc(body->n_input + 1, sizeof *s->in);
    s->made = calloc(body->n_output + 1, sizeof *s->made);
    s->out = calloc(s->n_made + 1, sizeof *s->out);
    return s->in && s->made && s->out ? BP_OK : onnx_no_memory();
}

static void scan_clear(struct scan *s)
{
    for (uint32_t i = 0; s->in && i < s->n_state + s->n_over; i++) {
        onnx_value_release(s->in[i]);
        s->in[i] = NULL;
    }
    for (uint32_t i = 0; s->out && i < s->n_made; i++) onnx_list_finish(&s->out[i]);
}

static void scan_finish(struct scan *s)
{
    scan_clear(s);
    free(s->in);
    free(s->made);
    free(s->out);
}

/* Entry i of a list of axes or directions; 0 if the list is shorter. */
static int64_t scan_entry(struct onnx_call *c, const char *name, uint32_t i)
{
    struct onnx_ints list = onnx_attr_ints(c, name);

    return i < list.n ? list.at[i] : 0;
}

/* Makes element t of scan input i an input of the body. */
static enum bp_status take_element(struct scan *s, const struct onnx_value *over, uint32_t i,
                                   int64_t t)
{
    bool old = s->c->node->opset < 9;
    int64_t axis = old ? 0 : scan_entry(s->c, "scan_input_axes", i);
    bool backwards = scan_entry(s->c, old ? "directions" : "scan_input_directions", i) != 0;
    struct onnx_value **to = &s->in[s->n_state + i];

    onnx_value_release(*to);
    *to = NULL;
    TRY(onnx_axis(axis, onnx_info(over->tensor).rank, &axis));
    return onnx_at(s->c, over, axis, backwards ? s->length - 1 - t : t, to);
}

static enum bp_status one_round(struct scan *s, struct onnx_value *const *over, int64_t t)
{
    enum bp_status status = BP_OK;

    TRY(onnx_check_round(s->c->run));
    TRY(onnx_check_unrolled(s->c, t));
    for (uint32_t i = 0; i < s->n_over; i++) TRY(take_element(s, over[i], i, t));
    TRY(onnx_inner_run(s->c, &s->inner, s->in, s->made));
    for (uint32_t i = 0; i < s->n_state; i++) {
        onnx_value_release(s->in[i]);
        s->in[i] = s->made[i];
    }
    for (uint32_t i = 0; i < s->n_made; i++) {
        enum bp_status added = onnx_list_add(&s->out[i], s->made[s->n_state + i]);
        if (status == BP_OK) status = added;
    }
    return status;
}

static void scan_reverse(struct onnx_list *list)
{
    for (size_t i = 0; i < list->n / 2; i++) {
        struct onnx_value *v = list->at[i];
        list->at[i] = list->at[list->n - 1 - i];
        list->at[list->n - 1 - i] = v;
    }
}

/* Joins the elements of scan output i. */
static enum bp_status put_together(struct scan *s, uint32_t i, struct onnx_value **out)
{
    bool old = s->c->node->opset < 9;
    int64_t axis = old ? 0 : scan_entry(s->c, "scan_output_axes", i);

    if (!s->out[i].n) return onnx_inner_none(s->c, &s->inner, s->n_state + i, axis, out);
    if (!old && scan_entry(s->c, "scan_output_directions", i)) scan_reverse(&s->out[i]);
    return onnx_join(s->c, s->out[i].at, s->out[i].n, axis, true, out);
}

/* Finds the extent of the scan inputs along their axes, which must be equal. */
static enum bp_status find_length(struct scan *s, struct onnx_value *const *over)
{
    bool old = s->c->node->opset < 9;

    for (uint32_t i = 0; i < s->n_over; i++) {
        struct bp_tensor_info info = onnx_info(over[i]->tensor);
        int64_t axis;
        TRY(onnx_axis(old ? 0 : scan_entry(s->c, "scan_input_axes", i), info.rank, &axis));
        if (i && info.shape[axis] != s->length)
            return onnx_error(BP_ERR_INVALID, "inputs are gone over for %lld and %lld elements",
                              (long long)s->length, (long long)info.shape[axis]);
        s->length = info.shape[axis];
    }
    return BP_OK;
}

enum bp_status onnx_scan(struct onnx_call *c)
{
    struct onnx_value **in = calloc(c->node->n_in + 1, sizeof *in);
    struct scan s = {.c = c};
    enum bp_status status = in ? scan_begin(c, c->node->n_in, &s) : onnx_no_memory();

    for (uint32_t i = 0; i < c->node->n_in && status == BP_OK; i++)
        status = onnx_expect(c, i, &in[i]);
    if (status == BP_OK) status = find_length(&s, in + s.n_state);
    for (uint32_t i = 0; i < s.n_state && status == BP_OK; i++) s.in[i] = onnx_value_retain(in[i]);
    for (int64_t t = 0; t < s.length && status == BP_OK; t++)
        status = one_round(&s, in + s.n_state, t);
    for (uint32_t i = 0; i < s.n_state && status == BP_OK; i++)
        status = onnx_give_value(c, i, onnx_value_retain(s.in[i]));
    for (uint32_t i = 0; i < s.n_made && status == BP_OK; i++) {
        struct onnx_value *all;
        status = put_together(&s, i, &all);
        if (status == BP_OK) status = onnx_give_value(c, s.n_state + i, all);
    }
    scan_finish(&s);
    free(in);
    return status;
}

/* Appends zeros to the output of a scan that is shorter than the longest. */
static enum bp_status scan_lengthen(struct onnx_call *c, int64_t length, struct onnx_value **v)
{
    struct bp_pad_attrs attrs = bp_pad_defaults();
    struct bp_tensor_info info = onnx_info((*v)->tensor);
    int64_t after[ONNX_RANK_MAX] = {length - info.shape[0]};
    bool symbolic = (*v)->symbolic;
    struct bp_tensor *y = NULL;

    if (!after[0]) return BP_OK;
    attrs.after = (struct bp_dims){after, info.rank};
    TRY(bp_op_pad(onnx_scope_of(c, symbolic), (*v)->tensor, NULL, NULL, &attrs, &y));
    onnx_value_release(*v);
    *v = NULL;
    return onnx_value_tensor(c->run, y, symbolic, v);
}

/* Scans batch b, and appends its states and outputs to the lists of all batches. */
static enum bp_status scan_batch(struct scan *s, int64_t b, int64_t most, int64_t length,
                                 struct onnx_list *all)
{
    struct onnx_list over = {NULL, 0};
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < s->n_state + s->n_over && status == BP_OK; i++) {
        struct onnx_value *whole, *part = NULL;
        status = onnx_expect(s->c, i + 1, &whole);
        if (status == BP_OK) status = onnx_at(s->c, whole, 0, b, &part);
        if (status == BP_OK && i < s->n_state) s->in[i] = part;
        else if (status == BP_OK) status = onnx_list_add(&over, part);
    }
    s->length = length;
    for (int64_t t = 0; t < length && status == BP_OK; t++) status = one_round(s, over.at, t);
    for (uint32_t i = 0; i < s->n_state && status == BP_OK; i++)
        status = onnx_list_add(&all[i], onnx_value_retain(s->in[i]));
    for (uint32_t i = 0; i < s->n_made && status == BP_OK; i++) {
        struct onnx_value *made = NULL;
        status = put_together(s, i, &made);
        if (status == BP_OK) status = scan_lengthen(s->c, most, &made);
        if (status == BP_OK) status = onnx_list_add(&all[s->n_state + i], made);
        else onnx_value_release(made);
    }
    onnx_list_finish(&over);
    scan_clear(s);
    return status;
}

/* Finds the number of batches, and the length of the longest. */
static enum bp_status batch_extents(const struct scan *s, int64_t *out_batches, int64_t *out_most)
{
    for (uint32_t i = 0; i < s->n_state + s->n_over; i++) {
        struct bp_tensor_info info;
        struct onnx_value *v;
        TRY(onnx_expect(s->c, i + 1, &v));
        info = onnx_info(v->tensor);
        if (info.rank < 1u + (i >= s->n_state) || (i && info.shape[0] != *out_batches) ||
            (i > s->n_state && info.shape[1] != *out_most))
            return onnx_error(BP_ERR_INVALID, "input %u has other batches or another length",
                              i + 1);
        *out_batches = info.shape[0];
        if (i >= s->n_state) *out_most = info.shape[1];
    }
    return BP_OK;
}

static enum bp_status scan_batches(struct scan *s, struct onnx_list *all)
{
    int64_t batches = 0, most = 0;
    struct onnx_ints lengths;

    TRY(batch_extents(s, &batches, &most));
    TRY(onnx_in_ints(s->c, 0, &lengths));
    if (lengths.n >= 0 && lengths.n != batches)
        return onnx_error(BP_ERR_INVALID, "%lld lengths for %lld batches", (long long)lengths.n,
                          (long long)batches);
    for (int64_t b = 0; b < batches; b++) {
        int64_t length = lengths.n < 0 ? most : lengths.at[b];
        if (length < 0 || length > most)
            return onnx_error(BP_ERR_INVALID, "batch %lld has length %lld, 0 to %lld is expected",
                              (long long)b, (long long)length, (long long)most);
        TRY(scan_batch(s, b, most, length, all));
    }
    for (uint32_t i = 0; i < s->n_state + s->n_made; i++) {
        struct onnx_value *joined;
        TRY(onnx_join(s->c, all[i].at, all[i].n, 0, true, &joined));
        TRY(onnx_give_value(s->c, i, joined));
    }
    return BP_OK;
}

enum bp_status onnx_scan_old(struct onnx_call *c)
{
    struct onnx_list *all = NULL;
    struct scan s = {.c = c};
    enum bp_status status = scan_begin(c, c->node->n_in ? c->node->n_in - 1 : 0, &s);

    if (status == BP_OK) {
        all = calloc(s.n_state + s.n_made + 1, sizeof *all);
        status = all ? scan_batches(&s, all) : onnx_no_memory();
    }
    for (uint32_t i = 0; all && i < s.n_state + s.n_made; i++) onnx_list_finish(&all[i]);
    free(all);
    scan_finish(&s);
    return status;
}
