/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules and decompositions of operators whose results are truth values. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>

static const uint32_t both[] = {0, 1};

enum bp_status bp_infer_compare(struct bp_invocation *inv)
{
    inv->out[0].dtype = BP_BOOL;
    return bp_shape_broadcast(inv, both, 2, 0, &inv->out[0]);
}

enum bp_status bp_infer_allclose(struct bp_invocation *inv)
{
    TRY(bp_infer_compare(inv));
    inv->out[0].rank = 0;
    return BP_OK;
}

enum bp_status bp_infer_equal_all(struct bp_invocation *inv)
{
    struct bp_type same;

    bp_shape_copy(&same, bp_invocation_in(inv, 0));
    TRY(bp_shape_expect(inv, 1, &same));
    inv->out[0].dtype = BP_BOOL;
    inv->out[0].rank = 0;
    return BP_OK;
}

/* Whether no element holds: the number of elements that hold equals 0. The 0 is made as that number
 * minus itself. */
static struct bp_tensor *compare_none(struct bp_compose *c, struct bp_tensor *holds)
{
    struct bp_sum_attrs all = {.size = sizeof all};
    struct bp_tensor *n = MAKE(c, sum, &all, bp_compose_cast(c, holds, BP_I64));

    return MAKE(c, equal, NULL, n, MAKE(c, sub, NULL, n, n));
}

enum bp_status bp_decompose_equal_all(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);

    bp_compose_keep(&c, compare_none(&c, MAKE(&c, not_equal, NULL, e->in[0], e->in[1])),
                    &e->out[0]);
    return bp_compose_end(&c);
}

/* For truth values, close == close is true everywhere. */
enum bp_status bp_decompose_allclose(struct bp_decomposition *e)
{
    const struct bp_allclose_attrs *a = e->attrs;
    struct bp_isclose_attrs with = {sizeof with, a->rtol, a->atol, a->equal_nan};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *close = MAKE(&c, isclose, &with, e->in[0], e->in[1]);
    struct bp_tensor *yes = MAKE(&c, equal, NULL, close, close);

    bp_compose_keep(&c, compare_none(&c, MAKE(&c, not_equal, NULL, close, yes)), &e->out[0]);
    return bp_compose_end(&c);
}
