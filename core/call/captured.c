/* SPDX-License-Identifier: Apache-2.0 */
/* captured.c: checks whether a call can be captured, and keeps the prepared calls and fallback
 * counts of a capture. */
#include "../exec/capture.h"

#include <stdlib.h>

static enum bp_status check_row(const struct bp_opdef *row)
{
    if (row->bound)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: its extents depend on data, which the host reads",
                        row->info.name);
    return BP_OK;
}

/* Memory with handles has no address that a launch could pass. */
static enum bp_status check_random(const struct bp_device *device, const struct bp_step *step)
{
    if (!step->row->random || !step->kernel) return BP_OK;
    if (device->properties.flags & BP_DEVICE_HANDLES)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s draws random numbers, others each time, and the device's memory has "
                        "handles", step->row->info.name);
    if (!(step->kernel->flags & BP_KERNEL_RNG))
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s draws random numbers, others each time, and its kernel %s does not use "
                        "launch->rng", step->row->info.name, step->kernel->name);
    return BP_OK;
}

static enum bp_status check_step(const struct bp_device *device, const struct bp_step *step)
{
    if (step->fallback)
        return bp_error(BP_ERR_UNSUPPORTED, "%s runs on %s", step->row->info.name,
                        step->fallback->device->name);
    if (step->transform && step->transform->waits)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: the host has a part in it: %s",
                        step->row->info.name,
                        step->transform->indices ? "it converts indices"
                                                 : "it copies many short pieces");
    if (step->kernel && step->kernel->flags & BP_KERNEL_NO_CAPTURE)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: its kernel %s is not to be recorded",
                        step->row->info.name, step->kernel->name);
    TRY(check_random(device, step));
    return check_row(step->row);
}

uint64_t bp_capture_draw(struct bp_capture *r, uint64_t blocks)
{
    uint64_t first = r->random_blocks;

    r->random_blocks += blocks;
    return first;
}

const uint64_t *bp_capture_rng(const struct bp_capture *r)
{
    return r->rng ? r->rng->memory.data : NULL;
}

enum bp_status bp_capture_add_call(struct bp_capture *r, struct bp_prepared *p)
{
    TRY(check_row(p->row));
    for (uint32_t i = 0; i < p->n_step; i++) TRY(check_step(r->device, &p->step[i]));
    if (r->n_kept && r->kept[r->n_kept - 1] == p) return BP_OK;
    if (r->n_kept == r->room_kept) {
        uint32_t room = r->room_kept ? 2 * r->room_kept : 64;
        void *grown = realloc(r->kept, room * sizeof(struct bp_prepared *));
        if (!grown)
            return bp_error(BP_ERR_MEMORY, "%s: no host memory for a recording", r->device->name);
        r->kept = grown;
        r->room_kept = room;
    }
    bp_prepared_retain(p);
    r->kept[r->n_kept++] = p;
    return BP_OK;
}

/* If host memory runs out, replays of this fallback are not counted. */
void bp_capture_count_fallback(struct bp_capture *r, const struct bp_opdef *row, uint32_t kind,
                               uint64_t bytes)
{
    if (r->n_fallback == r->room_fallback) {
        uint32_t room = r->room_fallback ? 2 * r->room_fallback : 16;
        void *grown = realloc(r->fallback, room * sizeof *r->fallback);
        if (!grown) return;
        r->fallback = grown;
        r->room_fallback = room;
    }
    r->fallback[r->n_fallback++] = (struct bp_captured_fallback){row, kind, bytes};
}
