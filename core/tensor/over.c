/* SPDX-License-Identifier: Apache-2.0 */
/* over.c: creates tensors over buffers of the app, and makes a tensor refer to other memory. */
#include "tensor.h"

#include <inttypes.h>

/* Checks that a tensor whose elements span `bytes` fits at an offset in the buffer. */
static enum bp_status over_check_place(const char *call, const struct bp_buffer *buffer,
                                       uint64_t offset, uint64_t bytes, uint32_t dtype)
{
    uint32_t width = bp_dtype_bits(dtype) / 8;

    if (offset > buffer->size || bytes > buffer->size - offset)
        return bp_error(BP_ERR_INVALID,
                        "%s: byte_offset is %" PRIu64 ", and the elements span %" PRIu64 " bytes "
                        "from there, but the buffer has %" PRIu64 " bytes",
                        call, offset, bytes, buffer->size);
    if (offset % width)
        return bp_error(BP_ERR_INVALID,
                        "%s: byte_offset is %" PRIu64 ", expected a multiple of %u, the size of "
                        "%s",
                        call, offset, width, bp_dtype_name(dtype));
    return BP_OK;
}

/* Memory and its owner come from the buffer, so the options for them must not say anything else. */
static enum bp_status over_check_options(const char *call, const struct bp_buffer *buffer,
                                         const struct bp_tensor_options *o)
{
    if (BP_HAS(o, space) && o->space && o->space != buffer->space)
        return bp_error(BP_ERR_INVALID,
                        "%s: options->space is %u, the buffer is in memory space %u: set it to 0",
                        call, o->space, buffer->space);
    if (BP_HAS(o, stream) && o->stream)
        return bp_error(BP_ERR_INVALID,
                        "%s: options->stream is set, expected NULL: the tensor uses the memory in "
                        "the order of the stream that bp_buffer_create got",
                        call);
    return BP_OK;
}

enum bp_status bp_tensor_create_over(struct bp_buffer *buffer, uint64_t byte_offset,
                                     const struct bp_tensor_options *options,
                                     struct bp_tensor **out_tensor)
{
    static const char call[] = "bp_tensor_create_over";
    enum bp_status status;
    struct bp_tensor_layout l;

    if (!bp_buffer_is(buffer)) return bp_not_a_for(call, "buffer");
    if (!options || !out_tensor)
        return bp_error(BP_ERR_INVALID, "%s: options or out_tensor is NULL", call);
    TRY(bp_layout_read(call, options, &l));
    TRY(over_check_options(call, buffer, options));
    if (!(buffer->device->properties.dtypes >> l.type.dtype & 1))
        return bp_error(BP_ERR_UNSUPPORTED, "%s: %s does not hold %s", call, buffer->device->name,
                        bp_dtype_name(l.type.dtype));
    TRY(over_check_place(call, buffer, byte_offset, l.bytes, l.type.dtype));
    bp_buffer_retain(buffer);
    status = bp_tensor_create_inside(buffer, l.type.dtype, &l.extents, byte_offset, out_tensor);
    if (status) bp_buffer_release(buffer);
    return status;
}

/* Checks that the tensor may change its memory: nothing else relies on it, and the tensor itself is
 * not stored there. */
static enum bp_status rebind_check_tensor(const char *call, const struct bp_tensor *t)
{
    if (bp_tensor_is_in_buffer(t))
        return bp_error(BP_ERR_INVALID,
                        "%s: the tensor was created together with its memory: expected a tensor of "
                        "bp_tensor_create_over or a view",
                        call);
    if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1)
        return bp_error(BP_ERR_BUSY,
                        "%s: the tensor has another holder: a graph whose constant it is, a run, "
                        "or the result of an update; destroy that first, or create another tensor "
                        "(bp_tensor_create_over)",
                        call);
    return BP_OK;
}

enum bp_status bp_tensor_rebind(struct bp_tensor *tensor, struct bp_buffer *buffer,
                                uint64_t byte_offset)
{
    static const char call[] = "bp_tensor_rebind";

    if (!bp_tensor_is(tensor)) return bp_not_a_tensor(call, tensor);
    if (!bp_buffer_is(buffer)) return bp_not_a_for(call, "buffer");
    if (tensor->device != buffer->device)
        return bp_error(BP_ERR_INVALID, "%s: the tensor is of %s, the buffer of %s%s", call,
                        tensor->device->name, buffer->device->name,
                        bp_device_qualifier(buffer->device, tensor->device));
    TRY(rebind_check_tensor(call, tensor));
    TRY(over_check_place(call, buffer, byte_offset, bp_tensor_span(tensor), tensor->view.dtype));
    bp_tensor_set_place(tensor, buffer, byte_offset);
    return BP_OK;
}
