/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c: implements the public functions for tensors whose owner can write the contents
 * again. */
#include "tensor.h"
#include "../memory/source.h"

static enum bp_status restore_check_source(const char *call, const struct bp_tensor_source *source)
{
    if (!source) return bp_error(BP_ERR_INVALID, "%s: source is NULL", call);
    if (source->size < sizeof *source || source->size > 4096)
        return bp_error(BP_ERR_INVALID,
                        "%s: source->size is %zu: set it to sizeof(struct bp_tensor_source)", call,
                        source->size);
    if (!source->write) return bp_error(BP_ERR_INVALID, "%s: source->write is NULL", call);
    return BP_OK;
}

/* The signature changes, so that the short paths of calls, which compare signatures only, leave the
 * tensor to the paths that hold its contents. */
enum bp_status bp_tensor_set_source(struct bp_tensor *tensor, const struct bp_tensor_source *source)
{
    struct bp_source_owner owner;
    bool kept = false;

    if (!bp_tensor_is(tensor)) return bp_not_a_tensor(__func__, tensor);
    TRY(restore_check_source(__func__, source));
    if (!(tensor->view.flags & BP_VIEW_CONSTANT))
        return bp_error(BP_ERR_INVALID,
                        "bp_tensor_set_source: the contents of the tensor may still change: call "
                        "bp_tensor_freeze first");
    owner = (struct bp_source_owner){source->write, source->release, source->ctx};
    /* A graph or program that has the tensor already would not know of the source. */
    if (!(tensor->view.flags & BP_VIEW_STRIDED) && atomic_load(&tensor->refs) == 1)
        kept = bp_source_create(tensor->buffer, tensor->offset, bp_tensor_span(tensor), &owner);
    if (kept) tensor->sig = bp_tensor_full_signature(tensor);
    else if (owner.release) owner.release(owner.ctx);
    return BP_OK;
}

enum bp_status bp_tensor_restore(struct bp_tensor *tensor)
{
    if (!bp_tensor_is(tensor)) return bp_not_a_tensor(__func__, tensor);
    return bp_buffer_keep_contents(tensor->buffer);
}

void bp_holds_end(struct bp_holds *holds)
{
    while (holds->n) bp_source_release(holds->buffer[--holds->n], false);
}

enum bp_status bp_holds_add(struct bp_holds *holds, struct bp_tensor *const *tensor, size_t n)
{
    for (size_t i = 0; i < n && holds->n < BP_HOLDS_MAX; i++) {
        enum bp_status status;
        if (!bp_tensor_is(tensor[i]) || !tensor[i]->buffer->source) continue;
        status = bp_source_hold(tensor[i]->buffer);
        if (status) {
            bp_holds_end(holds);
            return status;
        }
        holds->buffer[holds->n++] = tensor[i]->buffer;
    }
    return BP_OK;
}
