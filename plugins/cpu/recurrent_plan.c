/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_plan.c: describes calls of recurrent layers and cells, and shares packed weights
 * between plans: a model that runs with many shapes has a plan for each shape. */
#include "recurrent.h"
#include "kernels.h"
#include <backplane/attrs.h>
#include <string.h>

enum {
    ALIGNMENT = 64
}; /* of packed weights, in bytes */

static void recurrent_set_gates(struct recurrent_call *c, int64_t gates)
{
    static const int order[2][RECURRENT_GATES] = {{0, 1, 2, 3}, {0, 2, 3, 1}};

    c->gates = c->kind == RECURRENT_LSTM ? 4 : c->kind == RECURRENT_GRU ? 3 : 1;
    for (int i = 0; i < c->gates; i++) c->gate[i] = c->kind == RECURRENT_LSTM ? order[gates][i] : i;
    if (c->kind == RECURRENT_GRU && gates) {
        c->gate[0] = 1;
        c->gate[1] = 0;
    }
}

static void recurrent_set_cell(struct recurrent_call *c, const void *attrs)
{
    bool lstm = c->kind == RECURRENT_LSTM;
    int64_t gates = 0;

    c->w = lstm ? 3 : 2;
    c->r = c->w + 1;
    c->bias = c->w + 2;
    c->recurrent_bias = c->w + 3;
    c->peephole = lstm ? 7 : -1;
    c->h0 = 1;
    c->c0 = lstm ? 2 : -1;
    c->lengths = -1;
    if (lstm) gates = ((const struct bp_lstm_cell_attrs *)attrs)->gates;
    if (c->kind == RECURRENT_GRU) {
        const struct bp_gru_cell_attrs *a = attrs;
        gates = a->gates;
        c->reset_after = a->reset_after != 0;
    }
    if (c->kind == RECURRENT_RNN)
        c->relu = ((const struct bp_rnn_cell_attrs *)attrs)->activation != 0;
    recurrent_set_gates(c, gates);
}

static void recurrent_set_layer(struct recurrent_call *c, const void *attrs)
{
    bool lstm = c->kind == RECURRENT_LSTM;
    const struct bp_rnn_layer_attrs *first = attrs; /* all kinds begin alike */
    int64_t gates = 0;

    c->w = 1;
    c->r = 2;
    c->bias = 3;
    c->recurrent_bias = 4;
    c->h0 = 5;
    c->c0 = lstm ? 6 : -1;
    c->peephole = lstm ? 7 : -1;
    c->lengths = lstm ? 8 : 6;
    c->reverse = first->reverse != 0;
    c->batch_first = first->batch_first != 0;
    if (lstm) gates = ((const struct bp_lstm_layer_attrs *)attrs)->gates;
    if (c->kind == RECURRENT_GRU) {
        const struct bp_gru_layer_attrs *a = attrs;
        gates = a->gates;
        c->reset_after = a->reset_after != 0;
    }
    if (c->kind == RECURRENT_RNN) c->relu = first->activation != 0;
    recurrent_set_gates(c, gates);
}

struct recurrent_call recurrent_describe(const struct bp_prep *prep)
{
    const char *op = prep->kernel->op;
    struct recurrent_call c = {.kind = !strncmp(op, "lstm", 4)  ? RECURRENT_LSTM
                                       : !strncmp(op, "gru", 3) ? RECURRENT_GRU
                                                                : RECURRENT_RNN,
                               .cell = strstr(op, "_cell") != NULL};
    const int64_t *shape = prep->in[0]->shape;

    if (c.cell) recurrent_set_cell(&c, prep->attrs);
    else recurrent_set_layer(&c, prep->attrs);
    c.steps = c.cell ? 1 : shape[c.batch_first];
    c.batch = c.cell ? shape[0] : shape[!c.batch_first];
    c.inputs = shape[c.cell ? 1 : 2];
    c.units = prep->in[c.r]->shape[1];
    return c;
}

uint64_t recurrent_weights(const struct recurrent_call *call)
{
    const int port[RECURRENT_WEIGHTS] = {call->w, call->r, call->bias, call->recurrent_bias,
                                         call->peephole};
    uint64_t weights = 0;

    for (int i = 0; i < RECURRENT_WEIGHTS; i++)
        if (port[i] >= 0) weights |= UINT64_C(1) << port[i];
    return weights;
}

bool recurrent_is_constant(const struct recurrent_call *call, const struct bp_prep *prep,
                           struct recurrent_key *out_key)
{
    const int port[RECURRENT_WEIGHTS] = {call->w, call->r, call->bias, call->recurrent_bias,
                                         call->peephole};

    memset(out_key, 0, sizeof *out_key); /* keys are compared by their bytes */
    out_key->kind = call->kind;
    out_key->first_gate = call->gate[1]; /* of both orders different, and 0 for an RNN */
    out_key->reset_after = call->reset_after;
    out_key->dtype = prep->in[0]->dtype;
    out_key->inputs = call->inputs;
    out_key->units = call->units;
    for (int i = 0; i < RECURRENT_WEIGHTS; i++) {
        const struct bp_view *v = port[i] < 0 ? NULL : prep->in[port[i]];
        if (!v) continue;
        if (!(v->flags & BP_VIEW_CONSTANT)) return false;
        out_key->from[i] = v->data;
        for (int d = 0; d < v->rank && d < 2; d++) out_key->stride[i][d] = v->stride[d];
        out_key->constant[i] = prep->constant ? prep->constant[port[i]] : 0;
    }
    return true;
}

enum bp_status recurrent_constants_read(const struct cpu *self, const struct recurrent_call *call,
                                        const struct bp_prep *prep)
{
    const int port[RECURRENT_WEIGHTS] = {call->w, call->r, call->bias, call->recurrent_bias,
                                         call->peephole};

    for (int i = 0; i < RECURRENT_WEIGHTS; i++) {
        enum bp_status status = port[i] < 0 || !prep->in[port[i]]
                                    ? BP_OK
                                    : cpu_constant_read(self, prep, port[i]);
        if (status) return status;
    }
    return BP_OK;
}

struct recurrent_pack *recurrent_pack_find(struct cpu *self, const struct recurrent_key *key)
{
    for (struct recurrent_pack *p = self->recurrent_packs; p && key->constant[0]; p = p->next)
        if (!memcmp(&p->key, key, sizeof *key)) {
            p->plans++;
            return p;
        }
    return NULL;
}

struct recurrent_pack *recurrent_pack_make(struct cpu *self, const struct recurrent_key *key,
                                           uint64_t bytes)
{
    const struct bp_host *host = self->host;
    struct recurrent_pack *p = host->allocate(host->ctx, sizeof *p,
                                              _Alignof(struct recurrent_pack));

    if (!p) return NULL;
    *p = (struct recurrent_pack){.next = self->recurrent_packs, .plans = 1, .bytes = bytes};
    memcpy(&p->key, key, sizeof *key);
    p->data = host->allocate(host->ctx, bytes, ALIGNMENT);
    if (!p->data) {
        host->release(host->ctx, p, sizeof *p);
        return NULL;
    }
    self->recurrent_packs = p;
    return p;
}

static void recurrent_pack_release(struct cpu *self, struct recurrent_pack *pack)
{
    const struct bp_host *host = self->host;
    struct recurrent_pack **at = &self->recurrent_packs;

    pthread_mutex_lock(&self->packs_lock);
    if (--pack->plans) {
        pthread_mutex_unlock(&self->packs_lock);
        return;
    }
    while (*at != pack) at = &(*at)->next;
    *at = pack->next;
    pthread_mutex_unlock(&self->packs_lock);
    host->release(host->ctx, pack->data, pack->bytes);
    host->release(host->ctx, pack, sizeof *pack);
}

void cpu_recurrent_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    struct cpu *cpu = self;
    struct recurrent_plan *p = plan;

    (void)kernel;
    if (p->pack) recurrent_pack_release(cpu, p->pack);
    cpu->host->release(cpu->host->ctx, p, sizeof *p);
}
