/* SPDX-License-Identifier: Apache-2.0 */
/* patterned.c: wraps the cpu plugin as a device with patterns and two operators of its own. With
 * BP_PATTERNED=lies it has patterns that are wrong. */
#include "patterned.h"

#include <backplane/kernel.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows of the cpu plugin, which finds the number of a row by its address ---- */

struct wrapped {
    struct bp_kernel kernel;
    const struct bp_kernel *from; /* NULL: a row of this plugin */
};

static const struct bp_kernel *kernel_unwrap(const struct bp_kernel *kernel)
{
    return ((const struct wrapped *)(const void *)kernel)->from;
}

static enum bp_status patterned_launch(const struct bp_launch *l)
{
    struct bp_launch copy = *l;

    copy.kernel = kernel_unwrap(l->kernel);
    return copy.kernel->launch(&copy);
}

static enum bp_status patterned_row_accepts(void *self, const struct bp_prep *prep)
{
    struct bp_prep copy = *prep;

    copy.kernel = kernel_unwrap(prep->kernel);
    return copy.kernel->accepts(self, &copy);
}

static enum bp_status patterned_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct bp_prep copy = *prep;

    copy.kernel = kernel_unwrap(prep->kernel);
    return copy.kernel->prepare(self, &copy, out);
}

static void patterned_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    kernel_unwrap(kernel)->plan_destroy(self, kernel_unwrap(kernel), plan);
}

static const struct bp_kernels *cpu;

static enum bp_status patterned_usable(void *self, const struct bp_kernel *kernel)
{
    return kernel_unwrap(kernel) && cpu->usable ? cpu->usable(self, kernel_unwrap(kernel)) : BP_OK;
}

static void kernel_wrap(struct wrapped *to, const struct bp_kernel *from)
{
    *to = (struct wrapped){*from, from};
    to->kernel.launch = patterned_launch;
    if (from->accepts) to->kernel.accepts = patterned_row_accepts;
    if (from->prepare) to->kernel.prepare = patterned_prepare;
    if (from->plan_destroy) to->kernel.plan_destroy = patterned_plan_destroy;
}

/* ---- own operators ---- */

struct axpy_attrs {
    size_t size;
    double alpha;
};

static enum bp_status axpy_run(const struct bp_launch *l)
{
    const float alpha = (float)((const struct axpy_attrs *)l->attrs)->alpha;
    const float *x = l->in[0]->data, *y = l->in[1]->data;
    float *z = l->out[0]->data;

    for (int64_t i = 0; i < l->out[0]->count; i++) z[i] = alpha * x[i] + y[i];
    return BP_OK;
}

static enum bp_status pair_run(const struct bp_launch *l)
{
    const float *x = l->in[0]->data;

    for (int64_t i = 0; i < l->in[0]->count; i++) {
        if (l->out[0]) ((float *)l->out[0]->data)[i] = -x[i];
        if (l->out[1]) ((float *)l->out[1]->data)[i] = expf(x[i]);
    }
    return BP_OK;
}

/* Broadcasts nothing. */
static enum bp_status axpy_infer(const struct bp_prep *prep, struct bp_inferred *out, uint32_t n)
{
    const struct bp_view *x = prep->in[0], *y = prep->in[1];

    if (n != 1 || x->rank != y->rank || memcmp(x->shape, y->shape, x->rank * sizeof *x->shape))
        return BP_ERR_INVALID;
    out->rank = x->rank;
    memcpy(out->extent, x->shape, x->rank * sizeof *x->shape);
    return BP_OK;
}

static const struct axpy_attrs axpy_defaults = {sizeof axpy_defaults, 1};
static const struct bp_port in[] = {{"x", BP_PORT_IN, BP_VAR_T, -1, 0, "the first input"},
                                    {"y", BP_PORT_IN, BP_VAR_T, -1, 0, "the second input"}},
                            out[] = {{"z", BP_PORT_OUT, BP_VAR_T, -1, 0, "the first output"},
                                     {"u", BP_PORT_OPTOUT, BP_VAR_T, -1, 0, "the second output"}};
static const struct bp_attr alpha = {"alpha", BP_ATTR_F64, BP_ATTR_RUN, 0, 1, 0, 1, "of x"};

#define FLOATS (BP_M(F32) | BP_M(F64))
static const struct bp_operator operators[] = {
    {axpy_infer,
     {.name = "patterned.axpy",
      .doc = "z = alpha x + y",
      .in = in,
      .out = out,
      .attr = &alpha,
      .defaults = &axpy_defaults,
      .n_in = 2,
      .n_out = 1,
      .n_attr = 1,
      .attrs_size = sizeof(struct axpy_attrs),
      .types = {FLOATS}}},
    {NULL,
     {.name = "patterned.pair",
      .doc = "z = -x, u = exp(x)",
      .in = in,
      .out = out,
      .n_in = 1,
      .n_out = 2,
      .types = {FLOATS}}},
};

static const struct bp_kernel own[] = {
    {.op = "patterned.axpy",
     .name = "patterned_axpy_f32",
     .types = {BP_M(F32)},
     .attrs_size = sizeof(struct axpy_attrs),
     .in_known = 2,
     .out_known = 1,
     .launch = axpy_run},
    {.op = "patterned.pair",
     .name = "patterned_pair_f32",
     .types = {BP_M(F32)},
     .in_known = 1,
     .out_known = 2,
     .launch = pair_run},
};
enum {
    OWN = sizeof own / sizeof *own
};

const struct bp_plugin *bp_plugin_get(void)
{
    static struct bp_plugin plugin;
    static struct bp_kernels kernels;
    static struct bp_passes passes;
    static struct wrapped *rows;
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);
    const char *lies = getenv("BP_PATTERNED");

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    plugin = *get();
    cpu = plugin.kernels;
    if (!rows) rows = calloc(cpu->count + OWN, sizeof *rows);
    if (!rows) return NULL;
    for (size_t i = 0; i < cpu->count; i++)
        kernel_wrap(&rows[i], (const void *)((const char *)cpu->first + i * cpu->stride));
    for (size_t i = 0; i < OWN; i++) rows[cpu->count + i] = (struct wrapped){own[i], NULL};
    kernels = (struct bp_kernels){sizeof kernels,
                                  &rows->kernel,
                                  cpu->count + OWN,
                                  sizeof *rows,
                                  patterned_usable,
                                  operators,
                                  sizeof operators / sizeof *operators,
                                  sizeof *operators};
    plugin.name = plugin.kind = "patterned";
    plugin.kernels = &kernels;
    passes = lies && !strcmp(lies, "lies") ? patterned_lies : patterned_passes;
    passes.rewrite = patterned_rewrite;
    passes.rewrite_priority = 65;
    plugin.passes = &passes;
    return &plugin;
}
