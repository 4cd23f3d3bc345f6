/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: computes operators by the rows of the portable kernels, on the calling thread. */
#include "rows.h"
#include "compiled.h"
#include <dialect/portable.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The views of a call; contiguous copies of tensors that the row does not take by strides. */
struct views {
    struct bp_view view[2 * BASE_TENSORS];
    const struct bp_view *in[BASE_TENSORS], *out[BASE_TENSORS];
    struct base_tensor dense[2 * BASE_TENSORS];
    uint16_t in_at[BASE_TENSORS + 1], out_at[BASE_TENSORS + 1];
};

/* The function of an entry. A table of those found before is faster than their names. */
static sim_entry *rows_entry(enum portable_family family, int entry, enum portable_type type)
{
    static sim_entry *_Atomic known[PORTABLE_ENTRIES][PORTABLE_TYPES_COUNT];
    int number = portable_entry_number(family, entry);
    const struct sim_image *image;
    sim_entry *found = known[number][type];
    char name[128];
    size_t k;

    if (found) return found;
    snprintf(name, sizeof name, "bp_%s_%s", portable_entry_name(family, entry),
             portable_type_name(type));
    image = standin_compiled(name, &k);
    if (!image) return NULL;
    found = image->entry[k];
    known[number][type] = found;
    return found;
}

enum bp_status portable_run(const struct bp_launch *launch, const struct portable *p)
{
    sim_entry *entry = rows_entry(p->family, p->entry, p->type);
    void *operand[PORTABLE_OPERANDS];

    (void)launch;
    if (p->count <= 0) return BP_OK;
    if (!entry) return BP_ERR_UNSUPPORTED;
    for (int i = 0; i < p->n_operand; i++) operand[i] = p->operand[i].data;
    entry(p->args, operand, 0, p->count);
    return BP_OK;
}

int portable_has_blocks(void *self, uint32_t device)
{
    (void)self, (void)device;
    return 0;
}

/* Whether a row takes these types; BASE_ABSENT stands for a variable that the operator lacks. */
static bool row_takes(const struct bp_kernel *row, const uint32_t type[4])
{
    for (int i = 0; i < 4; i++)
        if (type[i] != BASE_ABSENT && row->types[i] && !(row->types[i] >> type[i] & 1))
            return false;
    return true;
}

static const struct bp_kernel *row_next(const char *op, const uint32_t type[4],
                                        const struct bp_kernel *after)
{
    const struct bp_kernel *end = portable_rows.first + portable_rows.count;

    for (const struct bp_kernel *row = after ? after + 1 : portable_rows.first; row < end; row++)
        if (!strcmp(row->op, op) && row_takes(row, type)) return row;
    return NULL;
}

bool base_computes(const char *op, const uint32_t type[4])
{
    return row_next(op, type, NULL) != NULL;
}

size_t base_dtype_size(uint32_t dtype)
{
    return (size_t)portable_bytes(dtype);
}

int64_t base_tensor_count(const struct base_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

bool base_tensor_is_contiguous(const struct base_tensor *t)
{
    int64_t n = 1;

    for (int i = t->rank; i-- > 0;) {
        if (t->shape[i] != 1 && t->stride[i] != n) return false;
        n *= t->shape[i];
    }
    return true;
}

struct base_tensor base_tensor_of(void *data, uint32_t dtype, int rank, const int64_t *shape)
{
    struct base_tensor t = {.data = data, .dtype = dtype, .rank = rank};
    int64_t n = 1;

    for (int i = rank; i-- > 0;) {
        t.shape[i] = shape[i];
        t.stride[i] = n;
        n *= shape[i];
    }
    return t;
}

void base_tensor_copy(const struct base_tensor *from, const struct base_tensor *to)
{
    size_t size = base_dtype_size(from->dtype);
    int64_t n = base_tensor_count(from), at[BASE_RANK] = {0}, a = 0, b = 0;

    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)to->data + (size_t)b * size, (const char *)from->data + (size_t)a * size,
               size);
        for (int k = from->rank; k-- > 0;) {
            a += from->stride[k];
            b += to->stride[k];
            if (++at[k] < from->shape[k]) break;
            a -= at[k] * from->stride[k];
            b -= at[k] * to->stride[k];
            at[k] = 0;
        }
    }
}

/* Fills a view; *dense is a contiguous copy if the row needs one. */
static int view_fill(const struct bp_kernel *row, const struct base_tensor *t, bool is_input,
                     struct bp_view *view, struct base_tensor *dense)
{
    bool is_dense = base_tensor_is_contiguous(t);

    *dense = *t;
    if (!is_dense && !(row->flags & BP_KERNEL_STRIDED)) {
        size_t size = (size_t)base_tensor_count(t) * base_dtype_size(t->dtype);
        *dense = base_tensor_of(malloc(size + 64), t->dtype, t->rank, t->shape);
        if (!dense->data) return BASE_NO_MEMORY;
        if (is_input) base_tensor_copy(t, dense);
        is_dense = true;
    }
    *view = (struct bp_view){.data = dense->data,
                             .shape = dense->shape,
                             .stride = dense->stride,
                             .count = base_tensor_count(t),
                             .dtype = (uint8_t)t->dtype,
                             .rank = (uint8_t)t->rank,
                             .flags = is_dense ? 0 : BP_VIEW_STRIDED};
    return BASE_OK;
}

/* Frees the copies; those of outputs are written back before, if the row has run. */
static void views_finish(struct views *v, const struct base_call *call, bool ran)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] && v->dense[i].data != call->in[i]->data) free(v->dense[i].data);
    for (int i = 0; i < call->n_out; i++) {
        struct base_tensor *dense = &v->dense[BASE_TENSORS + i];
        if (!call->out[i] || dense->data == call->out[i]->data) continue;
        if (ran) base_tensor_copy(dense, call->out[i]);
        free(dense->data);
    }
}

/* Tensors that the call leaves out at the end are absent. */
static int rows_most(int n, int known)
{
    return n > known ? n : known;
}

static int views_init(struct views *v, const struct bp_kernel *row, const struct base_call *call)
{
    int code = BASE_OK;

    memset(v, 0, sizeof *v);
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) continue;
        if (!code) code = view_fill(row, call->in[i], true, &v->view[i], &v->dense[i]);
        else v->dense[i].data = call->in[i]->data;
        v->in[i] = &v->view[i];
    }
    for (int i = 0; i < call->n_out; i++) {
        int k = BASE_TENSORS + i;
        if (!call->out[i]) continue;
        if (!code) code = view_fill(row, call->out[i], true, &v->view[k], &v->dense[k]);
        else v->dense[k].data = call->out[i]->data;
        v->out[i] = &v->view[k];
    }
    for (int i = 0; i <= BASE_TENSORS; i++) v->in_at[i] = v->out_at[i] = (uint16_t)i;
    v->in_at[row->in_known] = (uint16_t)rows_most(call->n_in, row->in_known);
    v->out_at[row->out_known] = (uint16_t)rows_most(call->n_out, row->out_known);
    return code;
}

static int code_of(enum bp_status status, uint32_t fault)
{
    if (status == BP_ERR_UNSUPPORTED) return BASE_NO_KERNEL;
    if (status) return BASE_BAD;
    return fault ? BASE_FAULT : BASE_OK;
}

/* Prepares and launches a row. BASE_NO_KERNEL: it does not take the call. */
static int row_run(const struct bp_kernel *row, const struct base_call *call, const struct views *v)
{
    struct bp_prep prep = {.size = sizeof prep,
                           .kernel = row,
                           .in = v->in,
                           .out = v->out,
                           .in_at = v->in_at,
                           .out_at = v->out_at,
                           .n_in = v->in_at[row->in_known],
                           .n_out = v->out_at[row->out_known],
                           .attrs = call->attrs,
                           .width = 1};
    struct bp_plan plan = {.size = sizeof plan};
    uint32_t fault = 0;
    struct bp_launch launch = {.kernel = row,
                               .in = v->in,
                               .out = v->out,
                               .in_at = v->in_at,
                               .out_at = v->out_at,
                               .n_in = prep.n_in,
                               .n_out = prep.n_out,
                               .attrs = call->attrs,
                               .width = 1,
                               .fault = &fault,
                               .result = call->result};
    enum bp_status status;

    if (row->prepare) status = row->prepare(NULL, &prep, &plan);
    else status = row->accepts ? row->accepts(NULL, &prep) : BP_OK;
    if (status) return code_of(status, 0);
    launch.plan = plan.plan;
    launch.workspace_size = plan.workspace;
    if (plan.workspace &&
        posix_memalign(&launch.workspace, 4096, (size_t)(plan.workspace + 63) / 64 * 64))
        return BASE_NO_MEMORY;
    status = row->launch(&launch);
    free(launch.workspace);
    return code_of(status, fault);
}

int base_compute(const struct base_call *call)
{
    const struct bp_kernel *row = NULL;
    struct views *v = malloc(sizeof *v);
    int code = BASE_NO_KERNEL;

    if (!v) return BASE_NO_MEMORY;
    while (code == BASE_NO_KERNEL && (row = row_next(call->op, call->type, row))) {
        size_t length = call->variant ? strlen(call->variant) : 0, all = strlen(row->name);
        if (length && (all < length || strcmp(row->name + all - length, call->variant) != 0))
            continue;
        code = views_init(v, row, call);
        if (!code) code = row_run(row, call, v);
        views_finish(v, call, !code || code == BASE_FAULT);
    }
    free(v);
    return code;
}
