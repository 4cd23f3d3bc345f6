/* SPDX-License-Identifier: Apache-2.0 */
/* fake_operators.c: defines the fake device's own operators.
 *
 *   rows=strange   strange.neg, whose inference returns a status that a test can set
 *   rows=custom    acme.Repeat: x times a factor, n times one after the other along the last axis.
 *                  spoil=NAME makes one property of it wrong: see operators_spoil */
#include "fake_parts.h"

#include <string.h>

static enum bp_status infer_same(const struct bp_prep *prep, struct bp_inferred *y, uint32_t n_out)
{
    enum bp_status status = fake_first(fake_host, FAKE_infer, 0);

    if (status) return status;
    y->rank = prep->in[0]->rank;
    memcpy(y->extent, prep->in[0]->shape, y->rank * sizeof *y->extent);
    return BP_OK;
}

/* The struct's size, then the attributes in their order. */
static const struct fake_repeat_attrs defaults = {sizeof defaults, 1, 1};

static enum bp_status infer_repeat(const struct bp_prep *prep, struct bp_inferred *y,
                                   uint32_t n_out)
{
    const struct fake_repeat_attrs *a = prep->attrs;
    const struct bp_view *x = prep->in[0];

    if (n_out != 1 || !x->rank || a->times < 1) return BP_ERR_INVALID;
    y->rank = fake_is("spoil", "rank") ? 9 : x->rank;
    memcpy(y->extent, x->shape, x->rank * sizeof *x->shape);
    y->extent[x->rank - 1] *= a->times;
    return BP_OK;
}

enum bp_status fake_repeat(const struct bp_launch *l)
{
    const struct fake_repeat_attrs *a = l->attrs;
    const struct bp_view *x = l->in[0];
    int64_t n = x->shape[x->rank - 1];
    const float *from = x->data;
    float *to = l->out[0]->data;

    for (int64_t row = 0; row < (n ? x->count / n : 0); row++, from += n)
        for (int64_t t = 0; t < a->times; t++)
            for (int64_t i = 0; i < n; i++) *to++ = (float)(a->factor * (double)from[i]);
    return BP_OK;
}

static struct bp_port in[] = {{"x", BP_PORT_IN, BP_VAR_T, -1, 0, "the input"}},
                      out[] = {{"y", BP_PORT_OUT, BP_VAR_T, -1, 0, "the output"}};
static struct bp_attr attr[] = {
    {"times", BP_ATTR_I64, BP_ATTR_KEY, 0, 1, 0, 1, "how often"},
    {"factor", BP_ATTR_F64, BP_ATTR_RUN, 0, 1, 0, 1, "by which each element is multiplied"},
};
static struct bp_operator same = {
    .infer = infer_same,
    .info = {.name = "strange.neg", .doc = "Negation.", .in = in, .out = out, .n_in = 1,
             .n_out = 1, .types = {BP_M(F32)}},
};
static struct bp_operator repeat = {
    .infer = infer_repeat,
    .info = {.name = "acme.Repeat", .doc = "x, several times", .in = in, .out = out, .attr = attr,
             .defaults = &defaults, .n_in = 1, .n_out = 1, .n_attr = 2,
             .attrs_size = sizeof defaults, .types = {BP_M(F32)}},
};

static void operators_spoil(struct bp_kernels *kernels)
{
    if (fake_is("spoil", "name")) repeat.info.name = "Repeat";
    if (fake_is("spoil", "dots")) repeat.info.name = "acme..Repeat";
    if (fake_is("spoil", "outputs")) repeat.info.n_out = 0;
    if (fake_is("spoil", "size")) repeat.info.attrs_size = 8;
    if (fake_is("spoil", "kind")) in[0].kind = BP_PORT_HOST;
    if (fake_is("spoil", "dtypes")) repeat.info.types[0] = 0;
    if (fake_is("spoil", "share")) out[0].share = 3;
    if (fake_is("spoil", "attribute")) attr[0].kind = 77;
    if (fake_is("spoil", "flags")) repeat.info.flags = BP_OP_RANDOM;
    if (fake_is("spoil", "stride")) kernels->op_stride = 12;
    if (fake_is("spoil", "other")) attr[0].name = "often";
    if (fake_is("spoil", "rank")) repeat.info.name = "acme.Wrong";
}

void fake_operators_find(struct bp_kernels *kernels)
{
    if (!fake_is("rows", "strange") && !fake_is("rows", "custom")) return;
    kernels->op = fake_is("rows", "custom") ? &repeat : &same;
    kernels->op_count = 1;
    kernels->op_stride = sizeof repeat;
    operators_spoil(kernels);
}
