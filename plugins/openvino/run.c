/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs a compiled group. A context is one inference request with the tensors of its last
 * run: the library works in the memory of the views, and tensors are made anew only where an
 * address differs. */
#include "engine.h"

#include <string.h>

/* A tensor of a request, in the memory of a view, or in the context's own for widened inputs. */
struct bound {
    struct ov_tensor *tensor;
    void *data;
};

struct context {
    size_t bytes; /* of this allocation, with the arrays */
    struct ov_infer_request *request;
    struct bound *in, *out;
    float *widened; /* the values of all widened inputs, one after the other */
};

static uint64_t widened_count(const struct ov_engine *e)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < e->n_in; i++) count += e->in[i].widened ? e->in[i].count : 0;
    return count;
}

enum bp_status openvino_context_create(void *p, uint32_t device, void *engine, void **out_context)
{
    struct openvino *self = p;
    struct ov_engine *e = engine;
    size_t bytes = sizeof(struct context) + (e->n_in + e->n_out) * sizeof(struct bound) +
                   (size_t)widened_count(e) * sizeof(float);
    struct context *c = self->host->allocate(self->host->ctx, bytes, _Alignof(max_align_t));
    enum bp_status status;

    (void)device;
    if (!c) return bp_fail(self->host, BP_ERR_MEMORY, "openvino: no memory for a request");
    memset(c, 0, bytes);
    c->bytes = bytes;
    c->in = (struct bound *)(c + 1);
    c->out = c->in + e->n_in;
    c->widened = (float *)(c->out + e->n_out);
    status = OV(self, ov_compiled_model_create_infer_request, e->model, &c->request);
    if (status) self->host->release(self->host->ctx, c, bytes);
    else *out_context = c;
    return status;
}

void openvino_context_destroy(void *p, uint32_t device, void *engine, void *context)
{
    struct openvino *self = p;
    struct ov_engine *e = engine;
    struct context *c = context;

    (void)device;
    self->call->ov_infer_request_free(c->request);
    for (uint32_t i = 0; i < e->n_in + e->n_out; i++)
        if (c->in[i].tensor) self->call->ov_tensor_free(c->in[i].tensor);
    self->host->release(self->host->ctx, c, c->bytes);
}

/* Makes the request work in memory at another address. */
static enum bp_status bind_tensor(struct openvino *self, struct context *c, struct bound *b,
                                  const struct ov_tensor_type *t, void *data, bool is_in)
{
    struct ov_shape shape = {t->rank, (int64_t *)t->extent};
    struct ov_tensor *tensor;
    size_t number = (size_t)(b - (is_in ? c->in : c->out));
    enum bp_status status;

    if (b->data == data) return BP_OK;
    TRY(OV(self, ov_tensor_create_from_host_ptr, self->type[t->dtype], shape, data, &tensor));
    status = is_in
                 ? OV(self, ov_infer_request_set_input_tensor_by_index, c->request, number, tensor)
                 : OV(self, ov_infer_request_set_output_tensor_by_index, c->request, number,
                      tensor);
    if (status) {
        self->call->ov_tensor_free(tensor);
        return status;
    }
    if (b->tensor) self->call->ov_tensor_free(b->tensor);
    *b = (struct bound){tensor, data};
    return BP_OK;
}

static bool is_good(const struct ov_index *index, const struct bp_view *v)
{
    for (int64_t i = 0; i < v->count; i++) {
        int64_t at = index->dtype == BP_I64 ? ((const int64_t *)v->data)[i]
                                            : ((const int32_t *)v->data)[i];
        if (at < -index->extent || at >= index->extent) return false;
    }
    return true;
}

static float *widen_input(float *to, const struct bp_view *v)
{
    const int64_t *from = v->data;

    for (int64_t i = 0; i < v->count; i++) to[i] = (float)from[i];
    return to + v->count;
}

enum bp_status openvino_run(const struct bp_engine_run *run)
{
    struct openvino *self = run->self;
    struct ov_engine *e = run->engine;
    struct context *c = run->context;
    float *widened = c->widened;

    for (uint32_t i = 0; i < e->n_index; i++)
        if (!is_good(&e->index[i], run->in[e->index[i].in])) {
            *run->fault = 1;
            return BP_OK;
        }
    for (uint32_t i = 0; i < e->n_copy; i++)
        memcpy(run->out[e->copy[i].out]->data, run->in[e->copy[i].in]->data,
               (size_t)e->copy[i].bytes);
    for (uint32_t i = 0; i < e->n_in; i++) {
        const struct bp_view *v = run->in[e->in[i].at];
        void *data = e->in[i].widened ? widened : v->data;
        if (e->in[i].widened) widened = widen_input(widened, v);
        TRY(bind_tensor(self, c, &c->in[i], &e->in[i], data, true));
    }
    for (uint32_t i = 0; i < e->n_out; i++)
        TRY(bind_tensor(self, c, &c->out[i], &e->out[i], run->out[e->out[i].at]->data, false));
    return OV(self, ov_infer_request_infer, c->request);
}
