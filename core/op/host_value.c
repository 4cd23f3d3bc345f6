/* SPDX-License-Identifier: Apache-2.0 */
/* host_value.c: attributes that a call gives as tensors: read, and filled in. */
#include "op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 65536 };

/* Reads a tensor of i32 or i64 as int64_t; values: room for its count. */
static enum bp_status read_values(struct bp_stream *stream, struct bp_tensor *t, int64_t *values)
{
    uint64_t bytes = (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8);

    if (!stream->timeline->now) TRY(bp_block(t->device, BP_BLOCK_HOST_VALUE));
    TRY(bp_tensor_read(stream, t, values, bytes));
    if (t->view.dtype == BP_I32)
        for (int64_t i = t->view.count; i-- > 0;) {
            int32_t value;
            memcpy(&value, (const char *)values + 4 * i, sizeof value);
            values[i] = value;
        }
    return BP_OK;
}

static enum bp_status check_value(const struct bp_opinfo *op, const struct bp_port *port,
                                  const struct bp_attr *a, const struct bp_stream *stream,
                                  const struct bp_tensor *t)
{
    if (!bp_tensor_is(t))
        return bp_error(BP_ERR_INVALID, "%s: input %s: expected a tensor, got something else",
                        op->name, port->name);
    if (t->device != stream->device)
        return bp_error(BP_ERR_INVALID, "%s: input %s is on %s%s, but the call goes to %s",
                        op->name, port->name, t->device->name,
                        bp_device_which(t->device, stream->device), stream->device->name);
    if ((t->view.dtype != BP_I64 && t->view.dtype != BP_I32) || t->view.rank > 1)
        return bp_error(BP_ERR_INVALID, "%s: input %s: expected i32 or i64 of rank 0 or 1",
                        op->name, port->name);
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

/* Values of one input into the struct; a list stays where it was read to. */
static enum bp_status fill(struct bp_stream *stream, const struct bp_opinfo *op,
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
    else if (a->kind == BP_ATTR_F64) return bp_error(BP_ERR_INTERNAL, "%s: %s", op->name, a->name);
    else memcpy(attrs + a->offset, *list, 8u * a->count);
    return BP_OK;
}

static bool is_given(const struct bp_opinfo *op, uint32_t port, const struct bp_arg *in,
                     size_t n_in)
{
    return op->in[port].kind == BP_PORT_HOST && in && port < n_in && in[port].n == 1 &&
           in[port].at && in[port].at[0];
}

enum bp_status bp_host_refuse(const struct bp_op_row *row, const struct bp_arg *in, size_t n_in)
{
    for (uint32_t i = 0; i < row->info.n_in; i++)
        if (is_given(&row->info, i, in, n_in))
            return bp_error(BP_ERR_UNSUPPORTED,
                            "%s: input %s: a prepared call takes it as the attribute of that name",
                            row->info.name, row->info.in[i].name);
    return BP_OK;
}

enum bp_status bp_host_values(struct bp_stream *stream, const struct bp_op_row *row,
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
            status = fill(stream, op, &op->in[i], in[i].at[0], full, &list[i]);
    if (status == BP_OK) status = bp_attrs_copy(op, full, out_attrs);
    for (uint32_t i = 0; i < BP_PORT_MAX; i++) free(list[i]);
    free(full);
    return status;
}
