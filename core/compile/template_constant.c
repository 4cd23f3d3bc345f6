/* SPDX-License-Identifier: Apache-2.0 */
/* template_constant.c: compares the constants of programs that differ in a parameter, and makes
 * those for another parameter. */
#include "templates.h"

#include "schedule.h"

#include <stdlib.h>
#include <string.h>

enum {
    BYTES_MAX = 16 << 20
}; /* of a constant that depends on the parameter */

/* Whether two constants lie in the same memory, with the same type. */
static bool same_memory(const struct bp_tensor *a, const struct bp_tensor *b)
{
    return a == b || (a->buffer->id == b->buffer->id && a->offset == b->offset &&
                      bp_same_type(&a->view, &b->view));
}

static uint64_t bytes_of(const struct bp_tensor *t)
{
    return (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8);
}

/* Reads the elements in row-major order. The caller frees them. */
static enum bp_status constant_read(struct bp_stream *stream, struct bp_tensor *t, void **out)
{
    if (!(t->view.flags & BP_VIEW_CONSTANT))
        return bp_error(BP_ERR_UNSUPPORTED, "constants that are not frozen differ");
    if (bytes_of(t) > BYTES_MAX)
        return bp_error(BP_ERR_UNSUPPORTED, "a constant of %llu bytes depends on the parameter",
                        (unsigned long long)bytes_of(t));
    *out = malloc(bytes_of(t) + 1);
    if (!*out) return bp_template_no_memory();
    return bytes_of(t) ? bp_tensor_read(stream, t, *out, bytes_of(t)) : BP_OK;
}

/* Whether the elements of a constant are those of the leading block of a larger one. */
static bool is_block(const struct bp_tensor *small, const char *data, const struct bp_tensor *large,
                     const char *from)
{
    uint32_t rank = small->view.rank, size = bp_dtype_bits(small->view.dtype) / 8;
    int64_t row = rank ? small->shape[rank - 1] : 1, at[BP_RANK_MAX] = {0};
    size_t n = (size_t)row * size;

    for (uint32_t a = 0; a < rank; a++)
        if (small->shape[a] > large->shape[a]) return false;
    for (int64_t done = 0; done < small->view.count; done += row, data += n) {
        int64_t first = 0;
        for (uint32_t a = 0; a < rank; a++) first = first * large->shape[a] + at[a];
        if (memcmp(data, from + (size_t)first * size, n) != 0) return false;
        for (uint32_t a = rank ? rank - 1 : 0; a-- > 0;) {
            if (++at[a] < small->shape[a]) break;
            at[a] = 0;
        }
    }
    return true;
}

static int64_t integer_at(uint32_t dtype, const void *data, int64_t i)
{
    return dtype == BP_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
}

/* Finds the line of each integer of a constant. */
static enum bp_status find_numbers(const struct bp_samples *s, const struct bp_tensor *t,
                                   void *const *data, int64_t **out_number)
{
    uint32_t dtype = t->view.dtype;
    int64_t *number = calloc((size_t)t->view.count + 1, 2 * sizeof *number);
    bool fits = dtype == BP_I64 || dtype == BP_I32;

    if (!number) return bp_template_no_memory();
    for (int64_t i = 0; fits && i < t->view.count; i++) {
        int64_t value[BP_SAMPLES_MAX];
        for (uint32_t k = 0; k < s->n; k++) value[k] = integer_at(dtype, data[k], i);
        fits = bp_samples_line(s, value, &number[2 * i], &number[2 * i + 1]);
    }
    if (fits) *out_number = number;
    else free(number);
    return fits ? BP_OK
                : bp_error(BP_ERR_UNSUPPORTED, "a constant does not depend on the parameter by "
                                               "sums with multiples");
}

/* Compares contents. *out_same: they are equal, so that that of the base serves all. */
static enum bp_status compare_contents(const struct bp_samples *s, struct bp_tensor *const *t,
                                       void *const *data, bool varies, bool *out_same,
                                       int64_t **out_number)
{
    const struct bp_tensor *base = t[s->base];
    bool block = true;

    *out_number = NULL;
    for (uint32_t k = 0; k < s->n; k++)
        block = block && is_block(t[k], data[k], base, data[s->base]);
    *out_same = block && !varies;
    if (block) return BP_OK;
    if (varies)
        return bp_error(BP_ERR_UNSUPPORTED, "a constant whose extents depend on the parameter is "
                                            "not the leading block of a larger one");
    return find_numbers(s, base, data, out_number);
}

static enum bp_status add_constant(struct bp_changed_constants *all,
                                   const struct bp_changed_constant *constant)
{
    struct bp_changed_constant *grown = realloc(all->list, (all->n + 1) * sizeof *grown);

    if (!grown) {
        free(constant->number);
        return bp_template_no_memory();
    }
    all->list = grown;
    grown[all->n] = *constant;
    bp_tensor_retain(grown[all->n++].base);
    return BP_OK;
}

/* Finds the lines of the extents. *out_varies: one of them is not level. */
static enum bp_status find_extents(const struct bp_samples *s, struct bp_tensor *const *t,
                                   struct bp_changed_constant *constant, bool *out_varies)
{
    *out_varies = false;
    for (uint32_t a = 0; a < constant->base->view.rank; a++) {
        int64_t extent[BP_SAMPLES_MAX];
        for (uint32_t k = 0; k < s->n; k++) extent[k] = t[k]->shape[a];
        if (!bp_samples_line(s, extent, &constant->first[a], &constant->slope[a]))
            return bp_error(BP_ERR_UNSUPPORTED, "a constant has other extents");
        *out_varies = *out_varies || constant->slope[a];
    }
    return BP_OK;
}

static enum bp_status compare_constant(const struct bp_samples *s, const struct bp_parts *part,
                                       struct bp_stream *stream, uint32_t v,
                                       struct bp_changes *changes, struct bp_changed_constants *all)
{
    struct bp_changed_constant made = {.base = *bp_parts_constant(&part[s->base], v)};
    struct bp_tensor *t[BP_SAMPLES_MAX] = {NULL};
    void *data[BP_SAMPLES_MAX] = {NULL};
    bool differ = false, same = false, moves = false, varies;
    enum bp_status status;

    for (uint32_t k = 0; made.base && k < s->n; k++) {
        t[k] = *bp_parts_constant(&part[k], v);
        differ = differ || !same_memory(t[k], made.base);
        moves = moves || (t[k]->buffer == made.base->buffer && t[k]->offset != made.base->offset);
    }
    if (!differ) return BP_OK;
    if (moves)
        return bp_error(BP_ERR_UNSUPPORTED, "a constant is another part of one tensor");
    status = find_extents(s, t, &made, &varies);
    for (uint32_t k = 0; k < s->n && !status; k++) status = constant_read(stream, t[k], &data[k]);
    if (!status) status = compare_contents(s, t, data, varies, &same, &made.number);
    for (uint32_t k = 0; k < s->n; k++) free(data[k]);
    if (status || same) return status;
    changes->value[v] = true;
    for (uint32_t i = 0; i < all->n && !same; i++) same = all->list[i].base == made.base;
    if (!same) return add_constant(all, &made); /* else it is a constant of the graph, too */
    free(made.number);
    return BP_OK;
}

static bool any_changed(const struct bp_changes *changes, const uint32_t *value, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (value[i] != BP_NO_VALUE && changes->value[value[i]]) return true;
    return false;
}

enum bp_status bp_constants_find(const struct bp_samples *samples, const struct bp_parts *part,
                                 struct bp_stream *stream, struct bp_changes *changes,
                                 struct bp_changed_constants *all, bool *out_unknown)
{
    for (uint32_t v = 0; v < part->n_value; v++) {
        enum bp_status status = compare_constant(samples, part, stream, v, changes, all);
        if (status == BP_ERR_UNSUPPORTED && out_unknown) out_unknown[v] = true;
        else if (status) return status;
    }
    for (uint32_t n = 0; n < part->n_node; n++) {
        const struct bp_node *node = bp_parts_node(part, n);
        if (any_changed(changes, node->in, node->n_in) ||
            any_changed(changes, node->out, node->n_out))
            changes->node[n] = true;
    }
    return BP_OK;
}

/* ---- another parameter ---- */

static enum bp_status make_numbers(const struct bp_changed_constant *c, int64_t steps,
                                   struct bp_stream *stream, struct bp_tensor **out)
{
    const struct bp_tensor *base = c->base;
    struct bp_type type = {.dtype = base->view.dtype, .rank = base->view.rank};
    void *data = malloc(bytes_of(base) + 1);
    enum bp_status status;

    if (!data) return bp_template_no_memory();
    for (int64_t i = 0; i < base->view.count; i++) {
        int64_t number = c->number[2 * i] + c->number[2 * i + 1] * steps;
        if (type.dtype == BP_I64) ((int64_t *)data)[i] = number;
        else ((int32_t *)data)[i] = (int32_t)number;
    }
    memcpy(type.shape, base->shape, sizeof type.shape);
    status = bp_tensor_create_typed(stream->device, stream->timeline, &type, out);
    if (!status) status = bp_tensor_write(stream, *out, data, bytes_of(base));
    free(data);
    return status;
}

/* Makes a view of the leading block, or a copy of it if it is not dense. */
static enum bp_status make_block(const struct bp_changed_constant *c, int64_t steps,
                                 struct bp_stream *stream, struct bp_tensor **out)
{
    struct bp_tensor *block = bp_tensor_retain(c->base), *part;
    struct bp_type type = {.dtype = block->view.dtype, .rank = block->view.rank};
    enum bp_status status = BP_OK;

    for (uint32_t a = 0; a < block->view.rank && !status; a++) {
        type.shape[a] = c->first[a] + c->slope[a] * steps;
        if (!c->slope[a]) continue;
        status = bp_tensor_slice(block, a, 0, type.shape[a], 1, &part);
        if (status) break;
        bp_tensor_destroy(block);
        block = part;
    }
    if (status || !(block->view.flags & BP_VIEW_STRIDED)) {
        *out = block;
        return status;
    }
    status = bp_tensor_create_typed(stream->device, stream->timeline, &type, out);
    if (!status) status = bp_tensor_copy(stream, *out, block);
    bp_tensor_destroy(block);
    return status;
}

enum bp_status bp_constants_make(const struct bp_changed_constants *all,
                                 const struct bp_samples *samples, int64_t at,
                                 struct bp_device *device, struct bp_tensor **made)
{
    int64_t steps = at - samples->at[samples->base];
    struct bp_stream *stream;
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < all->n; i++) made[i] = NULL;
    if (!all->n) return BP_OK;
    TRY(bp_compile_stream(device, &stream));
    for (uint32_t i = 0; i < all->n && !status; i++)
        status = all->list[i].number ? make_numbers(&all->list[i], steps, stream, &made[i])
                                     : make_block(&all->list[i], steps, stream, &made[i]);
    if (!status) status = bp_stream_synchronize(stream);
    bp_stream_destroy(stream);
    for (uint32_t i = 0; i < all->n && !status; i++) bp_tensor_set_frozen(made[i]);
    return status;
}

void bp_constants_finish(struct bp_changed_constants *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        bp_tensor_destroy(all->list[i].base);
        free(all->list[i].number);
    }
    free(all->list);
    *all = (struct bp_changed_constants){0};
}
