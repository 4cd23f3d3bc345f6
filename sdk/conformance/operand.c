/* SPDX-License-Identifier: Apache-2.0 */
/* operand.c: creates, fills and checks the tensors of kernel cases. */
#include "operand.h"
#include "compare.h"
#include "guard_pages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD_BYTES = 256,
    GUARD = 0xc3
};

static void *operand_allocate(int64_t bytes)
{
    void *memory = malloc(bytes > 0 ? (size_t)bytes : 1);

    if (!memory) abort();
    return memory;
}

/* The end of a tensor that lies beside inaccessible pages. */
enum edge {
    EDGE_NONE,
    EDGE_FIRST,
    EDGE_LAST
};

/* The byte with which the memory around the elements of an input is filled. */
static int operand_surroundings(const struct num_type *type)
{
    return num_is_int(type) ? 0xa5 : 0xff;
}

/* The axis at position i from the outermost, in permutation number `order` of four axes. Each digit
 * of the number in the factorial number system selects the next axis among the remaining ones. */
static int axis_in_order(int order, int i)
{
    static const int weight[] = {6, 2, 1, 1};
    int left[] = {0, 1, 2, 3};

    for (int at = 0;; at++) {
        int digit = order / weight[at] % (4 - at), axis = left[digit];
        if (at == i) return axis;
        memmove(left + digit, left + digit + 1, (size_t)(3 - digit) * sizeof *left);
    }
}

/* The axis at position i from the innermost. */
static int axis_at(enum layout layout, int order, int rank, int i)
{
    if (layout == LAYOUT_ORDER) return axis_in_order(order, rank - 1 - i);
    if (layout == LAYOUT_PERMUTED) return i;
    if (layout != LAYOUT_LAST) return rank - 1 - i;
    return i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
}

/* Computes strides, offset and the number of elements of the allocation. The allocation has guard
 * elements in front of the tensor and behind it, except on the side where inaccessible pages
 * are. */
static void lay_out(struct operand *o, enum layout layout, int order, enum edge edge)
{
    const struct ref_array *v = &o->values;
    int64_t step = 1, last = 0, guard = GUARD_BYTES / v->type->size;

    for (int i = 0; i < v->rank; i++) {
        int axis = axis_at(layout, order, v->rank, i);
        if (layout == LAYOUT_GAPS) step = i == 0 ? 2 : i == 1 ? step + 3 : step;
        o->stride[axis] = layout == LAYOUT_REPEAT && axis == 0 ? 0 : step;
        if (v->count) last += (v->shape[axis] - 1) * o->stride[axis];
        if (o->stride[axis]) step *= v->shape[axis];
    }
    o->offset = (edge == EDGE_FIRST ? 0 : guard) + (layout == LAYOUT_OFFSET);
    o->elements = o->offset + (v->count ? last + 1 : 0) + (edge == EDGE_LAST ? 0 : guard);
}

/* The address in the image of the element at these coordinates. */
static unsigned char *operand_element(const struct operand *o, unsigned char *image,
                                      const int64_t *at)
{
    int64_t index = o->offset;

    for (int i = 0; i < o->values.rank; i++) index += at[i] * o->stride[i];
    return image + index * o->values.type->size;
}

/* Copies the tensor's elements from a dense array into an image, or back. */
static void operand_spread(const struct operand *o, unsigned char *image, unsigned char *dense,
                           bool to_image)
{
    int64_t at[REF_RANK] = {0};
    size_t size = o->values.type->size;

    for (int64_t i = 0; i < o->values.count; i++, ref_next(o->values.rank, o->values.shape, at))
        if (to_image) memcpy(operand_element(o, image, at), dense + i * (int64_t)size, size);
        else memcpy(dense + i * (int64_t)size, operand_element(o, image, at), size);
}

/* Creates the allocation and the view, and writes the image to the device. */
static bool operand_place(struct check *c, struct operand *o, enum edge edge, const char *what)
{
    const struct ref_array *v = &o->values;
    struct fixture *fixture = c->fixture;
    char call[64];

    snprintf(call, sizeof call, "bp_tensor_create of %s", what);
    if (edge != EDGE_NONE)
        o->base = guard_pages_tensor(fixture->device, v->type->dtype, o->elements,
                                     edge == EDGE_LAST);
    if (!o->base &&
        !check_ok(c, bp_tensor_create(fixture->device, v->type->dtype, 1, &o->elements, &o->base),
                  call))
        return false;
    snprintf(call, sizeof call, "bp_tensor_write of %s", what);
    if (!check_ok(c,
                  bp_tensor_write(fixture->stream, o->base, o->image,
                                  (uint64_t)o->elements * v->type->size),
                  call))
        return false;
    snprintf(call, sizeof call, "bp_tensor_view of %s", what);
    return check_ok(
        c, bp_tensor_view(o->base, o->offset, (uint32_t)v->rank, v->shape, o->stride, &o->tensor),
        call);
}

/* In half of the cases the tensor ends directly in front of inaccessible pages; so do all tensors
 * with an offset, because their first element is not aligned anyway. In the others the first
 * element is aligned and lies directly behind such pages. Frozen inputs lie beside no pages,
 * because the plugin may keep them in device memory. */
static enum edge edge_of(const struct check *c, const struct kernel_input *in, int index)
{
    uint64_t salt = c->fixture->seed ^ (uint64_t)(index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    struct random random = random_of(c->id, salt);

    if (in->frozen) return EDGE_NONE;
    return in->layout == LAYOUT_OFFSET || random_below(&random, 2) ? EDGE_LAST : EDGE_FIRST;
}

bool operand_input(struct check *c, const struct kernel_input *in, int index, bool guarded,
                   struct random *random, struct operand *o)
{
    enum edge edge = guarded ? edge_of(c, in, index) : EDGE_NONE;
    int64_t plane = 1;
    unsigned char *dense;
    char what[32];

    *o = (struct operand){0};
    ref_array_init(&o->values, in->dtype, in->rank, in->shape);
    data_fill(&o->values, in, index, random);
    for (int i = 1; i < in->rank; i++) plane *= in->shape[i];
    plane *= o->values.type->parts;
    for (int64_t i = plane;
         in->layout == LAYOUT_REPEAT && i < o->values.count * o->values.type->parts; i++)
        if (o->values.u) o->values.u[i] = o->values.u[i % plane];
        else o->values.v[i] = o->values.v[i % plane];

    lay_out(o, in->layout, in->order, edge);
    o->image = operand_allocate(o->elements * o->values.type->size);
    memset(o->image, operand_surroundings(o->values.type),
           (size_t)o->elements * o->values.type->size);
    dense = operand_allocate(o->values.count * o->values.type->size);
    ref_array_encode(&o->values, dense);
    operand_spread(o, o->image, dense, true);
    free(dense);
    snprintf(what, sizeof what, "input %d", index);
    return operand_place(c, o, edge, what) &&
           (!in->frozen || check_ok(c, bp_tensor_freeze(o->tensor), "bp_tensor_freeze"));
}

/* The index of element i of an array within a larger dense array of that shape. */
static int64_t place_in(const struct ref_array *array, int64_t i, const int64_t *shape)
{
    int64_t to = 0, step = 1;

    for (int a = array->rank - 1; a >= 0; a--) {
        to += i % array->shape[a] * step;
        i /= array->shape[a];
        step *= shape[a];
    }
    return to;
}

/* Fills a dense array of that shape with poison. The expected elements are those at the beginning
 * of each axis. */
static void fill_poison(const struct ref_array *expected, const int64_t *shape, int64_t count,
                        unsigned char *poison)
{
    int64_t parts = expected->type->parts, size = expected->type->size / parts;
    int usual = expected->v ? 0xff : 0xa5;

    memset(poison, usual, (size_t)(count * parts * size));
    for (int64_t i = 0; i < expected->count * parts; i++) {
        int byte = compare_poison(expected, i);
        if (byte == usual) continue;
        memset(poison + (place_in(expected, i / parts, shape) * parts + i % parts) * size, byte,
               (size_t)size);
    }
}

bool operand_output(struct check *c, const struct ref_array *expected, const int64_t *shape,
                    enum layout layout, struct operand *o)
{
    const struct num_type *type = expected->type;
    unsigned char *poison;

    *o = (struct operand){0};
    ref_array_init(&o->values, type->dtype, expected->rank, shape);
    lay_out(o, layout, 0, EDGE_NONE);
    o->image = operand_allocate(o->elements * type->size);
    memset(o->image, GUARD, (size_t)o->elements * type->size);
    poison = operand_allocate(o->values.count * type->size);
    fill_poison(expected, shape, o->values.count, poison);
    operand_spread(o, o->image, poison, true);
    free(poison);
    return operand_place(c, o, EDGE_NONE, "the output");
}

/* The index of the first byte that differs; -1 if all are equal. */
static int64_t first_difference(const unsigned char *a, const unsigned char *b, int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        if (a[i] != b[i]) return i;
    return -1;
}

bool operand_verify(struct check *c, const struct operand *o, const char *what, bool all,
                    void *out_data)
{
    int64_t size = o->values.type->size, bytes = o->elements * size, at;
    unsigned char *now = operand_allocate(bytes), *want = operand_allocate(bytes),
                  *dense = operand_allocate(o->values.count * size);
    bool ok = check_ok(c, bp_tensor_read(c->fixture->stream, o->base, now, (uint64_t)bytes),
                       "bp_tensor_read");

    if (ok) {
        operand_spread(o, now, dense, false);
        memcpy(want, o->image, (size_t)bytes);
        if (!all) operand_spread(o, want, dense, true);
        at = first_difference(now, want, bytes);
        int64_t byte = at - o->offset * size;
        ok = check_that(
            c, at < 0,
            byte < 0 || byte >= o->values.count * size || !all
                ? "%s: the kernel wrote outside the tensor: byte %lld from its first (its elements "
                  "are %lld bytes) was 0x%02x, is 0x%02x"
                : "%s: the kernel changed an input: byte %lld of %lld was 0x%02x, is 0x%02x",
            what, (long long)byte, (long long)(o->values.count * size), at < 0 ? 0 : want[at],
            at < 0 ? 0 : now[at]);
        if (out_data) memcpy(out_data, dense, (size_t)(o->values.count * size));
    }
    free(now);
    free(want);
    free(dense);
    return ok;
}

void operand_finish(struct operand *o)
{
    bp_tensor_destroy(o->tensor);
    bp_tensor_destroy(o->base);
    ref_array_finish(&o->values);
    free(o->image);
    *o = (struct operand){0};
}
