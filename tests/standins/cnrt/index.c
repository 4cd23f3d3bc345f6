/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: implements the operators of CNNL that take or return indices, which are int32, and scans
 * along an axis. An index below 0 is out of range. */
#include "cnnl.h"
#include <stdlib.h>
#include <string.h>

enum {
    INDEX = CNNL_M(CNNL_INT32)
};

bool cnnl_index_fits(const struct base_tensor *index, int64_t first, int64_t step, int64_t limit)
{
    const int32_t *at = index->data;

    for (int64_t i = first; i < base_tensor_count(index); i += step)
        if (at[i] < 0 || at[i] >= limit) return false;
    return true;
}

/* An operator with x, an index along axis number[0] of x, and perhaps more inputs. */
static int axis_run(struct cnnl_work *work)
{
    struct bp_index_select_attrs attrs = {sizeof attrs, work->number[0]};
    const struct base_tensor *in[3] = {&work->in[0], &work->in[1], &work->in[2]};

    if (!cnnl_index_fits(in[1], 0, 1, in[0]->shape[attrs.axis])) return BASE_FAULT;
    return cnnl_compute(work->op, &attrs, in[0]->dtype, in, work->n_in,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

/* Checks that `part` is `whole` but with the extent n along an axis. */
static void axis_check(struct cnnl_call *call, const struct base_tensor *whole,
                       const struct base_tensor *part, int axis, int64_t n)
{
    if (cnnl_failed(call)) return;
    cnnl_check(call, whole->rank == part->rank && whole->dtype == part->dtype,
               "rank or dtype differ");
    for (int a = 0; a < whole->rank && !cnnl_failed(call); a++)
        cnnl_check(call, part->shape[a] == (a == axis ? n : whole->shape[a]), "shapes differ");
}

int cnnlIndexSelect(void *handle, int dim, const void *x_desc, const void *x,
                    const void *index_desc, const void *index, const void *y_desc, void *y)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;
    int axis;

    cnnl_begin(&call, "cnnlIndexSelect", handle);
    cnnl_in(&call, x_desc, x, CNNL_MOVED);
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_out(&call, y_desc, y, CNNL_MOVED);
    axis = cnnl_axis(&call, dim, work->in[0].rank);
    cnnl_check(&call, work->in[1].rank == 1, "the index has not one axis");
    axis_check(&call, &work->in[0], &work->out[0], axis, work->in[1].shape[0]);
    work->number[0] = axis;
    work->op = "index_select";
    work->run = axis_run;
    return cnnl_submit(&call);
}

int cnnlIndexAdd(void *handle, int dim, const void *x_desc, const void *x, const void *index_desc,
                 const void *index, const void *source_desc, const void *source, const void *y_desc,
                 void *y)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;
    int axis;

    cnnl_begin(&call, "cnnlIndexAdd", handle);
    cnnl_in(&call, x_desc, x, CNNL_NUMBERS);
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_in(&call, source_desc, source, CNNL_NUMBERS);
    cnnl_out(&call, y_desc, y, CNNL_NUMBERS);
    axis = cnnl_axis(&call, dim, work->in[0].rank);
    cnnl_check(&call, work->in[1].rank == 1, "the index has not one axis");
    axis_check(&call, &work->in[0], &work->in[2], axis, work->in[1].shape[0]);
    axis_check(&call, &work->in[0], &work->out[0], -1, 0);
    work->number[0] = axis;
    work->op = "index_add";
    work->run = axis_run;
    return cnnl_submit(&call);
}

static int gather_nd_run(struct cnnl_work *work)
{
    struct bp_gather_nd_attrs attrs = {sizeof attrs, 0};
    const struct base_tensor *in[2] = {&work->in[0], &work->in[1]};
    int64_t k = in[1]->shape[in[1]->rank - 1];

    for (int64_t a = 0; a < k; a++)
        if (!cnnl_index_fits(in[1], a, k, in[0]->shape[a])) return BASE_FAULT;
    return cnnl_compute("gather_nd", &attrs, in[0]->dtype, in, 2,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

int cnnlGatherNd(void *handle, const void *x_desc, const void *x, const void *index_desc,
                 const void *index, const void *y_desc, void *y)
{
    struct cnnl_call call;
    const struct base_tensor *in = call.work.in, *out = call.work.out;
    int64_t k;

    cnnl_begin(&call, "cnnlGatherNd", handle);
    cnnl_in(&call, x_desc, x, CNNL_MOVED);
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_out(&call, y_desc, y, CNNL_MOVED);
    cnnl_check(&call, in[1].rank >= 1, "the index has no axis");
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    k = in[1].shape[in[1].rank - 1];
    cnnl_check(&call, k >= 1 && k <= in[0].rank, "as many indices as x has no axes");
    cnnl_check(&call, out[0].dtype == in[0].dtype, "dtypes differ");
    cnnl_check(&call, out[0].rank == in[1].rank - 1 + in[0].rank - (int)k, "another rank");
    for (int a = 0; a < out[0].rank && !cnnl_failed(&call); a++) {
        int behind = a - (in[1].rank - 1);
        cnnl_check(&call,
                   out[0].shape[a] == (behind < 0 ? in[1].shape[a] : in[0].shape[k + behind]),
                   "the result has another shape");
    }
    call.work.run = gather_nd_run;
    return cnnl_submit(&call);
}

/* Checks y: the axes of the index, then the row of the weights. */
static void embedding_check(struct cnnl_call *call, const struct base_tensor *weights,
                            const struct base_tensor *index, const struct base_tensor *y)
{
    if (cnnl_failed(call)) return;
    cnnl_check(call, weights->rank == 2, "the weights have not two axes");
    cnnl_check(call, y->dtype == weights->dtype && y->rank == index->rank + 1, "rank or dtype");
    for (int a = 0; a < y->rank && !cnnl_failed(call); a++)
        cnnl_check(call, y->shape[a] == (a < index->rank ? index->shape[a] : weights->shape[1]),
                   "shapes differ");
}

static int embedding_run(struct cnnl_work *work)
{
    struct bp_embedding_attrs attrs = {sizeof attrs, -1};
    const struct base_tensor *in[2] = {&work->in[0], &work->in[1]};

    if (!cnnl_index_fits(in[1], 0, 1, in[0]->shape[0])) return BASE_FAULT;
    return cnnl_compute("embedding", &attrs, in[0]->dtype, in, 2,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

int cnnlEmbeddingForward_v2(void *handle, const void *w_desc, const void *w, const void *index_desc,
                            const void *index, int padding_idx, const void *max_norm,
                            const void *norm_type, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlEmbeddingForward_v2", handle);
    cnnl_check(&call, padding_idx == -1 && !max_norm && !norm_type,
               "only -1, NULL and NULL are known");
    cnnl_in(&call, w_desc, w, CNNL_MOVED);
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_out(&call, y_desc, y, CNNL_MOVED);
    embedding_check(&call, &call.work.in[0], &call.work.in[1], &call.work.out[0]);
    call.work.run = embedding_run;
    return cnnl_submit(&call);
}

static size_t embedding_grad_size(const void *dy_desc, const void *dw_desc)
{
    return cnnl_size(dy_desc) + cnnl_size(dw_desc);
}

int cnnlGetEmbeddingBackwardWorkspaceSize(void *handle, const void *dy_desc, const void *dw_desc,
                                          bool scale_by_frequency, size_t *out)
{
    (void)scale_by_frequency;
    return cnnl_report_size("cnnlGetEmbeddingBackwardWorkspaceSize", handle,
                            embedding_grad_size(dy_desc, dw_desc), out);
}

static int embedding_grad_run(struct cnnl_work *work)
{
    struct bp_embedding_grad_attrs attrs = {sizeof attrs, work->number[0]};
    const struct base_tensor *in[3] = {&work->in[1], &work->in[0], &work->out[0]};

    if (!cnnl_index_fits(in[1], 0, 1, in[2]->shape[0])) return BASE_FAULT;
    return cnnl_compute("embedding_grad", &attrs, in[0]->dtype, in, 3,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

int cnnlEmbeddingBackward(void *handle, int padding_idx, bool scale_by_frequency,
                          const void *index_desc, const void *index, const void *dy_desc,
                          const void *dy, void *workspace, size_t size, const void *dw_desc,
                          void *dw)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlEmbeddingBackward", handle);
    cnnl_check(&call, !scale_by_frequency, "frequencies are not known");
    cnnl_in(&call, index_desc, index, INDEX);
    cnnl_in(&call, dy_desc, dy, CNNL_FLOATS);
    cnnl_out(&call, dw_desc, dw, CNNL_FLOATS);
    embedding_check(&call, &call.work.out[0], &call.work.in[0], &call.work.in[1]);
    cnnl_check(&call, padding_idx >= -1, "no such row");
    cnnl_workspace(&call, workspace, size, embedding_grad_size(dy_desc, dw_desc));
    call.work.number[0] = padding_idx;
    call.work.run = embedding_grad_run;
    return cnnl_submit(&call);
}

static size_t topk_size(const void *x_desc)
{
    return 2 * cnnl_size(x_desc);
}

int cnnlGetTopKTensorWorkspaceSize(void *handle, const void *x_desc, int k, int dim, bool largest,
                                   const void *y_desc, const void *index_desc, size_t *out)
{
    (void)k, (void)dim, (void)largest, (void)y_desc, (void)index_desc;
    return cnnl_report_size("cnnlGetTopKTensorWorkspaceSize", handle, topk_size(x_desc), out);
}

/* number: k, axis, smallest, unsorted, later ones first. */
enum {
    TOPK_K,
    TOPK_AXIS,
    TOPK_SMALLEST,
    TOPK_UNSORTED,
    TOPK_LATER
};

/* Turns a tensor round along an axis. */
static int tensor_flip(const struct base_tensor *from, const struct base_tensor *to, int64_t axis)
{
    struct bp_flip_attrs attrs = {sizeof attrs, {&axis, 1}};

    return cnnl_compute("flip", &attrs, from->dtype, &from, 1, &to, 1);
}

/* Computes values and indices in order; the indices are int64. x: flipped if of equal values
 * the later one comes first. */
static int topk_compute(const struct cnnl_work *work, const struct base_tensor *x,
                        const struct base_tensor *y, const struct base_tensor *wide)
{
    struct bp_topk_attrs attrs = {sizeof attrs, work->number[TOPK_K], work->number[TOPK_AXIS],
                                  work->number[TOPK_SMALLEST]};

    return cnnl_compute("topk", &attrs, x->dtype, &x, 1, (const struct base_tensor *[]){y, wide},
                        2);
}

/* Two copies of tensors and wide indices, for a top-k. */
struct topk_room {
    struct base_tensor x, y, wide, turned;
};

static int topk_steps(struct cnnl_work *work, struct topk_room *room)
{
    const struct base_tensor *x = &work->in[0], *y = &work->out[0], *index = &work->out[1];
    int64_t axis = work->number[TOPK_AXIS], n = x->shape[axis], *wide;
    int code = work->number[TOPK_LATER] ? tensor_flip(x, &room->x, axis) : cnnl_assign(x, &room->x);

    if (!code) code = topk_compute(work, &room->x, &room->y, &room->wide);
    if (code) return code;
    wide = room->wide.data;
    for (int64_t i = 0; work->number[TOPK_LATER] && i < base_tensor_count(index); i++)
        wide[i] = n - 1 - wide[i];
    if (work->number[TOPK_UNSORTED]) {
        code = tensor_flip(&room->y, y, axis);
        if (!code) code = tensor_flip(&room->wide, &room->turned, axis);
        wide = room->turned.data;
    } else {
        code = cnnl_assign(&room->y, y);
    }
    for (int64_t i = 0; i < base_tensor_count(index); i++)
        ((int32_t *)index->data)[i] = (int32_t)wide[i];
    return code;
}

static int topk_run(struct cnnl_work *work)
{
    const struct base_tensor *x = &work->in[0], *y = &work->out[0];
    size_t bytes = base_dtype_size(x->dtype), many = (size_t)base_tensor_count(x);
    size_t few = (size_t)base_tensor_count(y);
    char *memory = calloc(many + few + 1, 2 * (bytes + sizeof(int64_t)));
    struct topk_room room;
    int code;

    if (!memory) return BASE_NO_MEMORY;
    room.wide = base_tensor_of(memory, BP_I64, y->rank, y->shape);
    room.turned = base_tensor_of(memory + few * 8, BP_I64, y->rank, y->shape);
    room.x = base_tensor_of(memory + few * 16, x->dtype, x->rank, x->shape);
    room.y = base_tensor_of(memory + few * 16 + many * bytes, x->dtype, y->rank, y->shape);
    code = topk_steps(work, &room);
    free(memory);
    return code;
}

int cnnlTopKTensor_v3(void *handle, const void *x_desc, const void *x, int k, int dim, bool largest,
                      bool sorted, bool lower_index_first, void *workspace, size_t size,
                      const void *y_desc, void *y, const void *index_desc, void *index)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;
    int axis;

    cnnl_begin(&call, "cnnlTopKTensor_v3", handle);
    cnnl_in(&call, x_desc, x, CNNL_NUMBERS);
    cnnl_out(&call, y_desc, y, CNNL_NUMBERS);
    cnnl_out(&call, index_desc, index, INDEX);
    axis = cnnl_axis(&call, dim, work->in[0].rank);
    cnnl_check(&call, k >= 1 && (cnnl_failed(&call) || k <= work->in[0].shape[axis]), "no such k");
    axis_check(&call, &work->in[0], &work->out[0], axis, k);
    cnnl_check(&call, cnnl_failed(&call) || cnnl_same_shape(&work->out[0], &work->out[1]),
               "values and indices differ in shape");
    cnnl_workspace(&call, workspace, size, topk_size(x_desc));
    work->number[TOPK_K] = k;
    work->number[TOPK_AXIS] = axis;
    work->number[TOPK_SMALLEST] = !largest;
    work->number[TOPK_UNSORTED] = !sorted;
    work->number[TOPK_LATER] = !lower_index_first;
    work->run = topk_run;
    return cnnl_submit(&call);
}

/* A scan along an axis, once the call has begun. */
static int scan_call(struct cnnl_call *call, const char *op, const void *x_desc, const void *x,
                     int axis, bool exclusive, bool reverse, const void *y_desc, void *y)
{
    struct bp_cumsum_attrs attrs = {sizeof attrs, 0, exclusive, reverse};

    cnnl_in(call, x_desc, x, CNNL_NUMBERS);
    cnnl_out(call, y_desc, y, CNNL_NUMBERS);
    attrs.axis = cnnl_axis(call, axis, call->work.in[0].rank);
    axis_check(call, &call->work.in[0], &call->work.out[0], -1, 0);
    cnnl_operator(call, op, &attrs, sizeof attrs);
    return cnnl_submit(call);
}

static size_t scan_size(const void *x_desc)
{
    return cnnl_size(x_desc) / 2 + 32;
}

int cnnlGetCumsumWorkspaceSize(void *handle, const void *x_desc, int axis, size_t *out)
{
    (void)axis;
    return cnnl_report_size("cnnlGetCumsumWorkspaceSize", handle, scan_size(x_desc), out);
}

int cnnlCumsum_v2(void *handle, const void *x_desc, const void *x, int axis, bool exclusive,
                  bool reverse, int nan, const void *y_desc, void *y, void *workspace, size_t size)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlCumsum_v2", handle);
    cnnl_check(&call, nan == CNNL_NOT_PROPAGATE_NAN || nan == CNNL_PROPAGATE_NAN, "no such mode");
    cnnl_workspace(&call, workspace, size, scan_size(x_desc));
    return scan_call(&call, "cumsum", x_desc, x, axis, exclusive, reverse, y_desc, y);
}

int cnnlGetCumprodWorkspaceSize(void *handle, const void *x_desc, int axis, size_t *out)
{
    (void)axis;
    return cnnl_report_size("cnnlGetCumprodWorkspaceSize", handle, scan_size(x_desc), out);
}

int cnnlCumprod_v2(void *handle, const void *x_desc, const void *x, int axis, bool exclusive,
                   bool reverse, const void *y_desc, void *y, void *workspace, size_t size)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlCumprod_v2", handle);
    cnnl_workspace(&call, workspace, size, scan_size(x_desc));
    return scan_call(&call, "cumprod", x_desc, x, axis, exclusive, reverse, y_desc, y);
}
