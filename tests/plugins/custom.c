/* SPDX-License-Identifier: Apache-2.0 */
/* custom.c: a device with an operator of its own, "acme.Repeat", and no other row: how a vendor
 * does it. y is x times a factor, n times one after the other along the last axis.
 *
 * CUSTOM_BAD makes something wrong with it. */
#include "plain_memory.h"
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <string.h>

#ifndef CUSTOM_BAD
#define CUSTOM_BAD ""
#endif

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    (void)self, (void)device;
    strcpy(out->name, "a device with an operator of its own");
    out->dtypes = BP_MASK_ANY;
    out->alignment = 64;
    out->flags = BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE;
    return BP_OK;
}

/* size, then the attributes in their order. */
struct repeat_attrs {
    size_t size;
    int64_t times;
    double factor;
};
static const struct repeat_attrs repeat_defaults = {sizeof repeat_defaults, 1, 1};

static struct bp_port in[] = {{"x", BP_PORT_IN, BP_VAR_T, -1, 0, "what is repeated"}},
                      out[] = {{"y", BP_PORT_OUT, BP_VAR_T, -1, 0, "all of it"}};
static struct bp_attr attr[] = {
    {"times", BP_ATTR_I64, BP_ATTR_KEY, 0, 1, 0, 1, "how often"},
    {"factor", BP_ATTR_F64, BP_ATTR_RUN, 0, 1, 0, 1, "by which each element is multiplied"},
};

static enum bp_status infer(const struct bp_prep *prep, struct bp_inferred *y, uint32_t n_out)
{
    const struct repeat_attrs *a = prep->attrs;
    const struct bp_view *x = prep->in[0];

    if (n_out != 1 || !x->rank || a->times < 1) return BP_ERR_INVALID;
    y->rank = strcmp(CUSTOM_BAD, "rank") ? x->rank : 9;
    memcpy(y->extent, x->shape, x->rank * sizeof *x->shape);
    y->extent[x->rank - 1] *= a->times;
    return BP_OK;
}

static enum bp_status repeat(const struct bp_launch *l)
{
    const struct repeat_attrs *a = l->attrs;
    const struct bp_view *x = l->in[0];
    int64_t n = x->shape[x->rank - 1];
    const float *from = x->data;
    float *to = l->out[0]->data;

    for (int64_t row = 0; row < (n ? x->count / n : 0); row++, from += n)
        for (int64_t t = 0; t < a->times; t++)
            for (int64_t i = 0; i < n; i++) *to++ = (float)(a->factor * (double)from[i]);
    return BP_OK;
}

static struct bp_operator operators[] = {
    {.infer = infer,
     .info = {.name = "acme.Repeat", .doc = "x, several times", .in = in, .out = out, .attr = attr,
              .defaults = &repeat_defaults, .n_in = 1, .n_out = 1, .n_attr = 2,
              .attrs_size = sizeof repeat_defaults, .types = {BP_M(F32)}}},
};
static const struct bp_kernel row = {
    .op = "acme.Repeat", .name = "acme_repeat_f32", .types = {BP_M(F32)},
    .flags = BP_KERNEL_DETERMINISTIC, .attrs_size = sizeof(struct repeat_attrs), .in_known = 1,
    .out_known = 1, .launch = repeat,
};

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    (void)host;
    *out_self = operators;
    return BP_OK;
}

static void destroy(void *self)
{
    (void)self;
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .copy_in = copy,
    .copy_out = copy,
    .copy_within = copy,
    .synchronize = synchronize,
};
static struct bp_kernels kernels = {
    .size = sizeof kernels, .first = &row, .count = 1, .stride = sizeof row,
    .op = operators, .op_count = 1, .op_stride = sizeof *operators,
};
static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = CUSTOM_NAME,
    .version = "0.1.0",
    .kind = CUSTOM_NAME,
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
    .kernels = &kernels,
};

static void __attribute__((constructor)) spoil(void)
{
#define IS(word) !strcmp(CUSTOM_BAD, word)
    if (IS("name")) operators[0].info.name = "Repeat";
    if (IS("dots")) operators[0].info.name = "acme..Repeat";
    if (IS("outputs")) operators[0].info.n_out = 0;
    if (IS("size")) operators[0].info.attrs_size = 8;
    if (IS("kind")) in[0].kind = BP_PORT_HOST;
    if (IS("dtypes")) operators[0].info.types[0] = 0;
    if (IS("share")) out[0].share = 3;
    if (IS("attribute")) attr[0].kind = 77;
    if (IS("flags")) operators[0].info.flags = BP_OP_RANDOM;
    if (IS("stride")) kernels.op_stride = 12;
    if (IS("other")) attr[0].name = "often";
    if (IS("rank")) operators[0].info.name = "acme.Wrong";
#undef IS
}

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
