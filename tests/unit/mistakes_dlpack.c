/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_dlpack.c: tables of wrong calls of dlpack.h. Tensors of other libraries are no handles:
 * the core cannot distinguish them from other memory, but checks their fields. */
#include "mistakes.h"

static uint64_t to_dlpack(const union value *a)
{
    return bp_tensor_to_dlpack(a[0].p, a[1].p);
}

static uint64_t to_dlpack_legacy(const union value *a)
{
    return bp_tensor_to_dlpack_legacy(a[0].p, a[1].p);
}

static uint64_t from_dlpack(const union value *a)
{
    return bp_tensor_from_dlpack(a[0].p, a[1].p, a[2].p);
}

static uint64_t from_dlpack_legacy(const union value *a)
{
    return bp_tensor_from_dlpack_legacy(a[0].p, a[1].p, a[2].p);
}

static _Alignas(64) double memory[8];
static int64_t shape[] = {2, 3}, negative[] = {2, -3}, past[] = {INT64_MAX, 3}, strides[] = {3, 1},
               back[] = {3, -1}, far[] = {INT64_MAX, INT64_MAX};
static struct bp_dlpack_managed managed = {.version = {BP_DLPACK_MAJOR, BP_DLPACK_MINOR}};
static struct bp_dlpack_legacy legacy;

static const struct function functions[] = {
    {"bp_tensor_to_dlpack", to_dlpack, {HANDLE(T_TENSOR), OUT_OF(T_MANAGED)}},
    {"bp_tensor_to_dlpack_legacy", to_dlpack_legacy, {HANDLE(T_TENSOR), OUT_OF(T_LEGACY)}},
    {"bp_tensor_from_dlpack", from_dlpack,
     {HANDLE(T_DEVICE), POINTER(&managed), OUT_OF(T_TENSOR)}},
    {"bp_tensor_from_dlpack_legacy", from_dlpack_legacy,
     {HANDLE(T_DEVICE), POINTER(&legacy), OUT_OF(T_TENSOR)}},
};

static const struct mistake mistakes[] = {
    {"bp_tensor_to_dlpack", "memory without a DLPack type", BP_ERR_UNSUPPORTED, "template:0",
     {USE(1, T_OTHER_TENSOR)}},
    {"bp_tensor_to_dlpack_legacy", "memory without a DLPack type", BP_ERR_UNSUPPORTED, "template:0",
     {USE(1, T_OTHER_TENSOR)}},
    {"bp_tensor_to_dlpack", "a value of a graph", BP_ERR_INVALID, "value of a graph",
     {USE(1, T_SYMBOL)}},
    {"bp_tensor_to_dlpack_legacy", "frozen memory", BP_ERR_UNSUPPORTED, "read only",
     {USE(1, T_FROZEN)}},
    {"bp_tensor_from_dlpack", "a device without a DLPack type", BP_ERR_UNSUPPORTED, "template:0",
     {USE(1, T_OTHER_DEVICE)}},
    {"bp_tensor_from_dlpack_legacy", "a device without a DLPack type", BP_ERR_UNSUPPORTED,
     "template:0", {USE(1, T_OTHER_DEVICE)}},
};

/* f32 [2, 3] in host memory. */
static const struct bp_dlpack_tensor good = {
    memory, {1, 0}, 2, {BP_DLPACK_FLOAT, 32, 1}, shape, strides, 0};

/* Mistakes in an imported tensor, field by field. */
enum field { DATA, TYPE, ID, NDIM, CODE, BITS, LANES, EXTENTS, STRIDES, OFFSET, MAJOR };
static const struct {
    const char *what;
    enum bp_status status;
    const char *word;
    enum field field;
    int64_t number;
    int64_t *list;
} lent[] = {
    {"data NULL", BP_ERR_INVALID, "data is NULL", DATA, 0, NULL},
    {"another type of device", BP_ERR_INVALID, "of DLPack device 2:0", TYPE, 2, NULL},
    {"no type of device", BP_ERR_INVALID, "of DLPack device 0:0", TYPE, 0, NULL},
    {"another device", BP_ERR_INVALID, "of DLPack device 1:5", ID, 5, NULL},
    {"a negative device", BP_ERR_INVALID, "of DLPack device 1:-1", ID, -1, NULL},
    {"9 axes", BP_ERR_INVALID, "ndim is 9", NDIM, 9, NULL},
    {"-1 axes", BP_ERR_INVALID, "ndim is -1", NDIM, -1, NULL},
    {"the least number of axes", BP_ERR_INVALID, "ndim is -2147483648", NDIM, INT32_MIN, NULL},
    {"no such code", BP_ERR_UNSUPPORTED, "code 99", CODE, 99, NULL},
    {"no such float", BP_ERR_UNSUPPORTED, "24 bits", BITS, 24, NULL},
    {"no bits", BP_ERR_UNSUPPORTED, "0 bits", BITS, 0, NULL},
    {"4 lanes", BP_ERR_UNSUPPORTED, "4 lanes", LANES, 4, NULL},
    {"no lanes", BP_ERR_UNSUPPORTED, "0 lanes", LANES, 0, NULL},
    {"shape NULL", BP_ERR_INVALID, "shape is NULL", EXTENTS, 0, NULL},
    {"a negative extent", BP_ERR_INVALID, "extent 1 is -3", EXTENTS, 0, negative},
    {"past 63 bits", BP_ERR_INVALID, "63 bits", EXTENTS, 0, past},
    {"a negative stride", BP_ERR_INVALID, "stride 1 is -1", STRIDES, 0, back},
    {"strides past 63 bits", BP_ERR_INVALID, "63 bits", STRIDES, 0, far},
    {"an odd address", BP_ERR_INVALID, "expected a multiple of 4", OFFSET, 1, NULL},
    {"half an element", BP_ERR_INVALID, "expected a multiple of 4", OFFSET, 2, NULL},
    {"an offset that wraps around", BP_ERR_INVALID, "past the end of all", OFFSET, -16, NULL},
    {"the largest offset", BP_ERR_INVALID, "past the end of all", OFFSET, INT64_MAX - 3, NULL},
    {"an older major version", BP_ERR_UNSUPPORTED, "version is 0.0", MAJOR, 0, NULL},
    {"a newer major version", BP_ERR_UNSUPPORTED, "version is 2.0", MAJOR, 2, NULL},
};

static struct bp_dlpack_tensor dlpack_spoilt(enum field field, int64_t number, int64_t *list)
{
    struct bp_dlpack_tensor t = good;

    switch (field) {
    case DATA: t.data = NULL; break;
    case TYPE: t.device.type = (int32_t)number; break;
    case ID: t.device.id = (int32_t)number; break;
    case NDIM: t.ndim = (int32_t)number; break;
    case CODE: t.dtype.code = (uint8_t)number; break;
    case BITS: t.dtype.bits = (uint8_t)number; break;
    case LANES: t.dtype.lanes = (uint16_t)number; break;
    case EXTENTS: t.shape = list; break;
    case STRIDES: t.strides = list; break;
    case OFFSET: t.byte_offset = (uint64_t)number; break;
    case MAJOR: break;
    }
    return t;
}

/* When an import fails, the caller still owns the tensor. */
static unsigned deleted;

static void delete_managed(struct bp_dlpack_managed *self)
{
    (void)self;
    deleted++;
}

static void delete_legacy(struct bp_dlpack_legacy *self)
{
    (void)self;
    deleted++;
}

static void dlpack_prepare(struct world *w)
{
    (void)w;
    managed.tensor = legacy.tensor = good;
}

static void dlpack_more(struct world *w)
{
    deleted = 0;
    for (size_t i = 0; i < COUNT(lent); i++) {
        struct bp_dlpack_tensor t = dlpack_spoilt(lent[i].field, lent[i].number, lent[i].list);
        struct bp_dlpack_managed m = {.version = {BP_DLPACK_MAJOR, 0}, .tensor = t,
                                      .deleter = delete_managed};
        struct bp_dlpack_legacy l = {.tensor = t, .deleter = delete_legacy};
        struct mistake wrong = {"bp_tensor_from_dlpack", lent[i].what, lent[i].status, lent[i].word,
                                {PUT(2, &m)}};
        if (lent[i].field == MAJOR) m.version.major = (uint32_t)lent[i].number;
        mistakes_try(w, &wrong);
        wrong.function = "bp_tensor_from_dlpack_legacy";
        wrong.change[0].v.p = &l;
        if (lent[i].field != MAJOR) mistakes_try(w, &wrong);
    }
    cr_expect_eq(deleted, 0, "a deleter was called %u times, though nothing was taken", deleted);
}

const struct table mistakes_dlpack = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
    .prepare = dlpack_prepare,
    .more = dlpack_more,
};
