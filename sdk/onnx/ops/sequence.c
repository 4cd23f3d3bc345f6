/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c: runs operators on sequences and optionals: lists on the host, of tensors on the
 * device. */
#include "body.h"
#include <stdlib.h>
#include <string.h>

/* Reads input i, which must be a sequence. */
static enum bp_status expect_sequence(const struct onnx_call *c, uint32_t i,
                                      struct onnx_value **out)
{
    struct onnx_value *v = onnx_in_value(c, i);

    if (v && v->kind == BP_MODEL_OPTIONAL && v->n_item) v = v->item[0];
    if (!v || v->kind != BP_MODEL_SEQUENCE)
        return onnx_error(BP_ERR_INVALID, "input %u: a sequence is expected", i);
    *out = v;
    return BP_OK;
}

/* Sets output 0 to a sequence of these values, which stay the caller's. */
static enum bp_status give_sequence(struct onnx_call *c, struct onnx_value *const *v, size_t n)
{
    struct onnx_value *made;

    for (size_t i = 0; i < n; i++) {
        if (!v[i] || v[i]->kind != BP_MODEL_TENSOR)
            return onnx_error(BP_ERR_UNSUPPORTED, "element %zu of a sequence is no tensor", i);
        if (onnx_info(v[i]->tensor).dtype != onnx_info(v[0]->tensor).dtype)
            return onnx_error(BP_ERR_INVALID, "element %zu of a sequence is %s, the first %s", i,
                              bp_dtype_name(onnx_info(v[i]->tensor).dtype),
                              bp_dtype_name(onnx_info(v[0]->tensor).dtype));
    }
    TRY(onnx_value_list(BP_MODEL_SEQUENCE, n, &made));
    for (size_t i = 0; i < n; i++) made->item[i] = onnx_value_retain(v[i]);
    return onnx_give_value(c, 0, made);
}

enum bp_status onnx_sequence_empty(struct onnx_call *c)
{
    uint32_t dtype;

    TRY(onnx_attr_dtype(c, "dtype", BP_F32, &dtype));
    return give_sequence(c, NULL, 0);
}

enum bp_status onnx_sequence_construct(struct onnx_call *c)
{
    struct onnx_value **v = calloc(c->node->n_in + 1, sizeof *v);
    enum bp_status status = v ? BP_OK : onnx_no_memory();

    for (uint32_t i = 0; i < c->node->n_in && status == BP_OK; i++)
        status = onnx_expect(c, i, &v[i]);
    if (status == BP_OK) status = give_sequence(c, v, c->node->n_in);
    free(v);
    return status;
}

/* Reads input i as a position below `places` (negative: from the end of `count` elements);
 * otherwise, if the input is absent. */
static enum bp_status sequence_place_of(struct onnx_call *c, uint32_t i, size_t places,
                                        size_t count, size_t otherwise, size_t *out)
{
    struct onnx_ints given;
    int64_t at;

    TRY(onnx_in_ints(c, i, &given));
    at = given.n < 1 ? (int64_t)otherwise : given.at[0];
    if (at < 0) at += (int64_t)count;
    if (given.n == 0 || given.n > 1 || at < 0 || at >= (int64_t)places)
        return onnx_error(BP_ERR_INVALID, "position %lld in a sequence of %zu",
                          given.n == 1 ? (long long)given.at[0] : (long long)at, count);
    *out = (size_t)at;
    return BP_OK;
}

enum bp_status onnx_sequence_at(struct onnx_call *c)
{
    struct onnx_value *seq = NULL;
    size_t at = 0;

    TRY(expect_sequence(c, 0, &seq));
    TRY(sequence_place_of(c, 1, seq->n_item, seq->n_item, seq->n_item,
                          &at)); /* an absent input 1 is out of range */
    return onnx_give_value(c, 0, onnx_value_retain(seq->item[at]));
}

enum bp_status onnx_sequence_insert(struct onnx_call *c)
{
    struct onnx_value *seq = NULL, *tensor, **v;
    enum bp_status status;
    size_t at = 0;

    TRY(expect_sequence(c, 0, &seq));
    TRY(onnx_expect(c, 1, &tensor));
    TRY(sequence_place_of(c, 2, seq->n_item + 1, seq->n_item, seq->n_item, &at));
    v = calloc(seq->n_item + 1, sizeof *v);
    if (!v) return onnx_no_memory();
    memcpy(v, seq->item, at * sizeof *v);
    memcpy(v + at + 1, seq->item + at, (seq->n_item - at) * sizeof *v);
    v[at] = tensor;
    status = give_sequence(c, v, seq->n_item + 1);
    free(v);
    return status;
}

enum bp_status onnx_sequence_erase(struct onnx_call *c)
{
    struct onnx_value *seq = NULL, **v;
    enum bp_status status;
    size_t at = 0;

    TRY(expect_sequence(c, 0, &seq));
    TRY(sequence_place_of(c, 1, seq->n_item, seq->n_item, seq->n_item - 1, &at));
    v = calloc(seq->n_item, sizeof *v);
    if (!v) return onnx_no_memory();
    memcpy(v, seq->item, at * sizeof *v);
    memcpy(v + at, seq->item + at + 1, (seq->n_item - 1 - at) * sizeof *v);
    status = give_sequence(c, v, seq->n_item - 1);
    free(v);
    return status;
}

enum bp_status onnx_sequence_length(struct onnx_call *c)
{
    struct onnx_value *seq = NULL, *length;

    TRY(expect_sequence(c, 0, &seq));
    TRY(onnx_number(c, (int64_t)seq->n_item, &length));
    return onnx_give_value(c, 0, length);
}

enum bp_status onnx_concat_sequence(struct onnx_call *c)
{
    struct onnx_value *seq = NULL, *joined;

    TRY(expect_sequence(c, 0, &seq));
    TRY(onnx_join(c, seq->item, seq->n_item, onnx_attr_int(c, "axis", 0),
                  onnx_attr_int(c, "new_axis", 0) != 0, &joined));
    return onnx_give_value(c, 0, joined);
}

/* The way in which a tensor is cut along an axis. */
struct cut {
    struct onnx_ints split; /* extents; n is -1: parts of extent `each`, the last may be shorter */
    int64_t axis, extent, each;
    bool drop_axis;
};

static enum bp_status read_cut(struct onnx_call *c, const struct onnx_value *x, struct cut *out)
{
    struct bp_tensor_info info = onnx_info(x->tensor);
    struct bp_tensor *split = onnx_in(c, 1);
    int64_t sum = 0;

    *out = (struct cut){.each = 1};
    TRY(onnx_axis(onnx_attr_int(c, "axis", 0), info.rank, &out->axis));
    TRY(onnx_in_ints(c, 1, &out->split));
    out->extent = info.shape[out->axis];
    out->drop_axis = !split && !onnx_attr_int(c, "keepdims", 1);
    if (split && !onnx_info(split).rank) {
        out->each = out->split.at[0];
        out->split.n = -1;
        if (out->each > 0) return BP_OK;
        return onnx_error(BP_ERR_INVALID, "parts of %lld elements", (long long)out->each);
    }
    for (int64_t i = 0; i < out->split.n; i++) {
        if (out->split.at[i] < 0 || out->split.at[i] > out->extent - sum)
            return onnx_error(BP_ERR_INVALID, "part %lld of %lld elements, %lld are left",
                              (long long)i, (long long)out->split.at[i],
                              (long long)(out->extent - sum));
        sum += out->split.at[i];
    }
    if (out->split.n < 0 || sum == out->extent) return BP_OK;
    return onnx_error(BP_ERR_INVALID, "parts add up to %lld of %lld elements", (long long)sum,
                      (long long)out->extent);
}

enum bp_status onnx_split_sequence(struct onnx_call *c)
{
    struct onnx_list parts = {NULL, 0};
    enum bp_status status = BP_OK;
    struct onnx_value *x, *part;
    int64_t at = 0, n;
    struct cut cut;

    TRY(onnx_expect(c, 0, &x));
    TRY(read_cut(c, x, &cut));
    for (int64_t i = 0; status == BP_OK && (cut.split.n < 0 ? at < cut.extent : i < cut.split.n);
         i++, at += n) {
        n = cut.split.n >= 0               ? cut.split.at[i]
            : cut.extent - at < cut.each ? cut.extent - at
                                           : cut.each;
        status = cut.drop_axis ? onnx_at(c, x, cut.axis, at, &part)
                               : onnx_part(c, x, cut.axis, at, n, &part);
        if (status == BP_OK) status = onnx_list_add(&parts, part);
    }
    if (status == BP_OK) status = give_sequence(c, parts.at, parts.n);
    onnx_list_finish(&parts);
    return status;
}

/* Takes element i of each input that is a sequence; other inputs are passed unchanged. */
static enum bp_status sequence_elements(struct onnx_call *c, size_t i, struct onnx_value **in)
{
    for (uint32_t k = 0; k < c->node->n_in; k++) {
        struct onnx_value *v = onnx_in_value(c, k);
        if (!v) return onnx_error(BP_ERR_INVALID, "input %u is missing", k);
        if (v->kind == BP_MODEL_SEQUENCE && i >= v->n_item)
            return onnx_error(BP_ERR_INVALID, "input %u has %zu elements, input 0 more", k,
                              v->n_item);
        in[k] = v->kind == BP_MODEL_SEQUENCE ? v->item[i] : v;
    }
    return BP_OK;
}

static enum bp_status map_elements(struct onnx_call *c, const struct onnx_inner *inner, size_t n,
                                   struct onnx_value **in, struct onnx_value **made)
{
    for (size_t i = 0; i < n; i++) {
        TRY(onnx_check_round(c->run));
        TRY(onnx_check_unrolled(c, (int64_t)i));
        TRY(sequence_elements(c, i, in));
        TRY(onnx_inner_run(c, inner, in, made));
        for (uint32_t k = 0; k < inner->body->n_output; k++) {
            if (k < c->node->n_out) c->out[k]->item[i] = made[k];
            else onnx_value_release(made[k]);
        }
    }
    return BP_OK;
}

enum bp_status onnx_sequence_map(struct onnx_call *c)
{
    struct onnx_value *seq = NULL, **in;
    struct onnx_inner inner;
    enum bp_status status;

    TRY(expect_sequence(c, 0, &seq));
    TRY(onnx_inner_find(c, "body", &inner));
    if (inner.body->n_input != c->node->n_in || inner.body->n_output < c->node->n_out)
        return onnx_error(BP_ERR_INVALID, "the body has %u inputs and %u outputs, expected %u and "
                          "%u", inner.body->n_input, inner.body->n_output, c->node->n_in,
                          c->node->n_out);
    for (uint32_t i = 0; i < c->node->n_out; i++)
        TRY(onnx_value_list(BP_MODEL_SEQUENCE, seq->n_item, &c->out[i]));
    in = calloc(c->node->n_in + inner.body->n_output + 1, sizeof *in);
    if (!in) return onnx_no_memory();
    status = map_elements(c, &inner, seq->n_item, in, in + c->node->n_in);
    free(in);
    return status;
}

enum bp_status onnx_optional(struct onnx_call *c)
{
    struct onnx_value *held = onnx_in_value(c, 0), *made;

    TRY(onnx_value_list(BP_MODEL_OPTIONAL, held != NULL, &made));
    if (held) made->item[0] = onnx_value_retain(held);
    return onnx_give_value(c, 0, made);
}

enum bp_status onnx_optional_has_element(struct onnx_call *c)
{
    const struct onnx_value *v = onnx_in_value(c, 0);

    return onnx_give_truth(c, 0, v && (v->kind != BP_MODEL_OPTIONAL || v->n_item));
}

enum bp_status onnx_optional_get_element(struct onnx_call *c)
{
    struct onnx_value *v = onnx_in_value(c, 0);

    if (v && v->kind == BP_MODEL_OPTIONAL) v = v->n_item ? v->item[0] : NULL;
    if (!v) return onnx_error(BP_ERR_INVALID, "the optional has no value");
    return onnx_give_value(c, 0, onnx_value_retain(v));
}
