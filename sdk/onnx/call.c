/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: reads the inputs and attributes of a node for the code of its row, and the numbers in
 * inputs that the host needs. */
#include "resolve.h"
#include "row.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct onnx_value *onnx_in_value(const struct onnx_call *c, uint32_t i)
{
    if (i >= c->node->n_in || c->node->in[i] == ONNX_NO_SLOT) return NULL;
    return c->run->slot[c->node->in[i]];
}

struct bp_tensor *onnx_in(const struct onnx_call *c, uint32_t i)
{
    const struct onnx_value *v = onnx_in_value(c, i);

    if (v && v->kind == BP_MODEL_OPTIONAL && v->n_item) v = v->item[0];
    return v ? v->tensor : NULL;
}

bool onnx_wants(const struct onnx_call *c, uint32_t i)
{
    return i < c->node->n_out && c->node->out[i] != ONNX_NO_SLOT;
}

enum bp_status onnx_need(const struct onnx_call *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!onnx_in(c, i))
            return onnx_error(BP_ERR_INVALID, "input %u: a tensor is expected", i);
    return BP_OK;
}

enum bp_status onnx_give_value(struct onnx_call *c, uint32_t i, struct onnx_value *value)
{
    if (onnx_wants(c, i)) c->out[i] = value;
    else onnx_value_release(value);
    return BP_OK;
}

enum bp_status onnx_give(struct onnx_call *c, uint32_t i, struct bp_tensor *tensor)
{
    struct onnx_value *v;

    TRY(onnx_value_tensor(c->run, tensor, c->symbolic, &v));
    return onnx_give_value(c, i, v);
}

static const Onnx__AttributeProto *call_find(Onnx__AttributeProto *const *at, size_t n,
                                             const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(onnx_text(at[i]->name), name)) return at[i];
    return NULL;
}

const Onnx__AttributeProto *onnx_attr(const struct onnx_node *node, const char *name)
{
    for (; node; node = node->caller) {
        const Onnx__AttributeProto *found;
        found = call_find(node->proto->attribute, node->proto->n_attribute, name);
        if (!found && node->function)
            return call_find(node->function->attr, node->function->n, name);
        if (!found || !*onnx_text(found->ref_attr_name)) return found;
        name = found->ref_attr_name; /* the call of the function has the value */
    }
    return NULL;
}

int64_t onnx_attr_int(const struct onnx_call *c, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(c->node, name);

    return a ? a->i : otherwise;
}

double onnx_attr_float(const struct onnx_call *c, const char *name, double otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(c->node, name);

    if (!a) return otherwise;
    return a->has_i ? (double)a->i : (double)a->f; /* an integer in some opsets */
}

bool onnx_attr_is(const struct onnx_call *c, const char *name, const char *text,
                  const char *otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(c->node, name);

    if (!a) return !strcmp(text, otherwise);
    return a->s.len == strlen(text) && !memcmp(a->s.data, text, a->s.len);
}

/* Element types were text ("FLOAT") before opset 6. */
static int64_t element_type(const Onnx__AttributeProto *a)
{
    static const char *const name[] = {"UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16",
                                       "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE",
                                       "UINT32", "UINT64", "COMPLEX64", "COMPLEX128"};

    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (a->s.len == strlen(name[i]) && !memcmp(a->s.data, name[i], a->s.len))
            return (int64_t)i;
    return a->i;
}

enum bp_status onnx_attr_dtype(const struct onnx_call *c, const char *name, uint32_t otherwise,
                               uint32_t *out)
{
    const Onnx__AttributeProto *a = onnx_attr(c->node, name);
    int64_t type = a ? element_type(a) : 0;
    uint32_t dtype = type ? onnx_dtype((int32_t)type) : otherwise;

    if (dtype == ONNX_NO_DTYPE)
        return onnx_error(BP_ERR_UNSUPPORTED, "element type %lld%s is not supported",
                          (long long)type, onnx_type_words(type));
    *out = dtype;
    return BP_OK;
}

struct onnx_ints onnx_attr_ints(const struct onnx_call *c, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(c->node, name);

    return a ? (struct onnx_ints){a->ints, (int64_t)a->n_ints} : (struct onnx_ints){NULL, -1};
}

struct bp_dims onnx_dims(struct onnx_ints ints)
{
    return (struct bp_dims){ints.n > 0 ? ints.at : NULL, ints.n > 0 ? ints.n : 0};
}

struct bp_tensor_info onnx_info(struct bp_tensor *tensor)
{
    struct bp_tensor_info info = {.size = sizeof info};

    (void)bp_tensor_get_info(tensor, &info); /* cannot fail: this library holds the handle */
    return info;
}

enum bp_status onnx_as_matrix(struct bp_tensor *x, int64_t axis, int64_t out_extent[2])
{
    struct bp_tensor_info info = onnx_info(x);

    if (axis < 0) axis += info.rank;
    if (axis < 0 || axis > (int64_t)info.rank)
        return onnx_error(BP_ERR_INVALID, "axis is %lld, x has %u axes", (long long)axis,
                          info.rank);
    out_extent[0] = out_extent[1] = 1;
    for (uint32_t i = 0; i < info.rank; i++) out_extent[i >= axis] *= info.shape[i];
    return BP_OK;
}

/* Rounds toward zero; a value out of range becomes the nearest int64_t, NaN becomes 0. */
static int64_t integer_of(double value)
{
    if (value >= 0x1p63) return INT64_MAX;
    if (value < -0x1p63) return INT64_MIN;
    return value != value ? 0 : (int64_t)value;
}

/* Dtypes that the host can read as integers, and as numbers. */
static const uint64_t integers = BP_MASK_INT | BP_M(BOOL),
                      numbers = BP_MASK_INT | BP_M(BOOL) | BP_MASK_FLOAT;

/* Reads element i of data, which has integers. */
static int64_t integer_at(const void *data, uint32_t dtype, int64_t i)
{
    switch (dtype) {
    case BP_BOOL:
    case BP_U8: return ((const uint8_t *)data)[i];
    case BP_I8: return ((const int8_t *)data)[i];
    case BP_I16: return ((const int16_t *)data)[i];
    case BP_U16: return ((const uint16_t *)data)[i];
    case BP_I32: return ((const int32_t *)data)[i];
    case BP_U32: return ((const uint32_t *)data)[i];
    case BP_I64:
    case BP_U64: return ((const int64_t *)data)[i];
    default: return 0; /* not reached: read_value refuses other dtypes */
    }
}

/* Reads the elements of v into new memory, if its dtype is in the mask `types`. */
static enum bp_status read_value(struct onnx_call *c, uint32_t i, const struct onnx_value *v,
                                 uint64_t types, void **out_data, struct bp_tensor_info *out_info)
{
    enum bp_status status;

    if (v->symbolic) {
        c->run->unknown = onnx_origin(v);
        return onnx_error(BP_ERR_UNSUPPORTED, "input %u has to be known before the model runs", i);
    }
    *out_info = onnx_info(v->tensor);
    if (out_info->dtype >= 64 || !(types >> out_info->dtype & 1))
        return onnx_error(BP_ERR_UNSUPPORTED, "input %u is %s, expected %s", i,
                          bp_dtype_name(out_info->dtype),
                          types == integers ? "integers" : "numbers that the host reads");
    *out_data = malloc(out_info->bytes + 8);
    if (!*out_data) return onnx_no_memory();
    status = out_info->bytes
                 ? bp_tensor_read(c->run->stream, v->tensor, *out_data, out_info->bytes)
                 : BP_OK;
    if (status) free(*out_data);
    return status;
}

/* Reads the integers of v and keeps them with it. Another thread may do the same for a constant:
 * the first one's memory stays. */
static enum bp_status value_numbers(struct onnx_call *c, uint32_t i, struct onnx_value *v,
                                    int64_t **out_number)
{
    int64_t *number, *before = NULL;
    struct bp_tensor_info info;
    void *data;

    TRY(read_value(c, i, v, integers, &data, &info));
    number = malloc((size_t)info.count * sizeof *number + 8);
    for (int64_t k = 0; number && k < info.count; k++)
        number[k] = integer_at(data, info.dtype, k);
    free(data);
    if (!number) return onnx_no_memory();
    if (!atomic_compare_exchange_strong(&v->number, &before, number)) {
        free(number);
        number = before;
    }
    *out_number = number;
    return BP_OK;
}

enum bp_status onnx_value_ints(struct onnx_call *c, uint32_t i, struct onnx_value *v,
                               struct onnx_ints *out)
{
    int64_t *number;

    *out = (struct onnx_ints){NULL, -1};
    if (v && v->kind == BP_MODEL_OPTIONAL) v = v->n_item ? v->item[0] : NULL;
    if (!v || !v->tensor) return BP_OK;
    number = atomic_load(&v->number);
    if (!number) TRY(value_numbers(c, i, v, &number));
    *out = (struct onnx_ints){number, onnx_info(v->tensor).count};
    return BP_OK;
}

enum bp_status onnx_in_ints(struct onnx_call *c, uint32_t i, struct onnx_ints *out)
{
    return onnx_value_ints(c, i, onnx_in_value(c, i), out);
}

/* The value of the bits of an f16 or bf16. */
static double half_value(uint16_t bits, uint32_t dtype)
{
    int fraction_bits = dtype == BP_F16 ? 10 : 7, least = dtype == BP_F16 ? -14 : -126;
    int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits & 0x7fff) >> fraction_bits;
    bool is_special = exponent == 0x7fff >> fraction_bits;
    double value = is_special  ? (fraction ? (double)NAN : (double)INFINITY)
                   : !exponent ? ldexp(fraction, least - fraction_bits)
                               : ldexp(fraction + (1 << fraction_bits),
                                       least - fraction_bits + exponent - 1);

    return bits >> 15 ? -value : value;
}

/* Reads element k of data, which has numbers. */
static double number_at(const void *data, uint32_t dtype, int64_t k)
{
    switch (dtype) {
    case BP_F16:
    case BP_BF16: return half_value(((const uint16_t *)data)[k], dtype);
    case BP_F32: return (double)((const float *)data)[k];
    case BP_F64: return ((const double *)data)[k];
    default: return (double)integer_at(data, dtype, k);
    }
}

enum bp_status onnx_in_reals(struct onnx_call *c, uint32_t i, int64_t room, double *out,
                             int64_t *out_n)
{
    const struct onnx_value *v = onnx_in_value(c, i);
    struct bp_tensor_info info;
    void *data;

    *out_n = -1;
    if (!v || !v->tensor) return BP_OK;
    TRY(read_value(c, i, v, numbers, &data, &info));
    for (int64_t k = 0; k < info.count && k < room; k++) out[k] = number_at(data, info.dtype, k);
    free(data);
    *out_n = info.count;
    return BP_OK;
}

enum bp_status onnx_in_float(struct onnx_call *c, uint32_t i, double otherwise, double *out)
{
    int64_t n;

    TRY(onnx_in_reals(c, i, 1, out, &n));
    if (n < 0) *out = otherwise;
    if (n < 0 || n == 1) return BP_OK;
    return onnx_error(BP_ERR_INVALID, "input %u has %lld elements, expected 1", i, (long long)n);
}

enum bp_status onnx_in_whole(struct onnx_call *c, uint32_t i, int64_t *out)
{
    double number;
    int64_t n;

    TRY(onnx_in_reals(c, i, 1, &number, &n));
    if (n != 1)
        return onnx_error(BP_ERR_INVALID, "input %u is expected to be one number", i);
    *out = integer_of(number);
    return BP_OK;
}

enum bp_status onnx_ints_of(struct onnx_call *c, const char *name, int since, uint32_t i,
                            struct onnx_ints *out)
{
    if (c->node->opset >= since) return onnx_in_ints(c, i, out);
    *out = onnx_attr_ints(c, name);
    return BP_OK;
}

enum bp_status onnx_constant(struct onnx_call *c, uint32_t dtype, uint32_t rank,
                             const int64_t *shape, const void *data, struct bp_tensor **out)
{
    return onnx_put(c->run->stream, dtype, rank, shape, data, out);
}

enum bp_status onnx_constant_ints(struct onnx_call *c, uint32_t rank, const int64_t *shape,
                                  const int64_t *at, struct bp_tensor **out)
{
    return onnx_constant(c, BP_I64, rank, shape, at, out);
}
