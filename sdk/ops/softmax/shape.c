/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: rules of softmax. */
#include <call/shape.h>

#include <backplane/attrs.h>

enum bp_status bp_infer_softmax(struct bp_site *site)
{
    const struct bp_softmax_attrs *a = site->attrs;
    uint32_t axis;

    TRY(bp_rule_axis(site, a->axis, bp_site_in(site, 0)->rank, &axis));
    bp_rule_shape(&site->out[0], bp_site_in(site, 0));
    return BP_OK;
}

enum bp_status bp_infer_softmax_grad(struct bp_site *site)
{
    const struct bp_softmax_grad_attrs *a = site->attrs;
    uint32_t axis;

    TRY(bp_rule_axis(site, a->axis, bp_site_in(site, 0)->rank, &axis));
    bp_rule_shape(&site->out[0], bp_site_in(site, 0));
    return bp_rule_expect(site, 1, &site->out[0]);
}
