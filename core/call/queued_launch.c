/* SPDX-License-Identifier: Apache-2.0 */
/* queued_launch.c: puts a kernel launch into a stream's queue. The views, shapes and attributes
 * that the launch refers to are copied, so that the app's tensors may be destroyed meanwhile. */
#include "../schema/op.h"
#include "profile_launch.h"

#include <stdlib.h>
#include <string.h>

struct launch_task {
    struct bp_task task; /* first */
    struct bp_launch launch;
    const struct bp_kernel *kernel;
    const struct bp_opdef *row;
    struct bp_device *device;
    void *attrs; /* owned */
};

static enum bp_status queued_launch_run(struct bp_task *task, struct bp_timeline *timeline)
{
    struct launch_task *l = (struct launch_task *)task;

    enum bp_status status;
    uint64_t began;

    bp_error_enter();
    began = bp_work_profile_begin(timeline, l->launch.tag);
    status = l->kernel->launch(&l->launch);
    if (began) bp_profile_launch(timeline, &l->launch, l->row, NULL, began);
    status = bp_kernel_leave(l->device, status, l->kernel);
    if (status == BP_OK && timeline->fault) return bp_fault_report(timeline, l->kernel);
    timeline->fault = 0;
    return status;
}

static void queued_launch_destroy(struct bp_task *task)
{
    free(((struct launch_task *)task)->attrs);
    free(task);
}

/* Returns the bytes for the views of one side: a pointer, a view, shape and stride each. */
static size_t views_size(const struct bp_view *const *view, uint32_t n)
{
    size_t size = n * (sizeof *view + sizeof **view);

    for (uint32_t i = 0; i < n; i++)
        if (view[i]) size += 2 * view[i]->rank * sizeof(int64_t);
    return size;
}

/* Copies the views of one side to *at, and moves *at behind them. */
static const struct bp_view *const *copy_views(const struct bp_view *const *from, uint32_t n,
                                               char **at)
{
    const struct bp_view **list = (void *)*at;
    struct bp_view *view = (void *)(*at + n * sizeof *list);
    int64_t *extent = (void *)(view + n);

    for (uint32_t i = 0; i < n; i++) {
        list[i] = from[i] ? &view[i] : NULL;
        if (!from[i]) continue;
        view[i] = *from[i];
        view[i].shape = extent;
        view[i].stride = extent + from[i]->rank;
        memcpy(extent, from[i]->shape, from[i]->rank * sizeof *extent);
        memcpy(extent + from[i]->rank, from[i]->stride, from[i]->rank * sizeof *extent);
        extent += 2 * from[i]->rank;
    }
    *at = (char *)extent;
    return list;
}

/* in_at and out_at are in the prepared call, which lives until its launches have ended. */
enum bp_status bp_launch_enqueue(struct bp_timeline *timeline, const struct bp_launch *launch,
                                 const struct bp_kernel *kernel, const struct bp_opdef *row,
                                 struct bp_device *device)
{
    size_t size = views_size(launch->in, launch->n_in) + views_size(launch->out, launch->n_out);
    struct launch_task *l = malloc(sizeof *l + size);
    char *at = (char *)(l + 1);
    struct bp_deadline until;
    enum bp_status status;

    if (!l) return bp_error(BP_ERR_MEMORY, "%s: no memory for a launch in a queue", row->info.name);
    *l = (struct launch_task){.task = {.run = queued_launch_run,
                                       .destroy = queued_launch_destroy,
                                       .number = launch->tag,
                                       .name = row->info.name},
                              .launch = *launch,
                              .kernel = kernel,
                              .row = row,
                              .device = device};
    l->launch.in = copy_views(launch->in, launch->n_in, &at);
    l->launch.out = copy_views(launch->out, launch->n_out, &at);
    status = launch->attrs ? bp_attrs_copy(&row->info, launch->attrs, &l->attrs) : BP_OK;
    l->launch.attrs = l->attrs;
    until = bp_deadline_of(device);
    if (status == BP_OK) status = bp_queue_push(timeline->queue, &l->task, &until);
    if (status) queued_launch_destroy(&l->task);
    return status;
}
