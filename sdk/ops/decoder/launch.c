/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernel of linear attention (kernel.h). */
#include "../../dialect/portable.h"
#include "kernel.h"

#include <math.h>
#include <stdbool.h>

/* Whether the next state can hold the state between steps, because it has the type in which half
 * types are computed. Otherwise the workspace does. */
static bool attention_in_place(const struct bp_view *next)
{
    return next && (next->dtype == BP_F32 || next->dtype == BP_F64);
}

enum bp_status portable_linear_attention_prepare(void *self, const struct bp_prep *prep,
                                                 struct bp_plan *out)
{
    const struct bp_view *next = prep->n_out > 1 ? prep->out[1] : NULL, *state = prep->in[3];

    (void)self;
    if (attention_in_place(next)) return portable_needs(out, 0);
    return portable_needs(out, state->count * (prep->in[0]->dtype == BP_F64 ? 8 : 4));
}

static const struct bp_view *attention_in(const struct bp_launch *launch, uint32_t i)
{
    return i < launch->n_in ? launch->in[i] : NULL;
}

enum bp_status portable_linear_attention(const struct bp_launch *launch)
{
    const struct bp_linear_attention_attrs *attrs = launch->attrs;
    const struct bp_view *q = launch->in[0], *k = launch->in[1], *state = launch->in[3];
    const struct bp_view *decay = attention_in(launch, 4), *beta = attention_in(launch, 5);
    const struct bp_view *next = launch->n_out > 1 ? launch->out[1] : NULL;
    double scale = attrs->scale ? attrs->scale : 1 / sqrt((double)q->shape[3]);
    bool in_place = attention_in_place(next);
    struct linear_attention_args args = {
        .steps = q->shape[1], .heads = k->shape[2],
        .group = k->shape[2] ? q->shape[2] / k->shape[2] : 0, .keys = q->shape[3],
        .values = state->shape[3], .decays = decay ? decay->shape[3] : 0,
        .betas = beta ? beta->shape[2] : 0, .wide = state->dtype != q->dtype,
        .done = in_place || !next, .scale = (real)scale};
    struct portable p = PORTABLE(decoder, linear_attention, portable_type(q->dtype), args,
                                 state->shape[0] * state->shape[1] * state->shape[3],
                                 (double)args.steps * (double)args.keys * (double)(3 + args.group));

    portable_view(&p, launch->out[0]);
    portable_view(&p, next);
    if (in_place) portable_view(&p, next);
    else portable_workspace(&p, launch, 0);
    for (uint32_t i = 0; i < 4; i++) portable_view(&p, launch->in[i]);
    portable_view(&p, decay);
    portable_view(&p, beta);
    return portable_run(launch, &p);
}
