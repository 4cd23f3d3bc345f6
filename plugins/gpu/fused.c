/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c: plans and launches `fused`, as one kernel that is compiled for its code:
 * rtc_kernel.c. */
#include "rtc.h"
#include <backplane/attrs.h>
#include <dialect/fused_walk.h>
#include <stdlib.h>
#include <string.h>

struct fused_plan {
    const struct rtc_kernel *kernel; /* NULL: there are no elements */
    int64_t count;
    size_t args_size;
    int64_t args[FUSED_ARGS];
};

/* Prints and compiles the kernel. */
static enum bp_status plan_compile(struct gpu *gpu, const struct bp_prep *prep,
                                   const struct fused_walk *walk, const struct rtc_kernel **out)
{
    static const struct fused_device on = {.has_f64 = true};
    struct bp_dims code = ((const struct bp_fused_attrs *)prep->attrs)->code;
    enum portable_type type = portable_type(prep->out[0]->dtype);
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;
    double work;
    char *text;

    TRY(gpu_device_use(gpu, prep->device, &caller, &device));
    text = portable_fused_print(code, type, &on, walk, &work);
    if (!text) return BP_ERR_UNSUPPORTED;
    status = rtc_get(rtc_of(portable_number(prep->kernel)), device, type, text, out);
    free(text);
    return status;
}

enum bp_status gpu_fused_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct gpu *gpu = self;
    const struct bp_host *host = gpu->host;
    struct fused_plan plan = {.kernel = NULL}, *made;
    struct fused_walk walk;

    portable_fused_walk(prep, &walk);
    plan.count = walk.count;
    plan.args_size = portable_fused_args(&walk, plan.args);
    if (walk.count) TRY(plan_compile(gpu, prep, &walk, &plan.kernel));
    made = host->allocate(host->ctx, sizeof *made, _Alignof(struct fused_plan));
    if (!made)
        return bp_fail(host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a plan of fused",
                       prep->device);
    *made = plan;
    out->plan = made;
    out->bytes = sizeof *made;
    return BP_OK;
}

void gpu_fused_end(void *self, const struct bp_kernel *row, void *plan)
{
    const struct bp_host *host = ((struct gpu *)self)->host;

    (void)row;
    host->release(host->ctx, plan, sizeof(struct fused_plan));
}

/* The parameters are the extents and strides, the count and the operands. */
enum bp_status gpu_fused_run(const struct bp_launch *launch)
{
    const struct fused_plan *p = launch->plan;
    unsigned char parameters[(FUSED_ARGS + 1 + FUSED_OPERANDS) * sizeof(int64_t)];
    size_t size = p->args_size;
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    if (!p->count) return BP_OK;
    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    memcpy(parameters, p->args, size);
    memcpy(parameters + size, &p->count, sizeof p->count);
    size += sizeof p->count;
    for (uint32_t k = 0; k < launch->n_out + launch->n_in; k++, size += sizeof(void *)) {
        const struct bp_view *v = k < launch->n_out ? launch->out[k]
                                                    : launch->in[k - launch->n_out];
        memcpy(parameters + size, &v->data, sizeof v->data);
    }
    return gpu_launch(device, launch->stream, p->kernel->function,
                      gpu_teams(device, p->count, GPU_LANES), parameters, size);
}
