/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes deform_conv into deform_unfold and a product of matrices. */
#include <call/compose.h>

#include <backplane/attrs.h>
#include <string.h>

/* The groups are an axis of the product: filters [groups, M/groups, C/groups kh kw] times columns
 * [N, groups, C/groups kh kw, L]. */
enum bp_status bp_decompose_deform_conv(struct bp_decomposition *e)
{
    const struct bp_deform_conv_attrs *a = e->attrs;
    const int64_t *x = e->in[0]->shape, *w = e->in[1]->shape, *places = e->in[2]->shape;
    struct bp_deform_unfold_attrs unfold = {.size = sizeof unfold, .kernel = {w[2], w[3]},
                                            .offset_groups = a->offset_groups};
    int64_t depth = w[1] * w[2] * w[3], line = w[0];
    int64_t columns[] = {x[0], a->groups, depth, places[2] * places[3]};
    int64_t filters[] = {a->groups, w[0] / a->groups, depth};
    int64_t result[] = {x[0], w[0], places[2], places[3]}, spread[] = {line, 1, 1};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *in[5], *y;

    memcpy(unfold.stride, a->stride, sizeof unfold.stride);
    memcpy(unfold.dilation, a->dilation, sizeof unfold.dilation);
    memcpy(unfold.pad, a->pad, sizeof unfold.pad);
    for (int i = 0; i < 5; i++) in[i] = e->in[i] ? bp_compose_widen(&c, e->in[i]) : NULL;
    y = MAKE(&c, deform_unfold, &unfold, in[0], in[2], in[4]);
    y = MAKE(&c, matmul, NULL, bp_compose_reshape(&c, in[1], 3, filters),
             bp_compose_reshape(&c, y, 4, columns));
    y = bp_compose_reshape(&c, y, 4, result);
    if (in[3]) y = MAKE(&c, add, NULL, y, bp_compose_reshape(&c, in[3], 3, spread));
    return bp_compose_give(e, &c, y);
}
