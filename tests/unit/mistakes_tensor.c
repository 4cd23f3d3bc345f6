/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_tensor.c: tables of wrong calls of tensor.h. */
#include "mistakes.h"

static uint64_t tensor_create(const union value *a)
{
    return bp_tensor_create(a[0].p, (uint32_t)a[1].u, (uint32_t)a[2].u, a[3].cp, a[4].p);
}

static uint64_t tensor_create_with(const union value *a)
{
    return bp_tensor_create_with(a[0].p, a[1].cp, a[2].p);
}

static uint64_t tensor_create_over(const union value *a)
{
    return bp_tensor_create_over(a[0].p, a[1].u, a[2].cp, a[3].p);
}

static uint64_t tensor_rebind(const union value *a)
{
    return bp_tensor_rebind(a[0].p, a[1].p, a[2].u);
}

static uint64_t tensor_view(const union value *a)
{
    return bp_tensor_view(a[0].p, a[1].i, (uint32_t)a[2].u, a[3].cp, a[4].cp, a[5].p);
}

static uint64_t tensor_reshape(const union value *a)
{
    return bp_tensor_reshape(a[0].p, (uint32_t)a[1].u, a[2].cp, a[3].p);
}

static uint64_t tensor_slice(const union value *a)
{
    return bp_tensor_slice(a[0].p, a[1].i, a[2].i, a[3].i, a[4].i, a[5].p);
}

static uint64_t tensor_transpose(const union value *a)
{
    return bp_tensor_transpose(a[0].p, a[1].cp, a[2].p);
}

static uint64_t tensor_expand(const union value *a)
{
    return bp_tensor_expand(a[0].p, (uint32_t)a[1].u, a[2].cp, a[3].p);
}

static uint64_t tensor_freeze(const union value *a)
{
    return bp_tensor_freeze(a[0].p);
}

static enum bp_status source_write(void *ctx, void *data, uint64_t bytes)
{
    (void)ctx, (void)data, (void)bytes;
    return BP_OK;
}

static const struct bp_tensor_source source = {sizeof source, source_write, NULL, NULL};
static const struct bp_tensor_source silent = {sizeof silent, NULL, NULL, NULL};
static const struct bp_tensor_source short_source = {8, source_write, NULL, NULL};

static uint64_t tensor_set_source(const union value *a)
{
    return bp_tensor_set_source(a[0].p, a[1].cp);
}

static uint64_t tensor_restore(const union value *a)
{
    return bp_tensor_restore(a[0].p);
}

static uint64_t tensor_map(const union value *a)
{
    return bp_tensor_map(a[0].p, a[1].p);
}

static uint64_t tensor_destroy(const union value *a)
{
    bp_tensor_destroy(a[0].p);
    return 0;
}

static uint64_t tensor_info(const union value *a)
{
    return bp_tensor_get_info(a[0].p, a[1].p);
}

static uint64_t tensor_write(const union value *a)
{
    return bp_tensor_write(a[0].p, a[1].p, a[2].cp, a[3].u);
}

static uint64_t tensor_read(const union value *a)
{
    return bp_tensor_read(a[0].p, a[1].p, a[2].p, a[3].u);
}

static uint64_t tensor_copy(const union value *a)
{
    return bp_tensor_copy(a[0].p, a[1].p, a[2].p);
}

#define BIG (INT64_C(1) << 40)
#define RANK_9 SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)

static const float six[6] = {1, 2, 3, 4, 5, 6};
static const struct bp_tensor_options good = {
    .size = sizeof good, .dtype = BP_F32, .rank = 2, .shape = SHAPE(2, 3), .stride = SHAPE(4, 1)};

static const struct bp_tensor_options number = {.size = sizeof number, .dtype = BP_F64};

enum { T_MOVED = T_OWN /* a view f32 [1] */ };

static const struct function functions[] = {
    {"bp_tensor_create", tensor_create,
     {HANDLE(T_DEVICE), NUMBER(BP_F32), NUMBER(2), POINTER(SHAPE(2, 3)), OUT_OF(T_TENSOR)}},
    {"bp_tensor_create_with", tensor_create_with,
     {HANDLE(T_DEVICE), POINTER(&good), OUT_OF(T_TENSOR)}},
    {"bp_tensor_create_over", tensor_create_over,
     {HANDLE(T_BUFFER), NUMBER(36), POINTER(&good), OUT_OF(T_TENSOR)}},
    {"bp_tensor_rebind", tensor_rebind,
     {GIVEN(T_TENSOR, T_MOVED), HANDLE(T_BUFFER), NUMBER(60)}},
    {"bp_tensor_view", tensor_view,
     {HANDLE(T_TENSOR), NUMBER(1), NUMBER(1), POINTER(SHAPE(2)), POINTER(SHAPE(1)),
      OUT_OF(T_TENSOR)}},
    {"bp_tensor_reshape", tensor_reshape,
     {HANDLE(T_TENSOR), NUMBER(1), POINTER(SHAPE(6)), OUT_OF(T_TENSOR)}},
    {"bp_tensor_slice", tensor_slice,
     {HANDLE(T_TENSOR), NUMBER(1), NUMBER(0), NUMBER(3), NUMBER(2), OUT_OF(T_TENSOR)}},
    {"bp_tensor_transpose", tensor_transpose,
     {HANDLE(T_TENSOR), OPTIONAL(SHAPE(1, 0)), OUT_OF(T_TENSOR)}},
    {"bp_tensor_expand", tensor_expand,
     {HANDLE(T_TENSOR), NUMBER(3), POINTER(SHAPE(5, 2, 3)), OUT_OF(T_TENSOR)}},
    {"bp_tensor_freeze", tensor_freeze, {GIVEN(T_TENSOR, T_FROZEN)}},
    {"bp_tensor_set_source", tensor_set_source, {GIVEN(T_TENSOR, T_FROZEN), POINTER(&source)}},
    {"bp_tensor_restore", tensor_restore, {GIVEN(T_TENSOR, T_FROZEN)}},
    {"bp_tensor_map", tensor_map, {HANDLE(T_TENSOR), OUT_OF(T_NONE)}},
    {"bp_tensor_destroy", tensor_destroy, {HANDLE_OR(T_TENSOR, T_SYMBOL)}, RETURNS_NOTHING},
    {"bp_tensor_get_info", tensor_info,
     {HANDLE_OR(T_TENSOR, T_SYMBOL), INFO(struct bp_tensor_info)}},
    {"bp_tensor_write", tensor_write,
     {HANDLE(T_STREAM), GIVEN(T_TENSOR, T_SPARE), POINTER(six), NUMBER(24)}},
    {"bp_tensor_read", tensor_read,
     {HANDLE(T_STREAM), HANDLE(T_TENSOR), OUT_OF(T_NONE), NUMBER(24)}},
    {"bp_tensor_copy", tensor_copy, {HANDLE(T_STREAM), GIVEN(T_TENSOR, T_SPARE), HANDLE(T_TENSOR)}},
};

static const struct mistake mistakes[] = {
    {"bp_tensor_create_over", "an element too far", BP_ERR_INVALID, "span 28 bytes", {SET(2, 40)}},
    {"bp_tensor_create_over", "the largest offset", BP_ERR_INVALID, "has 64 bytes",
     {SET(2, UINT64_MAX)}},
    {"bp_tensor_create_over", "half an element", BP_ERR_INVALID, "multiple of 4", {SET(2, 2)}},
    {"bp_tensor_create_over", "half an element of f64", BP_ERR_INVALID, "multiple of 8",
     {PUT(3, &number)}},
    {"bp_tensor_rebind", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_rebind", "an element too far", BP_ERR_INVALID, "span 4 bytes", {SET(3, 64)}},
    {"bp_tensor_rebind", "the largest offset", BP_ERR_INVALID, "has 64 bytes",
     {SET(3, UINT64_MAX)}},
    {"bp_tensor_rebind", "half an element", BP_ERR_INVALID, "multiple of 4", {SET(3, 58)}},
    {"bp_tensor_rebind", "a tensor in its own memory", BP_ERR_INVALID, "created together",
     {USE(1, T_SPARE)}},
    {"bp_tensor_rebind", "a tensor of another device", BP_ERR_INVALID, "the tensor is of template",
     {USE(1, T_OTHER_TENSOR)}},
    {"bp_tensor_view", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_reshape", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_slice", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_transpose", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_expand", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_freeze", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_set_source", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_set_source", "a tensor that may be written", BP_ERR_INVALID, "bp_tensor_freeze",
     {USE(1, T_SPARE)}},
    {"bp_tensor_set_source", "no function", BP_ERR_INVALID, "write is NULL", {PUT(2, &silent)}},
    {"bp_tensor_set_source", "a size that is not set", BP_ERR_INVALID, "size is 8",
     {PUT(2, &short_source)}},
    {"bp_tensor_restore", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_map", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_write", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(2, T_SYMBOL)}},
    {"bp_tensor_read", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(2, T_SYMBOL)}},
    {"bp_tensor_copy", "a value of a graph as dst", BP_ERR_INVALID, "value of a graph",
     {USE(2, T_SYMBOL)}},
    {"bp_tensor_copy", "a value of a graph as src", BP_ERR_INVALID, "value of a graph",
     {USE(3, T_SYMBOL)}},
    {"bp_tensor_create", "no dtype", BP_ERR_INVALID, "99 is no dtype", {SET(2, 99)}},
    {"bp_tensor_create", "the largest dtype", BP_ERR_INVALID, "4294967295 is no dtype",
     {SET(2, UINT32_MAX)}},
    {"bp_tensor_create", "rank 9", BP_ERR_INVALID, "rank is 9", {SET(3, 9), PUT(4, RANK_9)}},
    {"bp_tensor_create", "the largest rank", BP_ERR_INVALID, "rank is 4294967295",
     {SET(3, UINT32_MAX)}},
    {"bp_tensor_create", "a negative extent", BP_ERR_INVALID, "extent 1 is -3",
     {PUT(4, SHAPE(2, -3))}},
    {"bp_tensor_create", "the least extent", BP_ERR_INVALID, "extent 0 is -9223372036854775808",
     {PUT(4, SHAPE(INT64_MIN, 1))}},
    {"bp_tensor_create", "too many elements", BP_ERR_INVALID, "63 bits", {PUT(4, SHAPE(BIG, BIG))}},
    {"bp_tensor_create", "too many bytes", BP_ERR_INVALID, "63 bits",
     {PUT(4, SHAPE(INT64_MAX / 4 + 1, 1))}},
    {"bp_tensor_create", "the largest extent", BP_ERR_INVALID, "63 bits",
     {PUT(4, SHAPE(INT64_MAX, 1))}},
    {"bp_tensor_create", "too many, and none", BP_ERR_INVALID, "63 bits",
     {SET(3, 3), PUT(4, SHAPE(BIG, BIG, 0))}},
    {"bp_tensor_create", "more than there is", BP_ERR_MEMORY, "asked for",
     {PUT(4, SHAPE(INT64_C(1) << 58, 1))}},

    {"bp_tensor_view", "rank 9", BP_ERR_INVALID, "rank is 9",
     {SET(3, 9), PUT(4, RANK_9), PUT(5, RANK_9)}},
    {"bp_tensor_view", "a negative extent", BP_ERR_INVALID, "extent 0 is -1", {PUT(4, SHAPE(-1))}},
    {"bp_tensor_view", "a negative stride", BP_ERR_INVALID, "stride 0 is -1", {PUT(5, SHAPE(-1))}},
    {"bp_tensor_view", "a negative offset", BP_ERR_INVALID, "offset is -1", {SET(2, -1)}},
    {"bp_tensor_view", "the least offset", BP_ERR_INVALID, "offset is", {SET(2, INT64_MIN)}},
    {"bp_tensor_view", "the largest offset", BP_ERR_INVALID, "ends after 6",
     {SET(2, INT64_MAX)}},
    {"bp_tensor_view", "one element too far", BP_ERR_INVALID, "ends after 6", {SET(2, 5)}},
    {"bp_tensor_view", "a stride too far", BP_ERR_INVALID, "ends after 6", {PUT(5, SHAPE(5))}},
    {"bp_tensor_view", "the largest stride", BP_ERR_INVALID, "ends after 6",
     {PUT(5, SHAPE(INT64_MAX))}},
    {"bp_tensor_view", "strides past 63 bits", BP_ERR_INVALID, "63 bits",
     {PUT(4, SHAPE(3)), PUT(5, SHAPE(INT64_MAX))}},

    {"bp_tensor_reshape", "rank 9", BP_ERR_INVALID, "rank is 9", {SET(2, 9), PUT(3, RANK_9)}},
    {"bp_tensor_reshape", "another count", BP_ERR_INVALID, "does not hold the 6 elements",
     {PUT(3, SHAPE(5))}},
    {"bp_tensor_reshape", "rank 0", BP_ERR_INVALID, "does not hold", {SET(2, 0)}},
    {"bp_tensor_reshape", "a negative extent", BP_ERR_INVALID, "extent 0 is -2",
     {PUT(3, SHAPE(-2))}},
    {"bp_tensor_reshape", "two open extents", BP_ERR_INVALID, "are -1",
     {SET(2, 2), PUT(3, SHAPE(-1, -1))}},
    {"bp_tensor_reshape", "an open extent that divides nothing", BP_ERR_INVALID, "does not hold",
     {SET(2, 2), PUT(3, SHAPE(4, -1))}},
    {"bp_tensor_reshape", "open beside 0", BP_ERR_INVALID, "any number would fit",
     {USE(1, T_EMPTY), SET(2, 2), PUT(3, SHAPE(0, -1))}},
    {"bp_tensor_reshape", "past 63 bits", BP_ERR_INVALID, "bp_tensor_reshape",
     {SET(2, 2), PUT(3, SHAPE(BIG, BIG))}},
    {"bp_tensor_reshape", "strides that do not let it", BP_ERR_UNSUPPORTED, "copy the tensor",
     {USE(1, T_REPEATED)}},

    {"bp_tensor_slice", "an axis too far", BP_ERR_INVALID, "axis is 2", {SET(2, 2)}},
    {"bp_tensor_slice", "an axis too far back", BP_ERR_INVALID, "axis is -3", {SET(2, -3)}},
    {"bp_tensor_slice", "the least axis", BP_ERR_INVALID, "axis is -9223372036854775808",
     {SET(2, INT64_MIN)}},
    {"bp_tensor_slice", "no step", BP_ERR_INVALID, "step is 0", {SET(5, 0)}},
    {"bp_tensor_slice", "a step back", BP_ERR_INVALID, "step is -1", {SET(5, -1)}},
    {"bp_tensor_slice", "the least step", BP_ERR_INVALID, "step is", {SET(5, INT64_MIN)}},

    {"bp_tensor_transpose", "an axis twice", BP_ERR_INVALID, "names axis 1 twice",
     {PUT(2, SHAPE(1, 1))}},
    {"bp_tensor_transpose", "no such axis", BP_ERR_INVALID, "perm[1] is 2", {PUT(2, SHAPE(0, 2))}},
    {"bp_tensor_transpose", "a negative axis", BP_ERR_INVALID, "perm[0] is -1",
     {PUT(2, SHAPE(-1, 0))}},
    {"bp_tensor_transpose", "an axis of 33 bits", BP_ERR_INVALID, "perm[0] is 4294967296",
     {PUT(2, SHAPE(INT64_C(1) << 32, 1))}},

    {"bp_tensor_expand", "rank 9", BP_ERR_INVALID, "rank is 9", {SET(2, 9), PUT(3, RANK_9)}},
    {"bp_tensor_expand", "fewer axes", BP_ERR_INVALID, "rank is 1", {SET(2, 1), PUT(3, SHAPE(3))}},
    {"bp_tensor_expand", "no axes", BP_ERR_INVALID, "rank is 0", {SET(2, 0)}},
    {"bp_tensor_expand", "an extent that is not 1", BP_ERR_INVALID, "only extents of 1 expand",
     {PUT(3, SHAPE(1, 2, 4))}},
    {"bp_tensor_expand", "to nothing", BP_ERR_INVALID, "only extents of 1 expand",
     {PUT(3, SHAPE(1, 0, 3))}},
    {"bp_tensor_expand", "a negative extent", BP_ERR_INVALID, "extent 2 is -2",
     {PUT(3, SHAPE(1, 2, -2))}},
    {"bp_tensor_expand", "a new axis that keeps", BP_ERR_INVALID, "nothing to keep",
     {PUT(3, SHAPE(-1, 2, 3))}},
    {"bp_tensor_expand", "past 63 bits", BP_ERR_INVALID, "63 bits",
     {PUT(3, SHAPE(INT64_MAX, 2, 3))}},

    {"bp_tensor_map", "memory that the host cannot touch", BP_ERR_UNSUPPORTED, "bp_tensor_read",
     {USE(1, T_OTHER_TENSOR)}},

    {"bp_tensor_write", "a byte more", BP_ERR_INVALID, "has 24 bytes", {SET(4, 25)}},
    {"bp_tensor_write", "a byte less", BP_ERR_INVALID, "has 24 bytes", {SET(4, 23)}},
    {"bp_tensor_write", "no bytes", BP_ERR_INVALID, "has 24 bytes", {SET(4, 0)}},
    {"bp_tensor_write", "the largest size", BP_ERR_INVALID, "has 24 bytes", {SET(4, UINT64_MAX)}},
    {"bp_tensor_write", "a tensor of another device", BP_ERR_INVALID, "template:0",
     {USE(2, T_OTHER_TENSOR)}},
    {"bp_tensor_write", "a stream of another device", BP_ERR_INVALID, "template:0",
     {USE(1, T_OTHER_STREAM)}},
    {"bp_tensor_write", "frozen memory", BP_ERR_INVALID, "frozen", {USE(2, T_FROZEN)}},
    {"bp_tensor_write", "a view that overlaps itself", BP_ERR_INVALID, "may overlap itself",
     {USE(2, T_REPEATED)}},
    {"bp_tensor_read", "a byte more", BP_ERR_INVALID, "has 24 bytes", {SET(4, 25)}},
    {"bp_tensor_read", "a byte less", BP_ERR_INVALID, "has 24 bytes", {SET(4, 23)}},
    {"bp_tensor_read", "no bytes", BP_ERR_INVALID, "has 24 bytes", {SET(4, 0)}},
    {"bp_tensor_read", "the largest size", BP_ERR_INVALID, "has 24 bytes", {SET(4, UINT64_MAX)}},
    {"bp_tensor_read", "a tensor of another device", BP_ERR_INVALID, "template:0",
     {USE(2, T_OTHER_TENSOR)}},
    {"bp_tensor_read", "a stream of another device", BP_ERR_INVALID, "template:0",
     {USE(1, T_OTHER_STREAM)}},
    {"bp_tensor_copy", "a stream of another device", BP_ERR_INVALID, "template:0",
     {USE(1, T_OTHER_STREAM)}},
    {"bp_tensor_copy", "a stream of the source's device", BP_ERR_INVALID, "dst is on cpu:0",
     {USE(1, T_OTHER_STREAM), USE(3, T_OTHER_TENSOR)}},
    {"bp_tensor_copy", "another shape", BP_ERR_INVALID, "src is f32 [4]", {USE(3, T_SHORT)}},
    {"bp_tensor_copy", "another dtype", BP_ERR_INVALID, "src is f64 [2, 3]", {USE(3, T_DOUBLE)}},
    {"bp_tensor_copy", "frozen memory", BP_ERR_INVALID, "frozen", {USE(2, T_FROZEN)}},
    {"bp_tensor_copy", "a view that overlaps itself", BP_ERR_INVALID, "may overlap itself",
     {USE(2, T_REPEATED)}},
};

/* Calls of bp_tensor_create_with, whose options have one mistake each. */
static const struct {
    const char *what;
    enum bp_status status;
    const char *word;
    struct bp_tensor_options options;
    enum thing stream;
} option[] = {
    {"size 0", BP_ERR_INVALID, "options->size is 0", {0}, T_NONE},
    {"size 8", BP_ERR_INVALID, "options->size is 8", {.size = 8}, T_NONE},
    {"huge size", BP_ERR_INVALID, "options->size", {.size = SIZE_MAX}, T_NONE},
#define WITH(...) {.size = sizeof good, .dtype = BP_F32, __VA_ARGS__}
#define STRIDES(...) WITH(.rank = 2, .shape = SHAPE(2, 3), .stride = SHAPE(__VA_ARGS__))
    {"no dtype", BP_ERR_INVALID, "99 is no dtype", {.size = sizeof good, .dtype = 99}, T_NONE},
    {"no shape", BP_ERR_INVALID, "shape is NULL", WITH(.rank = 1), T_NONE},
    {"rank 9", BP_ERR_INVALID, "rank is 9", WITH(.rank = 9, .shape = RANK_9), T_NONE},
    {"a negative extent", BP_ERR_INVALID, "extent 0 is -1", WITH(.rank = 1, .shape = SHAPE(-1)),
     T_NONE},
    {"past 63 bits", BP_ERR_INVALID, "63 bits", WITH(.rank = 2, .shape = SHAPE(BIG, BIG)), T_NONE},
    {"no space", BP_ERR_INVALID, "is no memory space", WITH(.space = BP_SPACE_MANAGED + 1),
     T_NONE},
    {"a negative stride", BP_ERR_INVALID, "stride 0 is -3", STRIDES(-3, 1), T_NONE},
    {"strides of 0", BP_ERR_INVALID, "one place to two elements", STRIDES(0, 1), T_NONE},
    {"strides that interleave", BP_ERR_INVALID, "one place to two elements", STRIDES(1, 1), T_NONE},
    {"strides past 63 bits", BP_ERR_INVALID, "63 bits", STRIDES(INT64_MAX, INT64_MAX), T_NONE},
    {"bytes past 63 bits", BP_ERR_INVALID, "63 bits", STRIDES(INT64_MAX / 2, 1), T_NONE},
    {"a stream of another device", BP_ERR_INVALID, "the stream is of template:0", WITH(.rank = 0),
     T_OTHER_STREAM},
    {"a device for the stream", BP_ERR_INVALID, "expected a stream", WITH(.rank = 0), T_DEVICE},
    {"a tensor for the stream", BP_ERR_INVALID, "expected a stream", WITH(.rank = 0), T_TENSOR},
    {"no handle for the stream", BP_ERR_INVALID, "expected a stream", WITH(.rank = 0), T_STRANGER},
#undef STRIDES
#undef WITH
};

static void tensor_more(struct world *w)
{
    for (size_t i = 0; i < COUNT(option); i++) {
        struct bp_tensor_options options = option[i].options;
        struct mistake m = {"bp_tensor_create_with", option[i].what, option[i].status,
                            option[i].word, {PUT(2, &options)}};
        if (option[i].stream) options.stream = w->thing[option[i].stream].p;
        mistakes_try(w, &m);
    }
}

static void tensor_prepare(struct world *w)
{
    OK(bp_tensor_slice(w->thing[T_SHORT].p, 0, 1, 2, 1,
                       (struct bp_tensor **)&w->thing[T_MOVED].p));
}

static void tensor_finish(struct world *w)
{
    bp_tensor_destroy(w->thing[T_MOVED].p);
}

const struct table mistakes_tensor = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
    .prepare = tensor_prepare,
    .more = tensor_more,
    .finish = tensor_finish,
};
