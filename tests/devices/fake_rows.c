/* SPDX-License-Identifier: Apache-2.0 */
/* fake_rows.c: the kernels and operators of the fake device, in sets of which a script names one:
 *
 *   strange   neg, abs, which is prepared, and sqrt, which is asked whether it takes a call, all of
 *             f32; an operator of its own, strange.neg, with a row. All of them negate.
 */
#include "fake_parts.h"

#include <backplane/attrs.h>
#include <string.h>

static const struct bp_host *host_of(void *self)
{
    return ((struct fake_instance *)self)->host;
}

static enum bp_status negate(const struct bp_launch *l)
{
    for (int64_t i = 0; i < l->out[0]->count; i++)
        ((float *)l->out[0]->data)[i] = -((const float *)l->in[0]->data)[i];
    return BP_OK;
}

static enum bp_status prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return fake_first(host_of(self), FAKE_prepare, 0);
}

static enum bp_status accepts(void *self, const struct bp_prep *prep)
{
    return fake_first(host_of(self), FAKE_accepts, 0);
}

static enum bp_status infer(const struct bp_prep *prep, struct bp_inferred *out, uint32_t n_out)
{
    enum bp_status status = fake_first(fake_host, FAKE_infer, 0);

    if (status) return status;
    out[0].rank = prep->in[0]->rank;
    memcpy(out[0].extent, prep->in[0]->shape, out[0].rank * sizeof *out[0].extent);
    return BP_OK;
}

#define F32 {BP_M(F32), 0, 0, 0}
#define ROW(set, what, run, ...) \
    {{BP_OPROW(what), .name = set "_" #what, .types = F32, .launch = fake_launch, __VA_ARGS__}, \
     run, set}
static const struct fake_row rows[] = {
    ROW("strange", neg, negate, .flags = 0),
    ROW("strange", abs, negate, .prepare = prepare),
    ROW("strange", sqrt, negate, .accepts = accepts),
    {{.op = "strange.neg", .name = "strange_own", .types = F32, .in_known = 1, .out_known = 1,
      .launch = fake_launch}, negate, "strange"},
};
#undef ROW

static const struct bp_port in[] = {{.name = "x", .kind = BP_PORT_IN, .share = -1, .doc = "x"}},
                            out[] = {{.name = "y", .kind = BP_PORT_OUT, .share = -1, .doc = "-x"}};
static const struct bp_operator operators[] = {
    {.infer = infer,
     .info = {.name = "strange.neg", .doc = "Negation.", .in = in, .out = out, .types = F32,
              .n_in = 1, .n_out = 1}},
};
#undef F32

void fake_rows_find(struct bp_kernels *kernels)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!fake_is("rows", rows[i].set)) continue;
        if (!kernels->count++) kernels->first = &rows[i].kernel;
    }
    if (!fake_is("rows", "strange")) return;
    kernels->op = operators;
    kernels->op_count = 1;
    kernels->op_stride = sizeof *operators;
}
