/* SPDX-License-Identifier: Apache-2.0 */
/* host_value.c: reads tensors that a call passes in place of attributes, and fills in the
 * attributes. */
#include "../schema/op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 65536 };

static uint64_t host_value_bytes_of(const struct bp_tensor *t)
{
    return (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8);
}

/* Whether the device may have work that has not ended. */
static bool host_value_is_busy(struct bp_device *device)
{
    for (struct bp_timeline *t = atomic_load(&device->timelines); t; t = t->next)
        if (atomic_load(&t->last) > atomic_load(&t->done)) return true;
    return false;
}

/* For a recorded call, which is in no stream's order: reads the tensor's contents after all work of
 * the device has ended, as bp_tensor_map does. */
static enum bp_status read_at_rest(struct bp_tensor *t, int64_t *values)
{
    struct bp_stream *reader;
    enum bp_status status = BP_OK;

    TRY(bp_stream_create(t->device, &reader));
    if (!reader->timeline->is_inline || host_value_is_busy(t->device))
        status = bp_block_record(t->device, BP_BLOCK_HOST_VALUE);
    if (status == BP_OK) status = bp_device_synchronize(t->device);
    if (status == BP_OK) status = bp_tensor_read(reader, t, values, host_value_bytes_of(t));
    bp_stream_destroy(reader);
    return status;
}

static enum bp_status read_in_order(struct bp_stream *stream, struct bp_tensor *t, int64_t *values)
{
    if (!stream->timeline->is_inline) TRY(bp_block_record(t->device, BP_BLOCK_HOST_VALUE));
    return bp_tensor_read(stream, t, values, host_value_bytes_of(t));
}

/* Widens 4-byte values, packed at the beginning of values, to 8 bytes each. */
static void host_value_widen(int64_t *values, int64_t n, bool integers)
{
    for (int64_t i = n; i-- > 0;) {
        int32_t value;
        float number;
        double wide;
        memcpy(&value, (const char *)values + 4 * i, sizeof value);
        memcpy(&number, &value, sizeof number);
        wide = number;
        if (integers) values[i] = value;
        else memcpy(&values[i], &wide, sizeof wide);
    }
}

/* Reads a tensor of integers as int64_t, of floats as double. values must have room for its
 * count. */
static enum bp_status read_values(struct bp_stream *stream, struct bp_tensor *t, int64_t *values)
{
    TRY(stream ? read_in_order(stream, t, values) : read_at_rest(t, values));
    if (t->view.dtype == BP_I32 || t->view.dtype == BP_F32)
        host_value_widen(values, t->view.count, t->view.dtype == BP_I32);
    return BP_OK;
}

static bool host_value_fits(const struct bp_attr *a, const struct bp_view *v)
{
    uint64_t dtypes = a->kind == BP_ATTR_F64 ? BP_M(F64) | BP_M(F32) : BP_M(I64) | BP_M(I32);

    return dtypes >> v->dtype & 1 && v->rank <= 1;
}

static enum bp_status check_value(const struct bp_opinfo *op, const struct bp_port *port,
                                  const struct bp_attr *a, const struct bp_stream *stream,
                                  const struct bp_tensor *t)
{
    if (!stream && bp_symbol_is(t))
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s: input %s is symbolic, but the shape of the result follows from its "
                        "value, which is not known while recording: give a tensor that has it, or "
                        "the attribute of that name",
                        op->name, port->name);
    if (!bp_tensor_is(t))
        return bp_error(BP_ERR_INVALID, "%s: input %s: expected a tensor, got something else",
                        op->name, port->name);
    if (stream && t->device != stream->device)
        return bp_error(BP_ERR_INVALID, "%s: input %s is on %s%s, but the call goes to %s",
                        op->name, port->name, t->device->name,
                        bp_device_qualifier(t->device, stream->device), stream->device->name);
    if (!host_value_fits(a, &t->view))
        return bp_error(BP_ERR_INVALID, "%s: input %s: expected %s of rank 0 or 1", op->name,
                        port->name, a->kind == BP_ATTR_F64 ? "f32 or f64" : "i32 or i64");
    if (t->view.count > VALUES_MAX || (a->kind != BP_ATTR_DIMS && t->view.count != a->count))
        return bp_error(BP_ERR_INVALID, "%s: input %s has %" PRId64 " values, expected %s%u",
                        op->name, port->name, t->view.count,
                        a->kind == BP_ATTR_DIMS ? "at most " : "",
                        a->kind == BP_ATTR_DIMS ? (unsigned)VALUES_MAX : a->count);
    return BP_OK;
}

static const struct bp_attr *attr_of(const struct bp_opinfo *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (!strcmp(op->attr[i].name, name)) return &op->attr[i];
    return NULL;
}

/* Copies the values of one input to the attribute struct. For a list attribute the struct points to
 * *list. */
static enum bp_status host_value_fill(struct bp_stream *stream, const struct bp_opinfo *op,
                                      const struct bp_port *port, struct bp_tensor *t, char *attrs,
                                      int64_t **list)
{
    const struct bp_attr *a = attr_of(op, port->name);
    struct bp_dims d;

    TRY(check_value(op, port, a, stream, t));
    free(*list);
    *list = malloc(((size_t)t->view.count + 1) * sizeof **list);
    if (!*list) return bp_error(BP_ERR_MEMORY, "%s: no memory for %s", op->name, port->name);
    TRY(read_values(stream, t, *list));
    d = (struct bp_dims){*list, t->view.count};
    if (a->kind == BP_ATTR_DIMS) memcpy(attrs + a->offset, &d, sizeof d);
    else memcpy(attrs + a->offset, *list, 8u * a->count);
    return BP_OK;
}

static bool is_given(const struct bp_opinfo *op, uint32_t port, const struct bp_arg *in,
                     size_t n_in)
{
    return op->in[port].kind == BP_PORT_HOST && in && port < n_in && in[port].n == 1 &&
           in[port].at && in[port].at[0];
}

enum bp_status bp_host_refuse(const struct bp_opdef *row, const struct bp_arg *in, size_t n_in)
{
    for (uint32_t i = 0; i < row->info.n_in; i++)
        if (is_given(&row->info, i, in, n_in))
            return bp_error(BP_ERR_UNSUPPORTED,
                            "%s: input %s: a prepared call takes it as the attribute of that name",
                            row->info.name, row->info.in[i].name);
    return BP_OK;
}

enum bp_status bp_host_values(struct bp_stream *stream, const struct bp_opdef *row,
                              const struct bp_arg *in, size_t n_in, const void *attrs,
                              void **out_attrs)
{
    const struct bp_opinfo *op = &row->info;
    int64_t *list[BP_PORT_MAX] = {NULL};
    void *full = NULL;
    enum bp_status status = BP_OK;
    bool any = false;

    for (uint32_t i = 0; i < op->n_in; i++) any |= is_given(op, i, in, n_in);
    if (!any) return BP_OK;
    TRY(bp_attrs_copy(op, attrs, &full));
    for (uint32_t i = 0; i < op->n_in && status == BP_OK; i++)
        if (is_given(op, i, in, n_in))
            status = host_value_fill(stream, op, &op->in[i], in[i].at[0], full, &list[i]);
    if (status == BP_OK) status = bp_attrs_copy(op, full, out_attrs);
    for (uint32_t i = 0; i < BP_PORT_MAX; i++) free(list[i]);
    free(full);
    return status;
}
