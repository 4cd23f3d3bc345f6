/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.c: records the replacement of nodes and puts it in their place; reads constants. */
#include "rewrite.h"

#include "../call/prepared.h"
#include "../memory/source.h"
#include "schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum bp_status bp_rewrite_begin(struct bp_rewrite *rw, struct bp_ir *ir, const uint32_t *node,
                                uint32_t n_node)
{
    *rw = (struct bp_rewrite){.ir = ir, .n_node = n_node};
    memcpy(rw->node, node, n_node * sizeof *node);
    return bp_ir_take_graph(ir, &rw->graph);
}

enum bp_status bp_rewrite_in(struct bp_rewrite *rw, uint32_t value, struct bp_tensor **out_in)
{
    struct bp_type type = {0};
    const struct bp_typed_view *of;

    *out_in = NULL;
    if (value == BP_NO_VALUE) return BP_OK;
    value = bp_ir_same(rw->ir, value);
    for (uint32_t i = 0; i < rw->n_in; i++) {
        if (rw->value[i] != value) continue;
        *out_in = rw->in[i];
        return BP_OK;
    }
    of = rw->ir->value[value].type;
    type.dtype = of->view.dtype;
    type.rank = of->view.rank;
    memcpy(type.shape, of->shape, sizeof type.shape);
    TRY(bp_graph_add_input(rw->graph, NULL, &type, &rw->in[rw->n_in]));
    rw->value[rw->n_in] = value;
    *out_in = rw->in[rw->n_in++];
    return BP_OK;
}

void bp_rewrite_cancel(struct bp_rewrite *rw)
{
    for (uint32_t i = 0; i < rw->n_in; i++) bp_tensor_destroy(rw->in[i]);
    bp_ir_return_graph(rw->ir, rw->graph);
}

enum bp_status bp_rewrite_name(const struct bp_ir *ir, struct bp_graph *graph, const uint32_t *node,
                               uint32_t n_node)
{
    char name[256];
    size_t at = 0;

    for (uint32_t i = 0; i < n_node && at < sizeof name - 1; i++) {
        const char *part = ir->node[node[i]].call.name;
        size_t n = strnlen(part, 100);
        if (i) name[at++] = '+';
        if (n > sizeof name - 1 - at) n = sizeof name - 1 - at;
        memcpy(name + at, part, n);
        at += n;
    }
    name[at] = 0;
    for (uint32_t n = 0; n < graph->n_node; n++) {
        graph->node[n].name = strdup(name);
        if (!graph->node[n].name)
            return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    }
    return BP_OK;
}

static enum bp_status rewrite_splice(struct bp_rewrite *rw, struct bp_tensor *const *result,
                                     const uint32_t *value, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t made;
        TRY(bp_graph_value_of(rw->graph, result[i], &made));
        if (!bp_same_type(&rw->graph->value[made].type->view, &rw->ir->value[value[i]].type->view))
            return bp_error(BP_ERR_INTERNAL, "a pass replaces %s by a value of another type",
                            rw->ir->node[rw->node[rw->n_node - 1]].call.name);
        TRY(bp_graph_output(rw->graph, result[i], NULL));
    }
    TRY(bp_rewrite_name(rw->ir, rw->graph, rw->node, rw->n_node));
    return bp_ir_splice(rw->ir, rw->graph, rw->node[rw->n_node - 1], rw->value, value, rw->node,
                        rw->n_node);
}

enum bp_status bp_rewrite_end_all(struct bp_rewrite *rw, struct bp_tensor *const *result,
                                  const uint32_t *value, uint32_t n)
{
    enum bp_status status = rewrite_splice(rw, result, value, n);

    for (uint32_t i = 0; i < n; i++) bp_tensor_destroy(result[i]);
    bp_rewrite_cancel(rw);
    return status;
}

enum bp_status bp_rewrite_end(struct bp_rewrite *rw, struct bp_tensor *result, uint32_t value)
{
    return bp_rewrite_end_all(rw, &result, &value, 1);
}

enum bp_status bp_rewrite_insert(struct bp_rewrite *rw, struct bp_tensor *result, uint32_t before,
                                 uint32_t *out_value)
{
    uint32_t made, number = rw->ir->n_value;
    enum bp_status status = bp_graph_value_of(rw->graph, result, &made);

    for (uint32_t v = 0; status == BP_OK && v < made; v++)
        number += rw->graph->value[v].kind != BP_VALUE_INPUT;
    if (status == BP_OK) status = bp_rewrite_name(rw->ir, rw->graph, rw->node, rw->n_node);
    if (status == BP_OK) status = bp_ir_splice(rw->ir, rw->graph, before, rw->value, NULL, NULL, 0);
    if (status == BP_OK) *out_value = number;
    bp_tensor_destroy(result);
    bp_rewrite_cancel(rw);
    return status;
}

/* Decodes a number of 16 bits: a sign, an exponent of this many bits, and the fraction. */
static double half_as_double(uint16_t bits, int exponent_bits)
{
    int fraction_bits = 15 - exponent_bits, top = (1 << exponent_bits) - 1, bias = top >> 1;
    int exponent = bits >> fraction_bits & top, fraction = bits & ((1 << fraction_bits) - 1);
    double number;

    if (exponent == top) number = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent)
        number = ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
    else number = ldexp(fraction, 1 - bias - fraction_bits);
    return bits >> 15 ? -number : number;
}

static double element_as_double(const void *data, uint32_t dtype, int64_t i)
{
    switch (dtype) {
    case BP_F32: return ((const float *)data)[i];
    case BP_F64: return ((const double *)data)[i];
    case BP_F16: return half_as_double(((const uint16_t *)data)[i], 5);
    case BP_BF16: return half_as_double(((const uint16_t *)data)[i], 8);
    case BP_I32: return ((const int32_t *)data)[i];
    default: return (double)((const int64_t *)data)[i];
    }
}

static bool copy_constant(struct bp_tensor *t, void *data)
{
    uint64_t bytes = (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8);
    struct bp_stream *reader;
    enum bp_status status;

    if (bp_compile_stream(t->device, &reader)) return false;
    status = bp_tensor_read(reader, t, data, bytes);
    bp_stream_destroy(reader);
    return status == BP_OK;
}

/* Finds the elements of a constant; false: bp_ir_read reads none of it. *out_copy: what the caller
 * frees. */
static bool constant_data(const struct bp_ir *ir, uint32_t value, int64_t most,
                          const void **out_data, void **out_copy)
{
    struct bp_tensor *t = ir->value[value].constant;
    const uint64_t dtypes =
        BP_M(F32) | BP_M(F64) | BP_M(F16) | BP_M(BF16) | BP_M(I32) | BP_M(I64);

    *out_copy = NULL;
    if (!bp_ir_is_frozen(ir, value) || t->view.count > most || !(dtypes >> t->view.dtype & 1))
        return false;
    ir->value[value].read = true;
    *out_data = t->view.data;
    if (t->device->host_visible && !(t->view.flags & BP_VIEW_STRIDED))
        return bp_buffer_hold_contents(t->buffer) == BP_OK;
    *out_data = *out_copy = malloc((size_t)t->view.count * 8 + 1);
    if (*out_copy && copy_constant(t, *out_copy)) return true;
    free(*out_copy);
    *out_copy = NULL;
    return false;
}

/* Ends the reading of what constant_data has found. */
static void constant_end(const struct bp_tensor *t, void *copy)
{
    if (!copy) bp_buffer_end_hold(t->buffer);
    free(copy);
}

bool bp_ir_read(const struct bp_ir *ir, uint32_t value, int64_t most, double *out)
{
    const struct bp_tensor *t = ir->value[value].constant;
    const void *data;
    void *copy;

    if (!constant_data(ir, value, most, &data, &copy)) return false;
    for (int64_t i = 0; i < t->view.count; i++)
        out[i] = element_as_double(data, t->view.dtype, i);
    constant_end(t, copy);
    return true;
}

bool bp_ir_read_alike(const struct bp_ir *ir, uint32_t value, int64_t most, double *out)
{
    const struct bp_tensor *t = ir->value[value].constant;
    const void *data;
    void *copy;
    double first = 0;
    bool alike;

    if (!constant_data(ir, value, most, &data, &copy)) return false;
    alike = t->view.count > 0;
    if (alike) first = element_as_double(data, t->view.dtype, 0);
    for (int64_t i = 1; alike && i < t->view.count; i++)
        alike = element_as_double(data, t->view.dtype, i) == first;
    constant_end(t, copy);
    if (alike) *out = first;
    return alike;
}
