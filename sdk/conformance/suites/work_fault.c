/* SPDX-License-Identifier: Apache-2.0 */
/* work_fault.c: launches that fail because an index in their data is out of range, for cases on
 * failures. The device's rows decide which operator and which dtype of indices are used. */
#include "suites.h"
#include "async_fixture.h"
#include <string.h>

enum { N = 64, INDICES = 3 };

/* The shapes of x and of the indices, which select some of the N slices or classes. */
static const struct fails {
    const char *op;
    int x_rank, index_rank;
    int64_t x[2], index[2];
} fails[] = {
    {"gather", 1, 1, {N}, {INDICES}},
    {"index_select", 1, 1, {N}, {INDICES}},
    {"take_along_axis", 1, 1, {N}, {INDICES}},
    {"embedding", 2, 1, {N, 1}, {INDICES}},
    {"index_sample", 2, 2, {1, N}, {1, INDICES}},
    {"gather_nd", 1, 2, {N}, {INDICES, 1}},
    {"cross_entropy", 2, 1, {INDICES, N}, {INDICES}},
    {"nll_loss", 2, 1, {INDICES, N}, {INDICES}},
    {"label_loss", 2, 1, {INDICES, N}, {INDICES}},
};

/* Whether a usable row supports f32 with indices of a dtype that the device can hold. */
static bool has_row(struct bp_device *device, uint64_t held, const char *op, uint32_t index)
{
    struct bp_kernel_info info = {.size = sizeof info};

    if (!(held >> index & 1)) return false;
    for (uint32_t i = 0; !bp_device_kernel(device, i, &info); i++)
        if (!*info.reason && !strcmp(info.op, op) && info.types[BP_VAR_T] >> BP_F32 & 1 &&
            info.types[BP_VAR_I] >> index & 1)
            return true;
    return false;
}

static const struct fails *work_fault_find(struct check *c, uint32_t *out_index)
{
    static const uint32_t dtypes[] = {BP_I64, BP_I32};

    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++)
        for (int d = 0; d < 2; d++)
            if (has_row(c->fixture->device, c->fixture->properties.dtypes, fails[i].op,
                        dtypes[d])) {
                *out_index = dtypes[d];
                return &fails[i];
            }
    return NULL;
}

bool work_fault_init(struct work *w, int stream, struct work_fault *f)
{
    struct bp_tensor_options x = {.size = sizeof x, .dtype = BP_F32},
                             index = {.size = sizeof index};
    float zeros[INDICES * N] = {0};
    const struct fails *how = work_fault_find(w->c, &index.dtype);
    uint64_t bytes;

    *f = (struct work_fault){.op = NULL};
    if (!how) {
        check_unsupported(w->c, "no work of the device can fail: it has no row that takes indices "
                          "(gather, embedding, cross_entropy, ...) for f32 and a dtype of indices "
                          "that it holds");
        return false;
    }
    f->op = how->op;
    f->dtype = index.dtype;
    x.rank = (uint32_t)how->x_rank;
    x.shape = how->x;
    index.rank = (uint32_t)how->index_rank;
    index.shape = how->index;
    bytes = sizeof *zeros * N * (how->x[0] == INDICES ? INDICES : 1);
    return check_ok(w->c, bp_tensor_create_with(w->device, &x, &f->x), "bp_tensor_create_with") &&
           check_ok(w->c, bp_tensor_create_with(w->device, &index, &f->index),
                    "bp_tensor_create_with") &&
           check_ok(w->c, bp_tensor_write(w->stream[stream], f->x, zeros, bytes),
                    "bp_tensor_write") &&
           work_fault_put(w, stream, f, false);
}

bool work_fault_put(struct work *w, int stream, struct work_fault *f, bool bad)
{
    const int64_t wide[INDICES] = {1, bad ? N + 5 : 0, 2};
    const int32_t narrow[INDICES] = {1, bad ? N + 5 : 0, 2};
    const void *data = f->dtype == BP_I64 ? (const void *)wide : narrow;

    return check_ok(w->c,
                    bp_tensor_write(w->stream[stream], f->index, data,
                                    f->dtype == BP_I64 ? sizeof wide : sizeof narrow),
                    "bp_tensor_write");
}

enum bp_status work_fault_call(const struct work_fault *f, struct bp_scope *scope,
                               struct bp_tensor *x, struct bp_tensor *index,
                               struct bp_tensor **out)
{
    struct bp_arg in[2] = {{&x, 1}, {&index, 1}};
    struct bp_call call = {.size = sizeof call, .op = f->op, .in = in, .n_in = 2};

    return bp_call_run(scope, &call, out, 1, NULL);
}

bool work_fault_is(struct check *c, const struct work_fault *f, enum bp_status status,
                   const char *what)
{
    return check_that(c, status == BP_ERR_FAULT,
                      "%s of work with a bad index answered %s, expected BP_ERR_FAULT%s%s", what,
                      bp_status_name(status), status ? ": " : "",
                      status ? bp_error_message() : "") &&
           check_that(c, strstr(bp_error_message(), f->op),
                      "the message of %s does not name the kernel of %s: %s", what, f->op,
                      bp_error_message());
}

void work_fault_finish(struct work_fault *f)
{
    bp_tensor_destroy(f->x);
    bp_tensor_destroy(f->index);
}
