/* SPDX-License-Identifier: Apache-2.0 */
/* prepared_info.c: counts references to prepared calls, frees them, and returns their
 * properties. */
#include "prepared.h"

#include <stdlib.h>

void bp_step_finish(struct bp_step *step)
{
    if (step->plan.plan && step->kernel->plan_destroy)
        step->kernel->plan_destroy(step->launch.self, step->launch.kernel, step->plan.plan);
    if (step->fallback) bp_prepared_release(step->fallback);
    free(step->transform);
    free(step->attrs);
    free(step->in);
}

void bp_prepared_free(struct bp_prepared *p)
{
    if (p->counted) bp_memory_plan_release(p->device, p->counted);
    for (uint32_t i = 0; i < p->n_step; i++) bp_step_finish(&p->step[i]);
    for (uint32_t i = 0; i < p->n_temp; i++) free(p->temp[i]);
    if (p->step != &p->first) free(p->step);
    free(p->temp);
    free(p->constant);
    free(p->attrs);
    free(p);
}

void bp_prepared_release(struct bp_prepared *p)
{
    struct bp_device *device = p->device;
    bool keeps_device = p->keeps_device;

    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    p->magic = 0;
    bp_deferred_release(device, &p->pending);
    if (keeps_device) bp_device_release(device);
}

void bp_prepared_destroy(struct bp_prepared *p)
{
    if (bp_prepared_is(p)) bp_prepared_release(p);
}

const char *bp_step_name(const struct bp_step *step)
{
    if (step->transform) return step->transform->indices ? "(indices)" : "(copy)";
    return step->kernel ? step->kernel->name : bp_prepared_kernel(step->fallback);
}

/* Returns the kernel of the call itself, or of its last step. */
const char *bp_prepared_kernel(struct bp_prepared *prepared)
{
    if (!bp_prepared_is(prepared) || !prepared->n_step) return "";
    return bp_step_name(&prepared->step[prepared->n_step - 1]);
}

uint32_t bp_prepared_steps(struct bp_prepared *prepared)
{
    return bp_prepared_is(prepared) ? prepared->n_step : 0;
}

const char *bp_prepared_step(struct bp_prepared *prepared, uint32_t index)
{
    if (!bp_prepared_is(prepared) || index >= prepared->n_step) return "";
    return bp_step_name(&prepared->step[index]);
}

enum bp_status bp_prepared_output(struct bp_prepared *prepared, uint32_t index,
                                  struct bp_tensor_info *out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const struct bp_view *v;

    if (!bp_prepared_is(prepared)) return bp_not_a("prepared call");
    if (index >= prepared->n_out)
        return bp_error(BP_ERR_INVALID, "%s: there is no output %u", prepared->row->info.name,
                        index);
    v = &prepared->type[prepared->n_in + index].view;
    if (v->rank == BP_ABSENT || (index < BP_PORT_MAX && prepared->unasked >> index & 1))
        return bp_error(BP_ERR_INVALID, "%s: output %u was not asked for",
                        prepared->row->info.name, index);
    info.device = prepared->device;
    info.shape = v->shape;
    info.stride = v->stride;
    info.count = v->count;
    info.bytes = (uint64_t)v->count * (bp_dtype_bits(v->dtype) / 8);
    info.dtype = v->dtype;
    info.rank = v->rank;
    info.contiguous = !(v->flags & BP_VIEW_STRIDED);
    return bp_info_fill(out, &info, sizeof info);
}
