/* SPDX-License-Identifier: Apache-2.0 */
/* affine.c: finds nodes that multiply each channel by a factor and add a shift, and records their
 * factors and shifts. */
#include "affine.h"

#include <backplane/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t bp_affine_input(const struct bp_ir *ir, const struct bp_node *node, uint32_t port)
{
    if (node->in_at[port] == node->in_at[port + 1] || node->in[node->in_at[port]] == BP_NO_VALUE)
        return BP_NO_VALUE;
    return bp_ir_same(ir, node->in[node->in_at[port]]);
}

bool bp_affine_frozen(const struct bp_ir *ir, const uint32_t *value, uint32_t n, uint32_t dtype)
{
    for (uint32_t i = 0; i < n; i++)
        if (value[i] != BP_NO_VALUE &&
            (!bp_ir_is_frozen(ir, value[i]) || ir->value[value[i]].type->view.dtype != dtype))
            return false;
    return true;
}

/* ---- finding ---- */

/* Whether an operand has one element, or one for each channel: its other extents are 1, so that the
 * result has the type of x. */
static bool is_by_channel(const struct bp_ir *ir, const struct bp_affine *a, uint32_t v)
{
    const struct bp_typed_view *type = ir->value[v].type;
    uint32_t rank = ir->value[a->x].type->view.rank, skipped;

    if (type->view.rank > rank || a->channels < 1) return false;
    if (type->view.count == 1) return true;
    skipped = rank - type->view.rank;
    return type->view.count == a->channels && skipped <= 1 &&
           type->shape[1 - skipped] == a->channels;
}

/* Fills the inputs. */
static bool affine_operands(const struct bp_ir *ir, const struct bp_node *node, uint32_t side,
                            struct bp_affine *a)
{
    bool norm = bp_affine_is(node, BP_ROW_batch_norm),
         commutes = bp_affine_is(node, BP_ROW_mul) || bp_affine_is(node, BP_ROW_add);

    if (side && !commutes) return false;
    for (uint32_t p = 0; p < BP_NORM_INPUTS; p++)
        a->in[p] = norm ? bp_affine_input(ir, node, p) : BP_NO_VALUE;
    a->x = bp_affine_input(ir, node, side);
    if (norm || bp_affine_is(node, BP_ROW_scale)) return true;
    if (!commutes && !bp_affine_is(node, BP_ROW_div) && !bp_affine_is(node, BP_ROW_sub))
        return false;
    a->in[1] = bp_affine_input(ir, node, 1 - side);
    return true;
}

bool bp_affine_find(const struct bp_ir *ir, uint32_t n, uint32_t side, struct bp_affine *out)
{
    const struct bp_node *node = &ir->node[n].call;
    const struct bp_typed_view *type;

    out->node = n;
    if (node->kernel || !affine_operands(ir, node, side, out)) return false;
    type = ir->value[out->x].type;
    out->dtype = type->view.dtype;
    if ((out->dtype != BP_F32 && out->dtype != BP_F64) || type->view.rank < 2 ||
        !bp_affine_frozen(ir, out->in + 1, BP_NORM_INPUTS - 1, out->dtype))
        return false;
    out->channels = type->shape[1];
    return bp_affine_is(node, BP_ROW_batch_norm) || out->in[1] == BP_NO_VALUE ||
           is_by_channel(ir, out, out->in[1]);
}

/* ---- numbers ---- */

bool bp_affine_is_moderate(double factor)
{
    return fabs(factor) <= 0x1p40;
}

static double affine_larger(double a, double number)
{
    return isfinite(number) ? fmax(a, fabs(number)) : INFINITY;
}

double bp_affine_largest(const struct bp_ir *ir, uint32_t value)
{
    int64_t n = value == BP_NO_VALUE ? 0 : ir->value[value].type->view.count;
    double *number = n ? malloc((size_t)n * sizeof *number) : NULL, largest = 0;

    if (n && (!number || !bp_ir_read(ir, value, n, number))) largest = INFINITY;
    for (int64_t i = 0; i < n && largest < INFINITY; i++)
        largest = affine_larger(largest, number[i]);
    free(number);
    return largest;
}

static bool norm_read(const struct bp_ir *ir, const struct bp_affine *a,
                      struct bp_affine_bounds *out)
{
    const struct bp_batch_norm_attrs *attrs = ir->node[a->node].call.attrs;
    double *number[BP_NORM_INPUTS] = {NULL};
    bool good = true;

    for (int p = 1; p < BP_NORM_INPUTS; p++) {
        number[p] = malloc((size_t)a->channels * sizeof **number + 1);
        for (int64_t i = 0; number[p] && i < a->channels; i++) number[p][i] = p == BP_NORM_SCALE;
        good = good && number[p] &&
               (a->in[p] == BP_NO_VALUE || bp_ir_read(ir, a->in[p], a->channels, number[p]));
    }
    for (int64_t i = 0; good && i < a->channels; i++) {
        double factor =
            number[BP_NORM_SCALE][i] / sqrt(number[BP_NORM_VARIANCE][i] + attrs->epsilon);
        out->factor = affine_larger(out->factor, factor);
        out->shift = affine_larger(out->shift,
                                   number[BP_NORM_BIAS][i] - number[BP_NORM_MEAN][i] * factor);
    }
    for (int p = 1; p < BP_NORM_INPUTS; p++) free(number[p]);
    return good;
}

static bool divisor_read(const struct bp_ir *ir, uint32_t value, double *out_largest)
{
    int64_t n = ir->value[value].type->view.count;
    double *number = malloc((size_t)n * sizeof *number + 1);
    bool good = number && bp_ir_read(ir, value, n, number);

    for (int64_t i = 0; good && i < n; i++)
        *out_largest = affine_larger(*out_largest, 1 / number[i]);
    free(number);
    return good;
}

bool bp_affine_read(const struct bp_ir *ir, const struct bp_affine *a,
                    struct bp_affine_bounds *out)
{
    const struct bp_node *node = &ir->node[a->node].call;

    *out = (struct bp_affine_bounds){0, 0};
    if (bp_affine_is(node, BP_ROW_batch_norm)) return norm_read(ir, a, out);
    if (bp_affine_is(node, BP_ROW_scale)) {
        const struct bp_scale_attrs *attrs = node->attrs;
        out->factor = affine_larger(0, attrs->factor);
        out->shift = affine_larger(0, attrs->bias);
        return true;
    }
    if (bp_affine_is(node, BP_ROW_div)) return divisor_read(ir, a->in[1], &out->factor);
    if (bp_affine_is(node, BP_ROW_mul)) {
        out->factor = bp_affine_largest(ir, a->in[1]);
        return true;
    }
    out->factor = 1;
    out->shift = bp_affine_largest(ir, a->in[1]);
    return true;
}

bool bp_affine_shifts(const struct bp_ir *ir, const struct bp_affine *a)
{
    const struct bp_node *node = &ir->node[a->node].call;

    if (bp_affine_is(node, BP_ROW_scale))
        return ((const struct bp_scale_attrs *)node->attrs)->bias != 0;
    return !bp_affine_is(node, BP_ROW_mul) && !bp_affine_is(node, BP_ROW_div);
}

/* ---- recording ---- */

static struct bp_tensor *affine_number(struct bp_compose *c, uint32_t dtype, double value)
{
    struct bp_full_attrs attrs = *(const struct bp_full_attrs *)bp_opdef[BP_ROW_full].info.defaults;

    attrs.value = value;
    attrs.dtype = dtype;
    return MAKE(c, full, &attrs, NULL);
}

static struct bp_affine_terms norm_terms(struct bp_compose *c, const struct bp_node *node,
                                         struct bp_tensor *const *in)
{
    const struct bp_batch_norm_attrs *attrs = node->attrs;
    struct bp_tensor *a, *t;

    a = MAKE(c, rsqrt, NULL, bp_compose_scale(c, in[BP_NORM_VARIANCE], 1, attrs->epsilon));
    if (in[BP_NORM_SCALE]) a = MAKE(c, mul, NULL, a, in[BP_NORM_SCALE]);
    t = MAKE(c, neg, NULL, MAKE(c, mul, NULL, in[BP_NORM_MEAN], a));
    if (in[BP_NORM_BIAS]) t = MAKE(c, add, NULL, t, in[BP_NORM_BIAS]);
    return (struct bp_affine_terms){a, t};
}

static struct bp_affine_terms scale_terms(struct bp_compose *c, const struct bp_affine *a,
                                          const struct bp_scale_attrs *attrs)
{
    struct bp_affine_terms terms = {affine_number(c, a->dtype, attrs->factor), NULL};

    if (attrs->bias != 0) terms.shift = affine_number(c, a->dtype, attrs->bias);
    return terms;
}

struct bp_affine_terms bp_affine_record(struct bp_compose *c, struct bp_rewrite *rw,
                                        const struct bp_affine *a)
{
    const struct bp_node *node = &rw->ir->node[a->node].call;
    struct bp_tensor *in[BP_NORM_INPUTS] = {NULL};

    for (uint32_t p = 1; p < BP_NORM_INPUTS && !c->status; p++)
        c->status = bp_rewrite_in(rw, a->in[p], &in[p]);
    if (c->status) return (struct bp_affine_terms){NULL, NULL};
    if (bp_affine_is(node, BP_ROW_batch_norm)) return norm_terms(c, node, in);
    if (bp_affine_is(node, BP_ROW_scale)) return scale_terms(c, a, node->attrs);
    if (bp_affine_is(node, BP_ROW_mul)) return (struct bp_affine_terms){in[1], NULL};
    if (bp_affine_is(node, BP_ROW_div))
        return (struct bp_affine_terms){MAKE(c, reciprocal, NULL, in[1]), NULL};
    if (bp_affine_is(node, BP_ROW_sub))
        return (struct bp_affine_terms){NULL, MAKE(c, neg, NULL, in[1])};
    return (struct bp_affine_terms){NULL, in[1]};
}

struct bp_tensor *bp_affine_vector(struct bp_compose *c, const struct bp_affine *a,
                                   struct bp_tensor *term)
{
    struct bp_expand_attrs expand =
        *(const struct bp_expand_attrs *)bp_opdef[BP_ROW_expand].info.defaults;

    if (!term) return NULL;
    if (term->view.count == a->channels) return bp_compose_reshape(c, term, 1, &a->channels);
    expand.shape = (struct bp_dims){&a->channels, 1};
    term = bp_compose_reshape(c, term, 0, NULL);
    return MAKE(c, assign, NULL, MAKE(c, expand, &expand, term)); /* libraries want no strides */
}
