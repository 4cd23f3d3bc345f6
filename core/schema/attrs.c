/* SPDX-License-Identifier: Apache-2.0 */
/* attrs.c: reads attribute structs of older and newer versions, checks their values and copies
 * them. */
#include "op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 65536 }; /* entries of one DIMS */

static const void *attrs_field(const void *attrs, const struct bp_attr *attr)
{
    return (const char *)attrs + attr->offset;
}

static int64_t attrs_integer(const void *attrs, const struct bp_attr *attr)
{
    int64_t value;

    memcpy(&value, attrs_field(attrs, attr), sizeof value);
    return value;
}

static struct bp_dims attrs_dims(const void *attrs, const struct bp_attr *attr)
{
    struct bp_dims value;

    memcpy(&value, attrs_field(attrs, attr), sizeof value);
    return value;
}

bool bp_attrs_tail_zero(const struct bp_opinfo *op, const void *attrs, size_t size)
{
    for (size_t i = size; i < op->attrs_size; i++)
        if (((const char *)attrs)[i]) return false;
    return true;
}

/* Checks the size of an attribute struct. The struct of a newer app may be longer; attributes that
 * this library does not know must be unused, that is, zero. */
static enum bp_status check_size(const struct bp_opinfo *op, const void *given)
{
    size_t size;

    if (!op->attrs_size)
        return bp_error(BP_ERR_INVALID, "%s: takes no attributes, attrs must be NULL", op->name);
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size % 8 || size > 65536)
        return bp_error(BP_ERR_INVALID,
                        "%s: attrs->size is %zu: start from bp_%s_defaults(), which sets it to %u",
                        op->name, size, op->name, op->attrs_size);
    for (size_t i = op->attrs_size; i < size; i++)
        if (((const char *)given)[i])
            return bp_error(BP_ERR_UNSUPPORTED,
                            "%s: the attribute at byte %zu is newer than this library (%s)",
                            op->name, i & ~(size_t)7, bp_version());
    return BP_OK;
}

_Static_assert(offsetof(struct bp_opdef, info) == 0, "a row is found by its info");

enum bp_status bp_attrs_check(const struct bp_opinfo *op, const void *attrs)
{
    const struct bp_opdef *row = (const struct bp_opdef *)op;

    for (uint32_t i = 0; i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        if (a->kind == BP_ATTR_FLAG && (attrs_integer(attrs, a) & ~INT64_C(1)))
            return bp_error(BP_ERR_INVALID, "%s: attribute %s is %" PRId64 ", expected 0 or 1",
                            op->name, a->name, attrs_integer(attrs, a));
        if (a->kind == BP_ATTR_DTYPE &&
            (attrs_integer(attrs, a) < 0 || attrs_integer(attrs, a) > UINT32_MAX ||
             !bp_dtype_bits((uint32_t)attrs_integer(attrs, a))))
            return bp_error(BP_ERR_INVALID, "%s: attribute %s is %" PRId64 ", which is no dtype",
                            op->name, a->name, attrs_integer(attrs, a));
        if (a->kind == BP_ATTR_DIMS) {
            struct bp_dims d = attrs_dims(attrs, a);
            if (d.n < 0 || d.n > LIST_MAX || (d.n && !d.at))
                return bp_error(BP_ERR_INVALID,
                                "%s: attribute %s has %" PRId64 " entries%s, expected 0 to %d%s",
                                op->name, a->name, d.n, d.at ? "" : " at NULL", LIST_MAX,
                                d.at ? "" : " and an address");
        }
    }
    return row->values ? row->values(attrs) : BP_OK;
}

static size_t lists_size(const struct bp_opinfo *op, const void *attrs)
{
    size_t size = 0;

    for (uint32_t i = 0; i < op->n_attr; i++)
        if (op->attr[i].kind == BP_ATTR_DIMS)
            size += (size_t)attrs_dims(attrs, &op->attr[i]).n * sizeof(int64_t);
    return size;
}

/* Copies the lists behind the struct. */
static void copy_lists(const struct bp_opinfo *op, void *attrs)
{
    char *at = (char *)attrs + op->attrs_size;

    for (uint32_t i = 0; i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        struct bp_dims d;
        if (a->kind != BP_ATTR_DIMS) continue;
        d = attrs_dims(attrs, a);
        if (d.n) memcpy(at, d.at, (size_t)d.n * sizeof(int64_t));
        d.at = d.n ? (const int64_t *)(void *)at : NULL;
        memcpy((char *)attrs + a->offset, &d, sizeof d);
        at += (size_t)d.n * sizeof(int64_t);
    }
}

enum bp_status bp_attrs_clone(const struct bp_opinfo *op, const void *attrs, void **out_attrs)
{
    void *copy = malloc(op->attrs_size + lists_size(op, attrs));

    if (!copy) return bp_error(BP_ERR_MEMORY, "%s: no memory for the attributes", op->name);
    memcpy(copy, attrs, op->attrs_size);
    copy_lists(op, copy);
    *out_attrs = copy;
    return BP_OK;
}

enum bp_status bp_attrs_copy(const struct bp_opinfo *op, const void *given, void **out_attrs)
{
    uint64_t full[512 / 8]; /* holds the struct of every operator: a unit test checks this */
    size_t size = 0;

    if (given) TRY(check_size(op, given));
    if (!op->attrs_size) {
        *out_attrs = NULL;
        return BP_OK;
    }
    memcpy(full, op->defaults, op->attrs_size);
    if (given) memcpy(&size, given, sizeof size);
    if (given) memcpy(full, given, size < op->attrs_size ? size : op->attrs_size);
    size = op->attrs_size;
    memcpy(full, &size, sizeof size);
    TRY(bp_attrs_check(op, full));
    return bp_attrs_clone(op, full, out_attrs);
}

static bool attrs_equal(const struct bp_attr *a, const void *x, const void *y)
{
    if (a->kind == BP_ATTR_DIMS) {
        struct bp_dims p = attrs_dims(x, a), q = attrs_dims(y, a);
        return p.n == q.n && (!p.n || !memcmp(p.at, q.at, (size_t)p.n * sizeof(int64_t)));
    }
    return !memcmp(attrs_field(x, a), attrs_field(y, a), 8u * a->count);
}

bool bp_attrs_same(const struct bp_opinfo *op, const void *x, const void *y)
{
    if (!x || !y) return x == y;
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (!attrs_equal(&op->attr[i], x, y)) return false;
    return true;
}

enum bp_status bp_attrs_check_run(const struct bp_opinfo *op, const void *prepared,
                                  const void *given)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (op->attr[i].when == BP_ATTR_KEY && !attrs_equal(&op->attr[i], prepared, given))
            return bp_error(BP_ERR_INVALID,
                            "%s: attribute %s differs from the prepared one: prepare again",
                            op->name, op->attr[i].name);
    return BP_OK;
}
