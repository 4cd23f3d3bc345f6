/* SPDX-License-Identifier: Apache-2.0 */
/* scatter.c: implements the operators of CNNL with an index for each element, and those that put
 * elements or slices into a tensor. Indices are int32; one below 0 is out of range. */
#include "cnnl.h"
#include <string.h>

enum {
    INDEX = CNNL_M(CNNL_INT32)
};

static size_t scatter_size(const void *index_desc)
{
    return 32 + cnnl_size(index_desc);
}

/* Checks an index with an entry for each element of `picked`, whose extents beside the axis are at
 * most those of `whole`. */
static void element_check(struct cnnl_call *call, const struct base_tensor *whole,
                          const struct base_tensor *index, const struct base_tensor *picked,
                          int axis)
{
    if (cnnl_failed(call)) return;
    cnnl_check(call, index->rank == whole->rank && cnnl_same_shape(index, picked),
               "the index has another shape");
    cnnl_check(call, picked->dtype == whole->dtype, "dtypes differ");
    for (int a = 0; a < whole->rank && !cnnl_failed(call); a++)
        cnnl_check(call, a == axis || index->shape[a] <= whole->shape[a],
                   "the index is larger than the tensor");
}

int cnnlGetGatherWorkspaceSize(void *handle, const void *x_desc, const void *index_desc,
                               const void *y_desc, int dim, size_t *out)
{
    (void)x_desc, (void)y_desc, (void)dim;
    return cnnl_report_size("cnnlGetGatherWorkspaceSize", handle, scatter_size(index_desc), out);
}

static int take_run(struct cnnl_work *work)
{
    struct bp_take_along_axis_attrs attrs = {sizeof attrs, work->number[0]};
    const struct base_tensor *in[2] = {&work->in[0], &work->in[1]};

    if (!cnnl_index_fits(in[1], 0, 1, in[0]->shape[attrs.axis])) return BASE_FAULT;
    return cnnl_compute("take_along_axis", &attrs, in[0]->dtype, in, 2,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

int cnnlGather_v2(void *handle, int dim, const void *x_desc, const void *x, const void *index_desc,
                  const void *index, void *workspace, size_t size, const void *y_desc, void *y)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;

    cnnl_begin(&call, "cnnlGather_v2", handle);
    cnnl_in(&call, x_desc, x, CNNL_MOVED);
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_out(&call, y_desc, y, CNNL_MOVED);
    work->number[0] = cnnl_axis(&call, dim, work->in[0].rank);
    element_check(&call, &work->in[0], &work->in[1], &work->out[0], (int)work->number[0]);
    cnnl_workspace(&call, workspace, size, scatter_size(index_desc));
    work->run = take_run;
    return cnnl_submit(&call);
}

int cnnlGetScatterWorkspaceSize(void *handle, const void *index_desc, size_t *out)
{
    return cnnl_report_size("cnnlGetScatterWorkspaceSize", handle, scatter_size(index_desc), out);
}

static int put_run(struct cnnl_work *work)
{
    struct bp_put_along_axis_attrs attrs = {sizeof attrs, work->number[0], work->number[1]};
    const struct base_tensor *in[3] = {&work->in[0], &work->in[1], &work->in[2]};

    if (!cnnl_index_fits(in[1], 0, 1, in[0]->shape[attrs.axis])) return BASE_FAULT;
    return cnnl_compute("put_along_axis", &attrs, in[0]->dtype, in, 3,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

/* One caller shows this order. Of several updates of one place the last wins. */
int cnnlScatter_v2(void *handle, int dim, const void *x_desc, const void *x, const void *index_desc,
                   const void *index, const void *source_desc, const void *source, void *workspace,
                   size_t size, const void *y_desc, void *y, int mode)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;

    cnnl_begin_assumed(&call, "cnnlScatter_v2", handle, CNNL_FAST);
    cnnl_check(&call, mode == CNNL_SCATTER || mode == CNNL_SCATTER_ADD, "no such mode");
    cnnl_in(&call, x_desc, x, CNNL_NUMBERS);
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_in(&call, source_desc, source, CNNL_NUMBERS);
    cnnl_out(&call, y_desc, y, CNNL_NUMBERS);
    work->number[0] = cnnl_axis(&call, dim, work->in[0].rank);
    work->number[1] = mode == CNNL_SCATTER_ADD;
    element_check(&call, &work->in[0], &work->in[1], &work->in[2], (int)work->number[0]);
    cnnl_check(&call,
               cnnl_failed(&call) || (work->in[0].dtype == work->out[0].dtype &&
                                      cnnl_same_shape(&work->in[0], &work->out[0])),
               "the result has another dtype or shape");
    cnnl_workspace(&call, workspace, size, scatter_size(index_desc));
    work->run = put_run;
    return cnnl_submit(&call);
}

static int put_nd_run(struct cnnl_work *work)
{
    const struct base_tensor *in[3] = {&work->in[2], &work->in[0], &work->in[1]};
    int64_t k = in[1]->shape[in[1]->rank - 1];

    for (int64_t a = 0; a < k; a++)
        if (!cnnl_index_fits(in[1], a, k, in[0]->shape[a])) return BASE_FAULT;
    return cnnl_compute(
        work->number[0] == CNNL_SCATTERND_ADD ? "scatter_nd_add" : "scatter_nd_update", NULL,
        in[0]->dtype, in, 3, (const struct base_tensor *[]){&work->out[0]}, 1);
}

/* Checks updates: the axes of the index but the last, then those of x behind its first k. */
static void slices_check(struct cnnl_call *call, const struct base_tensor *index,
                         const struct base_tensor *updates, const struct base_tensor *x)
{
    int64_t k;

    cnnl_check(call, index->rank >= 1, "the index has no axis");
    if (cnnl_failed(call)) return;
    k = index->shape[index->rank - 1];
    cnnl_check(call, k >= 1 && k <= x->rank, "as many indices as x has no axes");
    cnnl_check(call, updates->dtype == x->dtype, "dtypes differ");
    cnnl_check(call, updates->rank == index->rank - 1 + x->rank - (int)k, "another rank");
    for (int a = 0; a < updates->rank && !cnnl_failed(call); a++) {
        int behind = a - (index->rank - 1);
        cnnl_check(call, updates->shape[a] == (behind < 0 ? index->shape[a] : x->shape[k + behind]),
                   "the updates have another shape");
    }
}

int cnnlScatterNd_v2(void *handle, int mode, const void *index_desc, const void *index,
                     const void *updates_desc, const void *updates, const void *x_desc,
                     const void *x, const void *y_desc, void *y)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;
    unsigned dtypes = mode == CNNL_SCATTERND_ADD ? CNNL_NUMBERS : CNNL_MOVED;

    cnnl_begin_assumed(&call, "cnnlScatterNd_v2", handle, CNNL_FAST);
    cnnl_check(&call, mode == CNNL_SCATTERND_ADD || mode == CNNL_SCATTERND_UPDATE, "no such mode");
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_in(&call, updates_desc, updates, dtypes);
    cnnl_in(&call, x_desc, x, dtypes);
    cnnl_out(&call, y_desc, y, dtypes);
    slices_check(&call, &work->in[0], &work->in[1], &work->in[2]);
    cnnl_check(&call,
               cnnl_failed(&call) || (work->in[2].dtype == work->out[0].dtype &&
                                      cnnl_same_shape(&work->in[2], &work->out[0])),
               "the result has another dtype or shape");
    work->number[0] = mode;
    work->run = put_nd_run;
    return cnnl_submit(&call);
}
