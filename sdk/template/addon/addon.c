/* SPDX-License-Identifier: Apache-2.0 */
/* addon.c: is a complete add-on, to be copied: a plugin without a device, which brings an operator
 * with its gradient, a kernel row for the cpu plugin of Backplane, and a pass.
 *
 * addon.SquarePlus is a smooth relu: y = (x + sqrt(x x + b)) / 2. Its decomposition runs on every
 * device and for every float; the kernel row runs f32 on the cpu. */
#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/passes.h>
#include <backplane/plugin.h>
#include <math.h>
#include <stddef.h>

struct addon_self {
    const struct bp_host *host;
};

/* ---- the operator ---- */

struct square_plus_attrs {
    size_t size;
    double b;
};
static const struct square_plus_attrs defaults = {sizeof defaults, 4};
static const struct bp_port in[] = {{"x", BP_PORT_IN, BP_VAR_T, -1, 0, "the input"}};
static const struct bp_port out[] = {{"y", BP_PORT_OUT, BP_VAR_T, 0, 0, "the output"}};
static const struct bp_attr attrs[] = {
    {"b", BP_ATTR_F64, BP_ATTR_KEY, 0, 1, 0, 4, "how round the bend at 0 is"}};
static const struct bp_operator operators[] = {
    {.info = {.name = "addon.SquarePlus", .doc = "A smooth relu.", .in = in, .out = out,
              .attr = attrs, .defaults = &defaults, .n_in = 1, .n_out = 1, .n_attr = 1,
              .attrs_size = sizeof defaults, .types = {BP_MASK_FLOAT}}},
};

#define MAKE(rule, op, attrs, ...) \
    bp_rule_make(rule, op, attrs, (struct bp_tensor *[]){__VA_ARGS__}, \
                 sizeof((struct bp_tensor *[]){__VA_ARGS__}) / sizeof(struct bp_tensor *))

/* Returns sqrt(x x + b). */
static struct bp_tensor *make_root(const struct bp_rule *rule)
{
    const struct square_plus_attrs *a = rule->attrs;
    struct bp_scale_attrs plus_b = {.size = sizeof plus_b, .factor = 1, .bias = a->b};
    struct bp_tensor *x = rule->in[0];

    return MAKE(rule, "sqrt", NULL, MAKE(rule, "scale", &plus_b, MAKE(rule, "mul", NULL, x, x)));
}

static enum bp_status square_plus_decompose(const struct bp_rule *rule)
{
    struct bp_scale_attrs half = {.size = sizeof half, .factor = 0.5};
    struct bp_tensor *sum = MAKE(rule, "add", NULL, rule->in[0], make_root(rule));

    rule->result[0] = MAKE(rule, "scale", &half, sum);
    return BP_OK;
}

/* dx = dy (x / root + 1) / 2 */
static enum bp_status square_plus_gradient(const struct bp_rule *rule)
{
    struct bp_scale_attrs half = {.size = sizeof half, .factor = 0.5, .bias = 0.5};
    struct bp_tensor *slope = MAKE(rule, "div", NULL, rule->in[0], make_root(rule));

    rule->result[0] = MAKE(rule, "mul", NULL, rule->dy[0], MAKE(rule, "scale", &half, slope));
    return BP_OK;
}

static const struct bp_op_rules rules[] = {
    {"addon.SquarePlus", square_plus_decompose, square_plus_gradient, NULL},
};

/* ---- the kernel row: "cpu/1" says that work is done in the call, at addresses of the host ---- */

static enum bp_status square_plus_f32(const struct bp_launch *launch)
{
    const struct square_plus_attrs *a = launch->attrs;
    const float *x = launch->in[0]->data;
    float *y = launch->out[0]->data;

    for (int64_t i = 0; i < launch->out[0]->count; i++) {
        double v = x[i];
        y[i] = (float)((v + sqrt(v * v + a->b)) / 2);
    }
    return BP_OK;
}

static const struct bp_kernel rows[] = {
    {.op = "addon.SquarePlus", .name = "addon_square_plus_f32", .types = {BP_M(F32)},
     .flags = BP_KERNEL_DETERMINISTIC | BP_KERNEL_IN_PLACE, .launch = square_plus_f32,
     .attrs_size = sizeof defaults, .in_known = 1, .out_known = 1},
};
static const struct bp_kernels kernels = {
    .size = sizeof kernels, .first = rows, .count = 1, .stride = sizeof *rows,
    .op = operators, .op_count = 1, .op_stride = sizeof *operators,
    .rule = rules, .rule_count = 1, .rule_stride = sizeof *rules,
};

/* ---- the pass: programs that compute x + sqrt(x x + b), halved, call the operator ---- */

/* Values: 0 is x, 1 x x, 2 that plus b, 3 its root, 4 the sum, 5 the result. */
static const struct bp_want_value values[6] = {{.dtypes = BP_M(F32)}};
static const struct bp_want_attr any_bias = {.name = "bias", .test = BP_TEST_ANY};
static const struct bp_want_attr half = {.name = "factor", .test = BP_TEST_IS, .value = 0.5};
static const struct bp_want_node find[] = {
    {.op = "mul", .in = (const int16_t[]){0, 0}, .n_in = 2, .out = (const int16_t[]){1},
     .n_out = 1},
    {.op = "scale", .in = (const int16_t[]){1}, .n_in = 1, .out = (const int16_t[]){2}, .n_out = 1,
     .attr = &any_bias, .n_attr = 1, .attr_stride = sizeof any_bias},
    {.op = "sqrt", .in = (const int16_t[]){2}, .n_in = 1, .out = (const int16_t[]){3}, .n_out = 1},
    {.op = "add", .in = (const int16_t[]){0, 3}, .n_in = 2, .out = (const int16_t[]){4},
     .n_out = 1},
    {.op = "scale", .in = (const int16_t[]){4}, .n_in = 1, .out = (const int16_t[]){5}, .n_out = 1,
     .attr = &half, .n_attr = 1, .attr_stride = sizeof half},
};
static const struct bp_give_attr b = {.name = "b", .from = BP_GIVE_ATTR, .other = "bias", .of = 1};
static const struct bp_give_node give = {
    .op = "addon.SquarePlus", .in = (const int16_t[]){0}, .n_in = 1, .out = (const int16_t[]){5},
    .n_out = 1, .attr = &b, .n_attr = 1, .attr_stride = sizeof b};
static const struct bp_pattern pattern = {
    .name = "square_plus", .priority = 98, .value = values, .n_value = 6,
    .value_stride = sizeof *values, .node = find, .n_node = 5, .node_stride = sizeof *find,
    .give = &give, .n_give = 1, .give_stride = sizeof give, .out = (const int16_t[]){5},
    .n_out = 1};
static const struct bp_passes passes = {
    .size = sizeof passes, .first = &pattern, .count = 1, .stride = sizeof pattern};

/* ---- the instance ---- */

static enum bp_status addon_create(const struct bp_host *host, void **out_self)
{
    struct addon_self *self = host->allocate(host->ctx, sizeof *self, _Alignof(max_align_t));

    if (!self) return bp_fail(host, BP_ERR_MEMORY, "addon: no memory for an instance");
    *self = (struct addon_self){host};
    *out_self = self;
    return BP_OK;
}

static void addon_destroy(void *instance)
{
    struct addon_self *self = instance;

    self->host->release(self->host->ctx, self, sizeof *self);
}

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR, .abi_minor = BP_ABI_MINOR, .build = BP_BUILD_FLAGS,
    .name = "addon", .version = "0.1.0", .create = addon_create, .destroy = addon_destroy,
    .kernels = &kernels, .passes = &passes, .adds_to = "cpu", .stream_type = "cpu/1",
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
