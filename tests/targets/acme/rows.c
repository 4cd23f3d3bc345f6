/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: makes the kernel rows from rows.def, and calls their functions. */
#include "acme.h"
#include <kit/invoke.h>
#include <string.h>

enum {
    ACME_WORD,
    TENSORS = 4
};

static enum bp_status row_launch(const struct bp_launch *launch);
static enum bp_status row_accepts(void *self, const struct bp_prep *prep);

static const struct bp_kernel kernels[] = {
#define ROW(operator, T, U, I, function, ...) \
    {BP_OPROW(operator),   .name = "acme_" #operator, .types = {T, U, I}, \
     .priority = 100,      .flags = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC, \
     .launch = row_launch, .accepts = row_accepts},
#include "rows.def"
};

/* The calls of the rows, in the same order. */
static const struct kit_row rows[] = {
#define ROW(operator, T, U, I, function, ...) \
    {.functions = function, \
     .arg = (const struct kit_arg[]){__VA_ARGS__}, \
     .n = sizeof((const struct kit_arg[]){__VA_ARGS__}) / sizeof(struct kit_arg)},
#include "rows.def"
};

/* Acme's numbers of dtypes, from 1. */
static const uint8_t dtypes[BP_F64 + 1] = {
    [BP_F32] = 1, [BP_F16] = 2, [BP_BF16] = 3, [BP_I32] = 4, [BP_I64] = 5, [BP_BOOL] = 6};

/* The ABI does not limit the rank of tensors, but Acme does. */
static enum bp_status row_accepts(void *self, const struct bp_prep *prep)
{
    bool fits = true;

    (void)self;
    for (uint32_t i = 0; i < prep->n_in; i++) fits &= prep->in[i]->rank <= ACME_AXES;
    return fits && prep->out[0]->rank <= ACME_AXES ? BP_OK : BP_ERR_UNSUPPORTED;
}

/* The data to which the arguments of one call point. */
struct values {
    struct acme_tensor tensor[TENSORS];
    int64_t ints[KIT_INTS_MAX];
    uint32_t n_tensor;
};

static struct acme_tensor *row_tensor(struct values *values, const struct bp_view *view)
{
    struct acme_tensor *t = &values->tensor[values->n_tensor++];

    *t = (struct acme_tensor){view->data, dtypes[view->dtype], view->rank, {0}, {0}};
    if (view->rank) {
        memcpy(t->shape, view->shape, view->rank * sizeof *t->shape);
        memcpy(t->stride, view->stride, view->rank * sizeof *t->stride);
    }
    return t;
}

static void row_add(struct kit_invocation *call, struct values *values, const struct kit_build *b,
                    const struct kit_arg *arg)
{
    switch (arg->as) {
    case KIT_AS_TENSOR: kit_invoke_pointer(call, row_tensor(values, kit_arg_view(b, arg))); break;
    case KIT_AS_ARRAY:
        kit_invoke_pointer(call, values->ints);
        kit_invoke_word(call, kit_arg_ints(b, arg, values->ints));
        break;
    default: kit_invoke_word(call, kit_arg_int(b, arg)); break;
    }
}

static enum bp_status row_launch(const struct bp_launch *launch)
{
    const struct kit_row *row = &rows[launch->kernel - kernels];
    struct acme_stream *stream = launch->stream;
    struct kit_invocation call = {.n_word = 0};
    struct values values = {.n_tensor = 0};
    KIT_CONTEXT caller = {NULL};
    struct acme_device *device;
    struct kit_build b;

    if (!launch->out[0]->count) return BP_OK;
    TRY(acme_use(launch->self, launch->device, &caller, &device));
    kit_build_launch(&b, launch);
    kit_invoke_pointer(&call, stream->raw);
    for (uint32_t i = 0; i < row->n; i++) {
        if (row->arg[i].from == KIT_FROM_OWN) /* the word for bad indices */
            kit_invoke_pointer(&call,
                               &stream->words[kit_fault_take(&stream->kit, launch->kernel->name)]);
        else row_add(&call, &values, &b, &row->arg[i]);
    }
    return acme_check(device, row->functions,
                      kit_invoke(acme_function(device->acme, row->functions), &call));
}

static bool row_exists(void *acme, const char *function)
{
    return acme_function(acme, function) != NULL;
}

/* A library that is older than the row: the row is left out, and `bp info acme` says why. */
static enum bp_status row_usable(void *self, const struct bp_kernel *kernel)
{
    const struct bp_host *host = ((struct acme *)self)->host;
    char missing[64];

    if (!kit_invoke_works())
        return bp_fail(host, BP_ERR_UNSUPPORTED, "kit/invoke.h does not know this processor");
    if (kit_row_has(&rows[kernel - kernels], row_exists, self, missing)) return BP_OK;
    return bp_fail(host, BP_ERR_UNSUPPORTED, "libacme.so.2 has no function %s", missing);
}

const struct bp_kernels acme_kernels = {
    .size = sizeof acme_kernels,
    .first = kernels,
    .count = sizeof kernels / sizeof *kernels,
    .stride = sizeof *kernels,
    .usable = row_usable,
};
