/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: implements the pools of CNNL, which take the layout NHWC. Pools that return an index are
 * not here: whether it counts in the window or in the image is not confirmed. */
#include "cnnl.h"
#include <string.h>

static size_t pool_size(int64_t width, int64_t height)
{
    return (size_t)(64 + 4 * width * height);
}

/* The size by the descriptor of the result. */
static size_t pool_size_of(const void *y_desc)
{
    const struct cnnl_tensor *t = cnnl_tensor_of(y_desc);

    return t && t->rank == 4 ? pool_size(t->shape[2], t->shape[1]) : 0;
}

int cnnlGetPoolingWorkspaceSize(void *handle, int mode, int width, int height, size_t *out)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlGetPoolingWorkspaceSize", handle);
    cnnl_check(&call, mode >= CNNL_MAX && mode <= CNNL_FIXED, "no such mode");
    cnnl_check(&call, width >= 1 && height >= 1 && out, "no result, or NULL");
    if (!cnnl_failed(&call)) *out = pool_size(width, height);
    return cnnl_end(&call);
}

int cnnlGetPoolingWorkspaceSize_v2(void *handle, const void *desc, const void *x_desc,
                                   const void *y_desc, size_t *out)
{
    (void)desc, (void)x_desc;
    return cnnl_report_size("cnnlGetPoolingWorkspaceSize_v2", handle, pool_size_of(y_desc), out);
}

/* Views N H W C as N C H W. */
static void pool_view(struct base_tensor *t)
{
    int64_t shape[4] = {t->shape[0], t->shape[3], t->shape[1], t->shape[2]};
    int64_t stride[4] = {t->stride[0], t->stride[3], t->stride[1], t->stride[2]};

    memcpy(t->shape, shape, sizeof shape);
    memcpy(t->stride, stride, sizeof stride);
}

static void layout_check(struct cnnl_call *call, const void *desc)
{
    const struct cnnl_tensor *t = cnnl_tensor_of(desc);

    cnnl_check(call, t && t->layout == CNNL_NHWC, "a tensor's layout is not NHWC");
}

/* The extent of a result along axis a: 0 rows, 1 columns; -1: there is none. */
static int64_t pool_extent(const struct cnnl_pool *p, int64_t extent, int a)
{
    int64_t span = p->dilation[a] * (p->window[a] - 1) + 1;
    int64_t room = extent + p->pad[2 * a] + p->pad[2 * a + 1] - span, n;

    if (room < 0) return -1;
    n = (room + (p->ceil_mode ? p->stride[a] - 1 : 0)) / p->stride[a] + 1;
    if (p->ceil_mode && (n - 1) * p->stride[a] >= extent + p->pad[2 * a]) n--;
    return n;
}

/* Checks x and y, NHWC, against a pool; leaves them as N C H W. */
static void pool_check(struct cnnl_call *call, const struct cnnl_pool *p, struct base_tensor *x,
                       struct base_tensor *y)
{
    if (cnnl_failed(call)) return;
    pool_view(x);
    pool_view(y);
    cnnl_check(call,
               x->dtype == y->dtype && x->shape[0] == y->shape[0] && x->shape[1] == y->shape[1],
               "dtypes, N or C differ");
    for (int a = 0; a < 2; a++) {
        int64_t span = p->dilation[a] * (p->window[a] - 1) + 1;
        cnnl_check(call, p->pad[2 * a] < span && p->pad[2 * a + 1] < span,
                   "a padding is as long as the window");
        cnnl_check(call, y->shape[2 + a] == pool_extent(p, x->shape[2 + a], a),
                   "the result has another extent");
    }
}

/* Fills the attributes of a pool. */
static void pool_attrs(const struct cnnl_pool *p, struct bp_avg_pool_attrs *out)
{
    *out = (struct bp_avg_pool_attrs){.size = sizeof *out};
    for (int a = 0; a < 3; a++) out->window[a] = out->stride[a] = out->dilation[a] = 1;
    for (int a = 0; a < 2; a++) {
        out->window[a] = p->window[a];
        out->stride[a] = p->stride[a];
        out->dilation[a] = p->dilation[a];
        out->pad[a] = p->pad[2 * a];
        out->pad[3 + a] = p->pad[2 * a + 1];
    }
    out->ceil_mode = p->ceil_mode;
    out->include_pad = p->mode == CNNL_AVERAGE_WITH_PADDING;
}

static const struct cnnl_pool *pool_of(struct cnnl_call *call, const void *desc)
{
    const struct cnnl_pool *p = desc;

    cnnl_check(call, base_handle_is(desc, cnnl_pool_kind) && p->set, "no pool that is set");
    if (!cnnl_failed(call)) cnnl_check(call, p->mode != CNNL_FIXED, "FIXED is not known");
    return p;
}

int cnnlPoolingForward(void *handle, const void *desc, const void *alpha, const void *x_desc,
                       const void *x, const void *beta, const void *y_desc, void *y,
                       void *workspace, size_t size)
{
    struct bp_avg_pool_attrs attrs;
    struct bp_max_pool_attrs max = {.size = sizeof max};
    const struct cnnl_pool *p;
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlPoolingForward", handle);
    p = pool_of(&call, desc);
    cnnl_factors(&call, alpha, beta);
    layout_check(&call, x_desc);
    layout_check(&call, y_desc);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    pool_check(&call, p, &call.work.in[0], &call.work.out[0]);
    cnnl_workspace(&call, workspace, size, pool_size_of(y_desc));
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    pool_attrs(p, &attrs);
    memcpy((char *)&max + sizeof max.size, (char *)&attrs + sizeof max.size,
           sizeof max - sizeof max.size); /* the attributes of both begin alike */
    if (p->mode == CNNL_MAX) cnnl_operator(&call, "max_pool", &max, sizeof max);
    else cnnl_operator(&call, "avg_pool", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

/* The gradient of an average; y is not read and may be NULL. */
int cnnlPoolingBackward(void *handle, const void *desc, const void *alpha, const void *y_desc,
                        const void *y, const void *dy_desc, const void *dy, const void *x_desc,
                        const void *x, const void *beta, const void *dx_desc, void *dx)
{
    struct bp_avg_pool_attrs attrs;
    const struct cnnl_pool *p;
    struct cnnl_call call;

    (void)y_desc, (void)y;
    cnnl_begin(&call, "cnnlPoolingBackward", handle);
    p = pool_of(&call, desc);
    if (!cnnl_failed(&call)) cnnl_check(&call, p->mode != CNNL_MAX, "maxima are not known");
    cnnl_factors(&call, alpha, beta);
    layout_check(&call, dy_desc);
    layout_check(&call, x_desc);
    layout_check(&call, dx_desc);
    cnnl_in(&call, dy_desc, dy, CNNL_FLOATS);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, dx_desc, dx, CNNL_FLOATS);
    cnnl_check(&call,
               cnnl_same_shape(&call.work.in[1], &call.work.out[0]) &&
                   call.work.in[1].dtype == call.work.out[0].dtype,
               "x and dx differ");
    pool_check(&call, p, &call.work.in[1], &call.work.in[0]);
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    pool_view(&call.work.out[0]);
    pool_attrs(p, &attrs);
    cnnl_operator(&call, "avg_pool_grad", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlGetAdaptivePoolingForwardWorkspaceSize(void *handle, const void *x_desc, int mode,
                                               const void *y_desc, size_t *out)
{
    (void)x_desc, (void)mode;
    return cnnl_report_size("cnnlGetAdaptivePoolingForwardWorkspaceSize", handle,
                            pool_size_of(y_desc), out);
}

int cnnlAdaptivePoolingForward_v2(void *handle, const void *x_desc, const void *x, int mode,
                                  void *workspace, size_t size, const void *y_desc, void *y,
                                  const void *index_desc, void *index)
{
    struct bp_avg_pool_attrs attrs = {.size = sizeof attrs,
                                      .adaptive = 1,
                                      .window = {1, 1, 1},
                                      .stride = {1, 1, 1},
                                      .dilation = {1, 1, 1}};
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlAdaptivePoolingForward_v2", handle);
    cnnl_check(&call, mode == CNNL_AVERAGE_WITH_PADDING && !index_desc && !index,
               "only averages, without an index, are known");
    layout_check(&call, x_desc);
    layout_check(&call, y_desc);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    cnnl_workspace(&call, workspace, size, pool_size_of(y_desc));
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    pool_view(&call.work.in[0]);
    pool_view(&call.work.out[0]);
    cnnl_check(&call,
               call.work.in[0].dtype == call.work.out[0].dtype &&
                   !memcmp(call.work.in[0].shape, call.work.out[0].shape, 16),
               "dtypes, N or C differ");
    for (int a = 0; a < 2; a++) attrs.window[a] = call.work.out[0].shape[2 + a];
    cnnl_operator(&call, "avg_pool", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}
