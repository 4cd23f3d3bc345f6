/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c: an engine that compiles groups of sums in f32, and runs each group as one job. */
#include "template.h"
#include <stdlib.h>
#include <string.h>

enum {
    VALUES = 64, /* of a group, at most */
    RANK = 8,    /* axes */
    BORDERS = 16 /* inputs of a group, and outputs */
};

/* A compiled group. It does not change, so that several runs may use it at once. */
struct sums {
    struct sums_step {
        uint32_t x, y, z;                                                 /* numbers of values */
        int64_t count, rank, shape[RANK], x_stride[RANK], y_stride[RANK]; /* in the axes of z */
    } step[VALUES]; /* one for each node, which makes one value */
    uint32_t n_step, n_value, in[BORDERS], out[BORDERS], n_in, n_out;
    float *constant[VALUES];    /* copies of frozen constants */
    uint64_t at[VALUES], bytes; /* of results in the workspace */
};

/* The arguments of a run. */
struct job {
    const struct sums *s;
    float *in[BORDERS], *out[BORDERS];
    char *work;
};

static const struct bp_data_value *sums_value(const struct bp_graph_data *g, uint32_t v)
{
    return BP_ROW(struct bp_data_value, g->value, g->value_stride, v);
}

static int64_t sums_count(const struct bp_data_value *v)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < v->rank; i++) count *= v->shape[i];
    return count;
}

static int sums_fits(const struct bp_data_value *v)
{
    for (uint32_t i = 0; i < v->rank; i++)
        if (v->shape[i] < 0) return 0; /* a symbol: known at run time only */
    return v->dtype == BP_F32 && v->rank <= RANK && !v->stride;
}

/* All sums that it can compute are one group; the core divides it if it must. */
static enum bp_status sums_claim(void *self, const struct bp_graph_data *g, struct bp_claim *out)
{
    for (size_t n = 0; n < g->n_node; n++) {
        const struct bp_data_node *node = BP_ROW(struct bp_data_node, g->node, g->node_stride, n);
        if (strcmp(node->op, "add")) continue;
        out->group[n] = sums_fits(sums_value(g, node->in[0])) &&
                        sums_fits(sums_value(g, node->in[1])) &&
                        sums_fits(sums_value(g, node->out[0]));
        if (out->group[n]) out->n_group = 1;
        else out->reason[n] = "its tensors are not f32, or have more than 8 axes";
    }
    return BP_OK;
}

static void sums_destroy(void *self, uint32_t device, void *engine)
{
    struct sums *s = engine;
    for (uint32_t v = 0; v < s->n_value; v++) free(s->constant[v]);
    free(s);
}

/* Copies a frozen constant, whose contents are valid during compile only. */
static enum bp_status sums_keep(struct sums *s, const struct bp_host *host, uint32_t v,
                                const struct bp_data_value *value)
{
    s->constant[v] = malloc(value->bytes + 1);
    if (!s->constant[v]) return bp_fail(host, BP_ERR_MEMORY, "template: no memory for an engine");
    memcpy(s->constant[v], template_reach((void *)(uintptr_t)value->memory, value->data),
           value->bytes);
    return BP_OK;
}

/* The strides of v in the axes of z: along an axis that v lacks, or has with extent 1, v repeats.
 * out is 0 at first. */
static void sums_align(const struct bp_data_value *v, const struct bp_data_value *z, int64_t *out)
{
    int64_t step = 1, lead = (int64_t)z->rank - v->rank;

    for (int64_t i = (int64_t)v->rank - 1; i >= 0; step *= v->shape[i--])
        out[lead + i] = v->shape[i] == 1 ? 0 : step;
}

/* Lists the sums, and gives each result a place in the workspace. */
static enum bp_status sums_fill(struct sums *s, const struct bp_host *host,
                                const struct bp_graph_data *g)
{
    enum bp_status status = BP_OK;

    for (uint32_t v = 0; v < g->n_value && status == BP_OK; v++) {
        const struct bp_data_value *value = sums_value(g, v);
        s->at[v] = s->bytes;
        if (value->flags & BP_DATA_FROZEN) status = sums_keep(s, host, v, value);
        else s->bytes += (uint64_t)(sums_count(value) * 4 + 63) / 64 * 64;
    }
    for (uint32_t n = 0; n < g->n_node; n++) {
        const struct bp_data_node *node = BP_ROW(struct bp_data_node, g->node, g->node_stride, n);
        struct sums_step *step = &s->step[s->n_step++];
        step->x = node->in[0];
        step->y = node->in[1];
        step->z = node->out[0];
        const struct bp_data_value *z = sums_value(g, step->z);
        step->count = sums_count(z);
        step->rank = z->rank;
        memcpy(step->shape, z->shape, z->rank * sizeof *z->shape);
        sums_align(sums_value(g, step->x), z, step->x_stride);
        sums_align(sums_value(g, step->y), z, step->y_stride);
    }
    return status;
}

/* A real compiler takes long, and calls c->progress from time to time. */
static enum bp_status sums_compile(void *self, const struct bp_engine_compile *c,
                                   struct bp_engine_compiled *out)
{
    const struct bp_host *host = ((struct template_self *)self)->host;
    const struct bp_graph_data *g = c->graph;
    enum bp_status status;
    struct sums *s;

    if (g->n_value > VALUES || g->n_in > BORDERS || g->n_out > BORDERS)
        return bp_fail(host, BP_ERR_UNSUPPORTED, "template: %zu values, at most %d", g->n_value,
                       VALUES);
    s = calloc(1, sizeof *s);
    if (!s) return bp_fail(host, BP_ERR_MEMORY, "template: no memory for an engine");
    *s = (struct sums){.n_value = (uint32_t)g->n_value, .n_in = g->n_in, .n_out = g->n_out};
    memcpy(s->in, g->in, g->n_in * sizeof *g->in);
    memcpy(s->out, g->out, g->n_out * sizeof *g->out);
    status = sums_fill(s, host, g);
    if (status) {
        sums_destroy(self, c->device, s);
        return status;
    }
    out->engine = s;
    out->workspace = s->bytes;
    out->workspace_alignment = 64;
    out->note = "sums";
    return BP_OK;
}

/* Computes one sum. */
static void sums_step_run(const struct sums_step *s, float *z, const float *x, const float *y)
{
    for (int64_t i = 0; i < s->count; i++) {
        int64_t x_at = 0, y_at = 0, rest = i;
        for (int64_t axis = s->rank - 1; axis >= 0; rest /= s->shape[axis--]) {
            x_at += rest % s->shape[axis] * s->x_stride[axis];
            y_at += rest % s->shape[axis] * s->y_stride[axis];
        }
        z[i] = x[x_at] + y[y_at];
    }
}

/* Runs on the device. */
static void sums_run_job(const void *args)
{
    const struct job *j = args;
    float *at[VALUES];

    for (uint32_t v = 0; v < j->s->n_value; v++)
        at[v] = j->s->constant[v] ? j->s->constant[v] : (float *)(void *)(j->work + j->s->at[v]);
    for (uint32_t i = 0; i < j->s->n_in; i++) at[j->s->in[i]] = j->in[i];
    for (uint32_t o = 0; o < j->s->n_out; o++) at[j->s->out[o]] = j->out[o];
    for (uint32_t n = 0; n < j->s->n_step; n++) {
        const struct sums_step *s = &j->s->step[n];
        sums_step_run(s, at[s->z], at[s->x], at[s->y]);
    }
}

static enum bp_status sums_run(const struct bp_engine_run *r)
{
    struct job j = {.s = r->engine};

    if (r->workspace) j.work = template_reach(r->workspace_memory, r->workspace);
    for (uint32_t i = 0; i < r->n_in; i++)
        j.in[i] = template_reach(r->in[i]->memory, r->in[i]->data);
    for (uint32_t o = 0; o < r->n_out; o++)
        j.out[o] = template_reach(r->out[o]->memory, r->out[o]->data);
    template_submit(r->self, sums_run_job, &j, sizeof j);
    return BP_OK;
}

static const struct bp_engine_op known[] = {{BP_OPROW(add), .types = {BP_M(F32)}}};
const struct bp_engines template_engines = {
    .size = sizeof template_engines,
    .known = known,
    .n_known = 1,
    .known_stride = sizeof *known,
    .claim = sums_claim,
    .compile = sums_compile,
    .run = sums_run,
    .engine_destroy = sums_destroy,
};
