/* SPDX-License-Identifier: Apache-2.0 */
/* compose.c: implements compositions, which call operators as expressions (compose.h). */
#include "compose.h"

#include <backplane/attrs.h>
#include <stdlib.h>
#include <string.h>

struct bp_compose bp_compose_begin(struct bp_scope *scope)
{
    return (struct bp_compose){.scope = scope, .status = BP_OK};
}

struct bp_tensor *bp_compose_take(struct bp_compose *c, struct bp_tensor *t)
{
    if (!t) return NULL;
    if (c->n == c->room) {
        uint32_t room = c->room ? 2 * c->room : 16;
        struct bp_tensor **made = realloc(c->made, room * sizeof *made);
        if (!made) {
            c->status = bp_error(BP_ERR_MEMORY, "no memory for the steps of an operator");
            bp_tensor_destroy(t);
            return NULL;
        }
        c->made = made;
        c->room = room;
    }
    return c->made[c->n++] = t;
}

/* Makes one argument for each declared input, with one tensor each. */
static size_t args_of(enum bp_row_number row, struct bp_tensor *const *in, size_t n_in,
                      struct bp_arg *arg)
{
    static struct bp_tensor *const absent = NULL;
    uint32_t n = bp_opdef[row].info.n_in;

    for (uint32_t i = 0; i < n; i++) arg[i] = (struct bp_arg){i < n_in ? &in[i] : &absent, 1};
    return n;
}

static void compose_call(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                         const struct bp_arg *arg, size_t n_arg, uint32_t want,
                         struct bp_tensor **out)
{
    struct bp_tensor **place[BP_PORT_MAX] = {NULL};
    uint32_t n_out = bp_opdef[row].info.n_out;

    for (uint32_t i = 0; i < n_out; i++) {
        if (!(want >> i & 1)) continue;
        out[i] = NULL;
        place[i] = &out[i];
    }
    if (c->status == BP_OK)
        c->status = bp_call_typed(c->scope, row, arg, n_arg, attrs, place, n_out);
    for (uint32_t i = 0; i < n_out; i++)
        if (place[i]) out[i] = c->status == BP_OK ? bp_compose_take(c, out[i]) : NULL;
}

void bp_compose_outputs(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                        struct bp_tensor *const *in, size_t n_in, uint32_t want,
                        struct bp_tensor **out)
{
    struct bp_arg arg[BP_PORT_MAX];

    compose_call(c, row, attrs, arg, args_of(row, in, n_in, arg), want, out);
}

struct bp_tensor *bp_compose(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                             struct bp_tensor *const *in, size_t n_in)
{
    struct bp_tensor *out[BP_PORT_MAX] = {NULL};

    bp_compose_outputs(c, row, attrs, in, n_in, 1, out);
    return out[0];
}

struct bp_tensor *bp_compose_all(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                                 struct bp_tensor *const *in, size_t n_in)
{
    struct bp_tensor *out[BP_PORT_MAX] = {NULL};
    struct bp_arg arg = {in, n_in};

    compose_call(c, row, attrs, &arg, 1, 1, out);
    return out[0];
}

void bp_compose_keep(struct bp_compose *c, struct bp_tensor *t, struct bp_tensor **out)
{
    if (c->status) return;
    c->kept[c->n_kept].tensor = t;
    c->kept[c->n_kept++].out = out;
}

enum bp_status bp_compose_end(struct bp_compose *c)
{
    for (uint32_t i = 0; i < c->n_kept && c->status == BP_OK; i++)
        *c->kept[i].out = bp_tensor_retain(c->kept[i].tensor);
    while (c->n) bp_tensor_destroy(c->made[--c->n]);
    free(c->made);
    c->made = NULL;
    return c->status;
}

enum bp_status bp_compose_give(struct bp_decomposition *e, struct bp_compose *c,
                               struct bp_tensor *y)
{
    bp_compose_keep(c, bp_compose_cast(c, y, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(c);
}

enum bp_status bp_compose_dx(struct bp_grad *g, struct bp_compose *c, struct bp_tensor *dx)
{
    if (g->want[0]) bp_compose_keep(c, dx, &g->dx[0]);
    return bp_compose_end(c);
}

struct bp_tensor *bp_compose_scale(struct bp_compose *c, struct bp_tensor *x, double factor,
                                   double bias)
{
    struct bp_scale_attrs a = {.size = sizeof a, .factor = factor, .bias = bias};

    return MAKE(c, scale, &a, x);
}

struct bp_tensor *bp_compose_cast(struct bp_compose *c, struct bp_tensor *x, uint32_t dtype)
{
    struct bp_cast_attrs a = {.size = sizeof a, .to = dtype};

    return c->status || x->view.dtype == dtype ? x : MAKE(c, cast, &a, x);
}

struct bp_tensor *bp_compose_widen(struct bp_compose *c, struct bp_tensor *x)
{
    bool half = !c->status && (x->view.dtype == BP_F16 || x->view.dtype == BP_BF16);

    return half ? bp_compose_cast(c, x, BP_F32) : x;
}

struct bp_tensor *bp_compose_not_zero(struct bp_compose *c, struct bp_tensor *y)
{
    struct bp_tensor *some = bp_compose_cast(c, y, BP_BOOL);

    if (c->status) return NULL;
    some = bp_compose_cast(c, some, y->view.dtype);
    return MAKE(c, add, NULL, y, bp_compose_scale(c, some, -1, 1));
}

struct bp_tensor *bp_compose_reshape(struct bp_compose *c, struct bp_tensor *x, uint32_t rank,
                                     const int64_t *shape)
{
    struct bp_reshape_attrs a = {.size = sizeof a, .shape = {shape, rank}};

    return MAKE(c, reshape, &a, x);
}

struct bp_tensor *bp_compose_sum(struct bp_compose *c, struct bp_tensor *x, const int64_t *axes,
                                 int64_t n, bool keep)
{
    struct bp_sum_attrs a = {.size = sizeof a, .axes = {axes, n}, .keep = keep};

    return n ? MAKE(c, sum, &a, x) : x;
}

struct bp_tensor *bp_compose_sum_to(struct bp_compose *c, struct bp_tensor *x,
                                    const struct bp_tensor *like)
{
    int64_t lead[BP_RANK_MAX], inner[BP_RANK_MAX], n_lead = 0, n_inner = 0;
    uint32_t extra;

    if (c->status) return NULL;
    extra = x->view.rank - like->view.rank;
    for (uint32_t i = 0; i < x->view.rank; i++) {
        if (i < extra) lead[n_lead++] = i;
        else if (like->shape[i - extra] != x->shape[i]) inner[n_inner++] = i;
    }
    return bp_compose_sum(c, bp_compose_sum(c, x, inner, n_inner, true), lead, n_lead, false);
}
