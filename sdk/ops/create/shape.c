/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules and decompositions of operators that create tensors from attributes,
 * and of those that return the shape or size of a tensor. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

/* Checks that the operator can make the dtype of attribute dtype, and sets it. */
static enum bp_status made_dtype(struct bp_invocation *inv, int64_t dtype)
{
    const struct bp_opinfo *op = &inv->row->info;

    if (dtype > 63 || !(op->types[BP_VAR_T] >> dtype & 1))
        return bp_error(BP_ERR_INVALID, "%s: attribute dtype is %s, which %s does not make",
                        op->name, bp_dtype_name((uint32_t)dtype), op->name);
    inv->out[0].dtype = (uint32_t)dtype;
    return BP_OK;
}

static enum bp_status made_shape(struct bp_invocation *inv, const struct bp_dims *shape)
{
    if (shape->n > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute shape has %" PRId64 " entries, expected at most %d",
                        inv->row->info.name, shape->n, BP_RANK_MAX);
    inv->out[0].rank = (uint32_t)shape->n;
    for (int64_t i = 0; i < shape->n; i++) inv->out[0].shape[i] = shape->at[i];
    return BP_OK;
}

enum bp_status bp_infer_full(struct bp_invocation *inv)
{
    const struct bp_full_attrs *a = inv->attrs;

    TRY(made_shape(inv, &a->shape));
    return made_dtype(inv, a->dtype);
}

enum bp_status bp_infer_zeros(struct bp_invocation *inv)
{
    const struct bp_zeros_attrs *a = inv->attrs;

    TRY(made_shape(inv, &a->shape));
    return made_dtype(inv, a->dtype);
}

enum bp_status bp_infer_ones(struct bp_invocation *inv)
{
    return bp_infer_zeros(inv); /* the attributes of both have one layout */
}
_Static_assert(sizeof(struct bp_ones_attrs) == sizeof(struct bp_zeros_attrs), "one layout");

static enum bp_status no_count(const struct bp_invocation *inv, const char *name, int64_t n,
                               int64_t least)
{
    return bp_error(BP_ERR_INVALID, "%s: attribute %s is %" PRId64 ", expected %" PRId64 " or more",
                    inv->row->info.name, name, n, least);
}

enum bp_status bp_infer_eye(struct bp_invocation *inv)
{
    const struct bp_eye_attrs *a = inv->attrs;
    struct bp_type *out = &inv->out[0];

    if (a->rows < 0) return no_count(inv, "rows", a->rows, 0);
    if (a->columns < -1) return no_count(inv, "columns", a->columns, -1);
    out->rank = 2;
    out->shape[0] = a->rows;
    out->shape[1] = a->columns < 0 ? a->rows : a->columns;
    return made_dtype(inv, a->dtype);
}

static bool is_exact_integer(double x)
{
    return x == trunc(x) && fabs(x) <= 0x1p53;
}

enum bp_status bp_infer_arange(struct bp_invocation *inv)
{
    const struct bp_arange_attrs *a = inv->attrs;
    uint64_t floats = BP_MASK_FLOAT;
    double n = ceil((a->end - a->start) / a->step);

    TRY(made_dtype(inv, a->dtype));
    if (a->num < -1) return no_count(inv, "num", a->num, -1);
    if (!isfinite(a->start) || !isfinite(a->step) ||
        (a->num < 0 && (!isfinite(a->end) || a->step == 0)))
        return bp_error(BP_ERR_INVALID,
                        "arange: start is %g, end %g, step %g: expected finite numbers, and "
                        "without num a step that is not 0",
                        a->start, a->end, a->step);
    if (!(floats >> a->dtype & 1) && !(is_exact_integer(a->start) && is_exact_integer(a->step)))
        return bp_error(BP_ERR_INVALID,
                        "arange: start is %g and step %g, but dtype is %s: expected integers of at "
                        "most 2^53",
                        a->start, a->step, bp_dtype_name((uint32_t)a->dtype));
    if (a->num < 0 && !(n < 0x1p62))
        return bp_error(BP_ERR_INVALID, "arange: it would have %g numbers, too many", n);
    inv->out[0].rank = 1;
    inv->out[0].shape[0] = a->num >= 0 ? a->num : n > 0 ? (int64_t)n : 0;
    return BP_OK;
}

static enum bp_status create_spaced(struct bp_invocation *inv, int64_t num, int64_t dtype)
{
    if (num < 0) return no_count(inv, "num", num, 0);
    inv->out[0].rank = 1;
    inv->out[0].shape[0] = num;
    return made_dtype(inv, dtype);
}

enum bp_status bp_infer_linspace(struct bp_invocation *inv)
{
    const struct bp_linspace_attrs *a = inv->attrs;

    return create_spaced(inv, a->num, a->dtype);
}

enum bp_status bp_values_logspace(const void *attrs)
{
    const struct bp_logspace_attrs *a = attrs;

    if (a->base > 0 && isfinite(a->base)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "logspace: attribute base is %g, expected a number above 0",
                    a->base);
}

enum bp_status bp_infer_logspace(struct bp_invocation *inv)
{
    const struct bp_logspace_attrs *a = inv->attrs;

    return create_spaced(inv, a->num, a->dtype);
}

enum bp_status bp_decompose_logspace(struct bp_decomposition *e)
{
    const struct bp_logspace_attrs *a = e->attrs;
    int64_t wide = a->dtype == BP_F64 ? BP_F64 : BP_F32;
    struct bp_linspace_attrs line = {
        .size = sizeof line, .start = a->start, .stop = a->stop, .num = a->num, .dtype = wide};
    struct bp_full_attrs base = {.size = sizeof base, .value = a->base, .dtype = wide};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *t = MAKE(&c, linspace, &line, NULL);

    t = MAKE(&c, pow, NULL, MAKE(&c, full, &base, NULL), t);
    bp_compose_keep(&c, bp_compose_cast(&c, t, (uint32_t)a->dtype), &e->out[0]);
    return bp_compose_end(&c);
}

/* Returns the number of elements of a matrix on the diagonal `offset` and below it: row i has i +
 * offset + 1, but at least 0 and at most columns. Extents are below 2^31. */
static int64_t count_lower(int64_t rows, int64_t columns, int64_t offset)
{
    int64_t first, full, part;

    offset = offset > columns ? columns : offset < -rows ? -rows : offset;
    first = offset < 0 ? -offset : 0; /* the first row that has an element */
    full = columns - offset - 1;      /* the first row that has all columns */
    full = full < first ? first : full > rows ? rows : full;
    part = full - first;
    return part * (first + offset + 1) + part * (part - 1) / 2 + (rows - full) * columns;
}

static enum bp_status create_infer_triangle(struct bp_invocation *inv,
                                            const struct bp_tril_indices_attrs *a, bool upper)
{
    int64_t lower, all, offset = a->offset;

    if (a->rows < 0) return no_count(inv, "rows", a->rows, 0);
    if (a->columns < 0) return no_count(inv, "columns", a->columns, 0);
    if (upper && offset > INT64_MIN) offset--; /* all that is not below `offset` */
    if (a->rows > INT32_MAX || a->columns > INT32_MAX)
        return bp_error(BP_ERR_INVALID,
                        "%s: rows is %" PRId64 " and columns %" PRId64 ", expected below 2^31",
                        inv->row->info.name, a->rows, a->columns);
    lower = count_lower(a->rows, a->columns, offset);
    all = a->rows * a->columns;
    inv->out[0].rank = 2;
    inv->out[0].shape[0] = 2;
    inv->out[0].shape[1] = upper ? all - lower : lower;
    return made_dtype(inv, a->dtype);
}

enum bp_status bp_infer_tril_indices(struct bp_invocation *inv)
{
    return create_infer_triangle(inv, inv->attrs, false);
}

enum bp_status bp_infer_triu_indices(struct bp_invocation *inv)
{
    return create_infer_triangle(inv, inv->attrs, true); /* attributes have one layout */
}
_Static_assert(sizeof(struct bp_triu_indices_attrs) == sizeof(struct bp_tril_indices_attrs),
               "one layout");

/* The gradient is zero: the result does not depend on the numbers of x. */
enum bp_status bp_grad_full_like(struct bp_grad *g)
{
    (void)g;
    return BP_OK;
}

enum bp_status bp_infer_shape_of(struct bp_invocation *inv)
{
    inv->out[0] = (struct bp_type){
        .dtype = BP_I64, .rank = 1, .shape = {bp_invocation_in(inv, 0)->rank}};
    return BP_OK;
}

enum bp_status bp_infer_numel(struct bp_invocation *inv)
{
    inv->out[0] = (struct bp_type){.dtype = BP_I64, .rank = 0};
    return BP_OK;
}

enum bp_status bp_infer_is_empty(struct bp_invocation *inv)
{
    inv->out[0] = (struct bp_type){.dtype = BP_BOOL, .rank = 0};
    return BP_OK;
}
