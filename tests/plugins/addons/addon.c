/* SPDX-License-Identifier: Apache-2.0 */
/* addon.c: defines add-ons for tests, each with one property of its own. Macros: ADDON_NAME, and
 *   ADDON_TO          the kind that it adds to, else "cpu"
 *   ADDON_STREAM      its stream_type, else "cpu/1"
 *   ADDON_BAD         the property of it that is wrong: see enum addon_bad
 *
 * Operators: acme.Cut cuts a tensor into equal parts (any number of outputs, a gradient rule);
 * acme.Twice is x + x, by a decomposition alone. Its row of relu returns relu(x) + ADDON_MARK, so
 * that a test sees by which row relu ran. */
#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <stdlib.h>
#include <string.h>

#ifndef ADDON_TO
#define ADDON_TO "cpu"
#endif
#ifndef ADDON_STREAM
#define ADDON_STREAM "cpu/1"
#endif
#ifndef ADDON_MARK
#define ADDON_MARK 100
#endif
#ifndef ADDON_PRIORITY
#define ADDON_PRIORITY 100000
#endif

enum addon_bad {
    BAD_none,
    BAD_kind, BAD_runtime, BAD_stream, BAD_empty, BAD_abi, BAD_create, BAD_crash, /* its table */
    BAD_twin, BAD_row, /* its first row */
    BAD_operator, BAD_count, BAD_counted, BAD_rule, BAD_again, BAD_stride, /* operators, rules */
    BAD_result, BAD_tensor, BAD_call, BAD_cycle, BAD_launch, BAD_wrong /* found by a call */
};
#ifndef ADDON_BAD
#define ADDON_BAD BAD_none
#endif
#define IS_BAD(what) (ADDON_BAD == BAD_##what)

/* The instance: its kernels find the mark there. */
struct addon {
    const struct bp_host *host;
    float mark;
};

struct cut_attrs {
    size_t size;
    int64_t parts;
};
static const struct cut_attrs cut_defaults = {sizeof cut_defaults, 2};
static const struct bp_port x_in[] = {{"x", BP_PORT_IN, BP_VAR_T, -1, 0, "the input"}};
static const struct bp_port y_out[] = {{"y", BP_PORT_OUT, BP_VAR_T, -1, 0, "the output"}};
static const struct bp_port parts_out[] = {{"y", BP_PORT_VAROUT, BP_VAR_T, -1, 0, "the parts"}};
static const struct bp_attr cut_attr[] = {
    {"parts", BP_ATTR_I64, BP_ATTR_KEY, 0, 1, 0, 2, "how many"}};

static enum bp_status cut_count(const struct bp_prep *prep, uint32_t *out_count)
{
    const struct cut_attrs *a = prep->attrs;

    if (a->parts < 1 || a->parts > 200) return BP_ERR_INVALID;
    *out_count = (uint32_t)a->parts;
    return BP_OK;
}

static enum bp_status cut_infer(const struct bp_prep *prep, struct bp_inferred *out, uint32_t n_out)
{
    const struct bp_view *x = prep->in[0];

    if (!x->rank || x->shape[0] % n_out) return BP_ERR_INVALID;
    for (uint32_t i = 0; i < n_out; i++) {
        out[i].rank = x->rank;
        memcpy(out[i].extent, x->shape, x->rank * sizeof *x->shape);
        out[i].extent[0] /= n_out;
    }
    return BP_OK;
}

static enum bp_status cut_f32(const struct bp_launch *l)
{
    const float *x = l->in[0]->data;

    for (uint32_t i = 0; i < l->n_out; x += l->out[i++]->count)
        memcpy(l->out[i]->data, x, (size_t)l->out[i]->count * sizeof *x);
    return BP_OK;
}

/* The gradient of x: the gradients of the parts one after the other; zero for those without one. */
static enum bp_status cut_gradient(const struct bp_rule *rule)
{
    struct bp_concat_attrs a = {.size = sizeof a, .axis = 0};
    struct bp_tensor *part[200];
    struct bp_rule_arg arg = {part, rule->n_out};
    struct bp_rule_call call = {.size = sizeof call, .op = "concat", .in = &arg, .n_in = 1,
                                .attrs = &a, .out = &rule->result[0], .n_out = 1};

    for (uint32_t i = 0; i < rule->n_out; i++) {
        const struct bp_view *y = rule->view(rule->ctx, rule->out[i]);
        struct bp_zeros_attrs z = {.size = sizeof z, .shape = {y->shape, y->rank},
                                   .dtype = y->dtype};
        part[i] = rule->dy[i] ? rule->dy[i] : bp_rule_make(rule, "zeros", &z, NULL, 0);
    }
    return rule->call(rule->ctx, &call);
}

static enum bp_status twice_decompose(const struct bp_rule *rule)
{
    struct bp_tensor *in[] = {rule->in[0], rule->in[0]};
    struct bp_cast_attrs to = {.size = sizeof to, .to = BP_F64};
    struct bp_tensor **y = &rule->result[0];

    if (IS_BAD(result)) *y = bp_rule_make(rule, "cast", &to, in, 1);
    else if (IS_BAD(tensor)) *y = (struct bp_tensor *)(void *)in;
    else if (IS_BAD(call)) *y = bp_rule_make(rule, "no_such_operator", NULL, in, 2);
    else if (IS_BAD(cycle)) *y = bp_rule_make(rule, "acme.Twice", NULL, in, 1);
    else *y = bp_rule_make(rule, "add", NULL, in, 2);
    return BP_OK;
}

static const struct bp_operator operators[] = {
    {.infer = cut_infer,
     .info = {.name = "acme.Cut", .doc = "Equal parts.", .in = x_in, .out = parts_out,
              .attr = cut_attr, .defaults = &cut_defaults, .n_in = 1, .n_out = 1, .n_attr = 1,
              .attrs_size = sizeof cut_defaults, .types = {BP_M(F32)}}},
    {.info = {.name = "acme.Twice", .doc = "x + x", .in = x_in, .out = y_out, .n_in = 1,
              .n_out = 1, .types = {IS_BAD(operator) ? BP_M(F32) : BP_MASK_REAL}}},
};
static const struct bp_op_rules rules[] = {
    {"acme.Cut", NULL, cut_gradient, IS_BAD(count) ? NULL : cut_count},
    {IS_BAD(rule) ? "acme.Thrice" : "acme.Twice", twice_decompose, NULL,
     IS_BAD(counted) ? cut_count : NULL},
    {"acme.Twice", twice_decompose, NULL, NULL}, /* once more, if again */
};

static enum bp_status relu_f32(const struct bp_launch *l)
{
    const struct addon *self = l->self;
    const float *x = l->in[0]->data;
    float *y = l->out[0]->data;

    if (IS_BAD(launch)) return BP_ERR_DEVICE;
    for (int64_t i = 0; i < l->out[0]->count; i++) y[i] = (x[i] > 0 ? x[i] : 0) + self->mark;
    return BP_OK;
}

/* 2 x for f64 and i64. */
static enum bp_status twice_wide(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];

    for (int64_t i = 0; i < y->count; i++)
        if (x->dtype == BP_I64) ((int64_t *)y->data)[i] = 2 * ((const int64_t *)x->data)[i];
        else ((double *)y->data)[i] = ((const double *)x->data)[i] * (IS_BAD(wrong) ? 2.00001 : 2);
    return BP_OK;
}

/* A row with a plan: the plan is destroyed with the self that made it. */
static enum bp_status cut_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)prep;
    out->plan = self;
    return BP_OK;
}

static void cut_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    struct addon *addon = self;

    if (plan != self || strcmp(kernel->op, "acme.Cut"))
        bp_log(addon->host, BP_LOG_ERROR, "a plan of another instance");
    bp_log(addon->host, BP_LOG_INFO, "plan destroyed");
}

static const struct bp_kernel rows[] = {
    {BP_OPROW(relu),
     .name = IS_BAD(twin) ? "cpu_relu" : ADDON_NAME "_relu", .types = {BP_M(F32)},
     .flags = BP_KERNEL_DETERMINISTIC | BP_KERNEL_IN_PLACE, .priority = ADDON_PRIORITY,
     .launch = IS_BAD(row) ? NULL : relu_f32},
    {.op = "acme.Cut", .name = ADDON_NAME "_cut", .types = {BP_M(F32)}, .launch = cut_f32,
     .prepare = cut_prepare, .plan_destroy = cut_plan_destroy, .attrs_size = sizeof cut_defaults,
     .in_known = 1, .out_known = 1},
    {BP_OPROW(add), .name = ADDON_NAME "_never", .types = {BP_M(F32)}, .priority = ADDON_PRIORITY,
     .launch = cut_f32},
    {.op = "acme.Twice", .name = ADDON_NAME "_twice", .types = {BP_M(F64) | BP_M(I64)},
     .launch = twice_wide, .in_known = 1, .out_known = 1},
};

/* Returns that the machine lacks what the third row needs. */
static enum bp_status addon_usable(void *self, const struct bp_kernel *kernel)
{
    const struct addon *addon = self;

    if (kernel != &rows[2]) return BP_OK;
    return bp_fail(addon->host, BP_ERR_UNSUPPORTED, "needs a coprocessor");
}

static const struct bp_kernels kernels = {
    .size = sizeof kernels, .first = rows, .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows, .usable = addon_usable,
    .op = operators, .op_count = sizeof operators / sizeof *operators,
    .op_stride = sizeof *operators, .rule = rules, .rule_count = IS_BAD(again) ? 3 : 2,
    .rule_stride = IS_BAD(stride) ? 12 : sizeof *rules,
};

static enum bp_status addon_create(const struct bp_host *host, void **out_self)
{
    struct addon *self = host->allocate(host->ctx, sizeof *self, _Alignof(struct addon));

    if (!self) return bp_fail(host, BP_ERR_MEMORY, "no memory");
    if (IS_BAD(crash)) abort();
    if (IS_BAD(create)) {
        host->release(host->ctx, self, sizeof *self);
        return bp_fail(host, BP_ERR_DEVICE, "the licence has run out");
    }
    *self = (struct addon){host, ADDON_MARK};
    bp_log(host, BP_LOG_INFO, "created");
    *out_self = self;
    return BP_OK;
}

static void addon_destroy(void *instance)
{
    struct addon *self = instance;

    bp_log(self->host, BP_LOG_INFO, "destroyed");
    self->host->release(self->host->ctx, self, sizeof *self);
}

static const struct bp_runtime runtime = {.size = sizeof runtime};
static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = IS_BAD(abi) ? BP_ABI_MAJOR + 1 : BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = ADDON_NAME,
    .version = "1.2.3",
    .kind = IS_BAD(kind) ? "cpu" : NULL,
    .create = addon_create,
    .destroy = addon_destroy,
    .runtime = IS_BAD(runtime) ? &runtime : NULL,
    .kernels = IS_BAD(empty) ? NULL : &kernels,
    .adds_to = ADDON_TO,
    .stream_type = IS_BAD(stream) ? NULL : ADDON_STREAM,
};

BP_EXPORT const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
