/* SPDX-License-Identifier: Apache-2.0 */
/* blocked.c: wraps the cpu plugin as a device with two layouts of its own and kernels that compute
 * in them (blocked_rows.c). It has no rows of fused operators.
 *
 * Words in BP_BLOCKED spoil one thing: "number" (a row names a layout that does not exist), "twin"
 * (two layouts have one name), "nameless", "sizeless" (a layout has no function), "lost" (c8
 * cannot be converted to strides), "cross" (a row converts from one layout to the other), "narrow"
 * (a row of a view operator has a layout), "stride" (the layouts cannot be walked), "unconverted"
 * (the row that converts to c8 accepts nothing). Of computations: "padding" (a conversion leaves
 * padding as it is, and the convolution reads it), "channels" (elementwise rows have no padding),
 * "small" (an image has too few bytes), "tail" (a conversion forgets the last block), "f64" (rows
 * claim f64 and compute f32), "order" (conversions mirror blocks, which other rows do not),
 * "dense" (a conversion takes all tensors for row-major), "nan" (relu loses NaN), "zero" (a
 * conversion loses the sign of zeros), "sign" (a conversion changes the sign of NaN), "twice"
 * (acme.Twice gives 3 x), "shared" (calls of relu share memory). And "minor" (older cores may load
 * the plugin). */
#include "blocked.h"

#include <backplane/plugin.h>
#include <backplane/runtime.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 1024
};

static struct bp_plugin plugin;
static struct bp_runtime runtime;
static struct bp_kernels kernels;
static struct bp_layout layouts[BLOCKED_LAYOUTS];
static struct bp_kernel row[ROWS];
static const struct bp_kernel *of_cpu[ROWS]; /* the cpu's row under which a row runs, or NULL */
static const struct bp_runtime *cpu;
static const struct bp_kernels *cpu_kernels;

bool blocked_is(const char *word)
{
    const char *words = getenv("BP_BLOCKED");

    return words && !strcmp(words, word);
}

static const struct bp_kernel *blocked_original(const struct bp_kernel *kernel)
{
    return of_cpu[kernel - row];
}

static enum bp_status wrapped_launch(const struct bp_launch *l)
{
    struct bp_launch own = *l;

    own.kernel = blocked_original(l->kernel);
    return own.kernel->launch(&own);
}

static enum bp_status wrapped_accepts(void *self, const struct bp_prep *prep)
{
    struct bp_prep own = *prep;

    own.kernel = blocked_original(prep->kernel);
    return own.kernel->accepts(self, &own);
}

static enum bp_status wrapped_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct bp_prep own = *prep;

    own.kernel = blocked_original(prep->kernel);
    return own.kernel->prepare(self, &own, out);
}

static void wrapped_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    blocked_original(kernel)->plan_destroy(self, blocked_original(kernel), plan);
}

static enum bp_status blocked_usable(void *self, const struct bp_kernel *kernel)
{
    const struct bp_kernel *k = blocked_original(kernel);

    return k ? cpu_kernels->usable(self, k) : BP_OK;
}

static enum bp_status blocked_properties(void *self, uint32_t device,
                                         struct bp_device_properties *out)
{
    enum bp_status status = cpu->device_properties(self, device, out);

    out->images = BP_IMAGES_ROW_MAJOR;
    return status;
}

static size_t add_cpu_rows(size_t n)
{
    for (size_t i = 0; i < cpu_kernels->count && n < ROWS; i++) {
        const struct bp_kernel *k = &cpu_kernels->first[i];
        if (!strncmp(k->op, "fused", 5)) continue;
        row[n] = *k;
        of_cpu[n] = k;
        row[n].launch = wrapped_launch;
        if (k->accepts) row[n].accepts = wrapped_accepts;
        if (k->prepare) row[n].prepare = wrapped_prepare;
        if (k->plan_destroy) row[n].plan_destroy = wrapped_destroy;
        n++;
    }
    return n;
}

static size_t add_own_rows(size_t n)
{
    for (size_t i = 0; i < blocked_row_count && n < ROWS; i++) {
        row[n] = blocked_row[i];
        if (blocked_is("lost") && !strcmp(row[n].name, "blocked_from_c8")) continue;
        n += blocked_row_is_wanted(&row[n]);
    }
    return n;
}

/* acme.Twice: an operator of the plugin's own. */
static enum bp_status twice_decompose(const struct bp_rule *rule)
{
    struct bp_tensor *in[] = {rule->in[0], rule->in[0]};

    rule->result[0] = bp_rule_make(rule, "add", NULL, in, 2);
    return BP_OK;
}

static const struct bp_port twice_x[] = {{"x", BP_PORT_IN, BP_VAR_T, -1, 0, "the input"}};
static const struct bp_port twice_y[] = {{"y", BP_PORT_OUT, BP_VAR_T, -1, 0, "the output"}};
static const struct bp_operator operators[] = {
    {.info = {.name = "acme.Twice",
              .doc = "x + x",
              .in = twice_x,
              .out = twice_y,
              .n_in = 1,
              .n_out = 1,
              .types = {BP_MASK_REAL}}},
};
static const struct bp_op_rules rules[] = {{"acme.Twice", twice_decompose, NULL, NULL}};

static void set_kernels(void)
{
    memcpy(layouts, blocked_layout, sizeof layouts);
    if (blocked_is("twin")) layouts[1].name = layouts[0].name;
    if (blocked_is("nameless")) layouts[0].name = "c 8";
    if (blocked_is("sizeless")) layouts[0].bytes = NULL;
    kernels = (struct bp_kernels){.size = sizeof kernels,
                                  .first = row,
                                  .count = add_own_rows(add_cpu_rows(0)),
                                  .stride = sizeof *row,
                                  .usable = blocked_usable,
                                  .op = operators,
                                  .op_count = 1,
                                  .op_stride = sizeof *operators,
                                  .rule = rules,
                                  .rule_count = 1,
                                  .rule_stride = sizeof *rules,
                                  .layout = layouts,
                                  .layout_count = BLOCKED_LAYOUTS,
                                  .layout_stride = sizeof *layouts};
    if (blocked_is("stride")) kernels.layout_stride = 4;
}

const struct bp_plugin *bp_plugin_get(void)
{
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    plugin = *get();
    cpu = plugin.runtime;
    cpu_kernels = plugin.kernels;
    runtime = *cpu;
    runtime.device_properties = blocked_properties;
    set_kernels();
    plugin.name = plugin.kind = "blocked";
    plugin.runtime = &runtime;
    plugin.kernels = &kernels;
    plugin.needs_minor = blocked_is("minor") ? 5 : 10;
    return &plugin;
}
