/* SPDX-License-Identifier: Apache-2.0 */
/* engined.c: makes the device with an engine (engined.h): claims, compiles and runs groups, or does
 * one of these wrongly. */
#include "engined.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((visibility("default"))) struct engined engined;
_Thread_local struct engined_cpu engined_cpu;

/* The same as an add-on to the kind cpu. */
#ifdef ENGINED_ADDON
#define WORDS "BP_ENGINED_ADDON"
#ifndef ADDS_TO
#define ADDS_TO "cpu"
#endif
#else
#define WORDS "BP_ENGINED"
#endif

static struct bp_plugin plugin;
static struct bp_engines engines;

/* The cpu plugin, and the hosts of its instances. */
enum {
    INSTANCES = 64
};
static const struct bp_plugin *cpu_plugin;
static struct {
    void *self;
    const struct bp_host *host;
} instances[INSTANCES];

static void engined_enter(void *self)
{
    int i = 0;

    while (i < INSTANCES - 1 && instances[i].self != self) i++;
    engined_cpu = (struct engined_cpu){cpu_plugin, instances[i].host, self};
}

const char *engined_word(const char *key)
{
    const char *at = getenv(WORDS);
    size_t n = strlen(key);

    for (; at && *at; at = *at ? at + 1 : at) {
        if (!strncmp(at, key, n) && at[n] == '=') return at + n + 1;
        at += strcspn(at, " ");
    }
    return NULL;
}

bool engined_has(const char *word)
{
    const char *at = getenv(WORDS);
    size_t n = strlen(word);

    for (; at && *at; at = *at ? at + 1 : at) {
        if (!strncmp(at, word, n) && (!at[n] || at[n] == ' ')) return true;
        at += strcspn(at, " ");
    }
    return false;
}

size_t engined_size(uint32_t dtype)
{
    static const uint8_t bits[64] = {
#define X(NAME, name, number, bits, class) [number] = bits,
        BP_DTYPES(X)
#undef X
    };

    return bits[dtype] / 8;
}

/* ---- claim ---- */

static enum bp_status engined_claim(void *self, const struct bp_graph_data *graph,
                                    struct bp_claim *out)
{
    engined_enter(self);
    atomic_fetch_add(&engined.claims, 1);
    atomic_store(&engined.flags, out->flags);
    atomic_store(&engined.allow, out->allow);
    if (engined_has("claim=none")) return BP_OK;
    if (engined_has("claim=fails"))
        return bp_fail(engined_cpu.host, BP_ERR_DEVICE, "the compiler is not installed");
    engined_claim_all(graph, out);
    if (engined_has("claim=range")) out->group[0] = out->n_group + 7;
    if (engined_has("claim=score")) out->score[0] = -1;
    return BP_OK;
}

/* ---- compile ---- */

struct engine {
    struct engined_views views;
    struct engined_node *node;
    size_t n_node, n_value;
    uint32_t *in, *out, n_in, n_out;
    char **constant;   /* of each value: its contents, owned; or NULL */
    uint64_t *at;      /* of each value: its offset in the memory of a run; of a constant that the
                          host cannot share with the device: in the block */
    uint64_t bytes, plan_at, constant_bytes;
    struct engined_block block; /* the constants on the device */
    bool is_host;               /* the host and the device share memory */
    uint32_t *root;             /* of each value: the value in whose memory it lies by updates */
    bool *updated;              /* of each value: whether nodes update it */
    struct engined_state *state; /* or NULL */
    uint32_t device;
};
struct context {
    struct engined_block block;
    atomic_int busy;
};

static uint64_t size_aligned(uint64_t n)
{
    return (n + 63) / 64 * 64;
}

/* Copies the elements of a constant, which begin at `data`, to a contiguous block. */
static void constant_copy(const struct bp_data_value *value, const struct bp_view *view,
                          const char *data, char *to)
{
    size_t size = engined_size(value->dtype);
    int64_t index[8] = {0};

    for (int64_t i = 0; i < view->count; i++) {
        int64_t at = 0;
        for (uint32_t a = 0; a < value->rank; a++)
            at += index[a] * (value->stride ? value->stride[a] : view->stride[a]);
        memcpy(to + (size_t)i * size, data + (size_t)at * size, size);
        for (uint32_t a = value->rank; a-- > 0 && ++index[a] == value->shape[a];) index[a] = 0;
    }
}

static size_t constant_bytes(const struct engine *e, size_t v)
{
    return (size_t)e->views.view[v].count * engined_size(e->views.view[v].dtype);
}

/* Fetches a constant from the device, contiguous. */
static enum bp_status constant_fetch(struct engine *e, const struct bp_data_value *value,
                                     struct bp_view *view, uint32_t v)
{
    uint64_t bytes = constant_bytes(e, v);
    char *copy = malloc(value->bytes + 1);
    enum bp_status status;

    e->constant[v] = aligned_alloc(64, size_aligned(bytes + 1));
    if (!copy || !e->constant[v]) abort();
    status = engined_read(e->device, value->memory, value->data, copy, value->bytes);
    if (status == BP_OK) constant_copy(value, view, copy, e->constant[v]);
    free(copy);
    e->at[v] = e->constant_bytes;
    e->constant_bytes += size_aligned(bytes);
    return status;
}

/* Writes the constants to the device. */
static enum bp_status constants_upload(struct engine *e)
{
    enum bp_status status = BP_OK;

    if (e->is_host) return BP_OK;
    if (!e->block.size) status = engined_block_make(e->device, e->constant_bytes, &e->block);
    for (size_t v = 0; v < e->n_value && status == BP_OK; v++) {
        struct bp_view *view = &e->views.view[v];
        if (!e->constant[v]) continue;
        view->memory = e->block.memory.handle;
        view->data = (char *)e->block.memory.data + e->at[v];
        status = engined_write(e->device, &e->block, e->at[v], e->constant[v],
                               constant_bytes(e, v));
    }
    return status;
}

static enum bp_status values_place(struct engine *e, const struct bp_graph_data *graph)
{
    for (uint32_t v = 0; v < graph->n_value; v++) {
        const struct bp_data_value *value = engined_value(graph, v);
        struct bp_view *view = &e->views.view[v];
        uint64_t bytes = (uint64_t)view->count * engined_size(value->dtype);
        view->device = (uint16_t)e->device;
        if (value->flags & BP_DATA_FROZEN && e->is_host) {
            e->constant[v] = aligned_alloc(64, size_aligned(bytes + 1));
            if (!e->constant[v]) abort();
            constant_copy(value, view, value->data, e->constant[v]);
            view->data = e->constant[v];
            view->flags |= BP_VIEW_CONSTANT;
        } else if (value->flags & BP_DATA_FROZEN) {
            enum bp_status status = constant_fetch(e, value, view, v);
            if (status) return status;
            view->flags |= BP_VIEW_CONSTANT;
        } else if (value->node != BP_DATA_NONE && !(value->flags & BP_DATA_OUTPUT)) {
            e->at[v] = e->bytes;
            e->bytes += size_aligned(bytes);
        }
    }
    e->plan_at = e->bytes;
    return constants_upload(e);
}

/* ---- save ---- */

static uint64_t checksum_of(const struct engine *e)
{
    uint64_t sum = 14695981039346656037u;

    for (size_t v = 0; v < e->n_value; v++)
        for (size_t i = 0; e->constant[v] && i < constant_bytes(e, v); i++)
            sum = (sum ^ (unsigned char)e->constant[v][i]) * 1099511628211u;
    return sum;
}

static enum bp_status engined_save(void *self, uint32_t device, void *engine, void *ctx,
                                   enum bp_status (*write)(void *ctx, const void *data,
                                                           uint64_t size))
{
    const struct engine *e = engine;
    uint64_t sum = checksum_of(e);
    enum bp_status status = write(ctx, "engined1", 8);

    atomic_fetch_add(&engined.saves, 1);
    if (engined_has("save=fails"))
        return bp_fail(engined_cpu.host, BP_ERR_DEVICE, "the compiler has no export");
    if (!status) status = write(ctx, &sum, sizeof sum);
    for (size_t v = 0; v < e->n_value && !status; v++)
        if (e->constant[v]) status = write(ctx, e->constant[v], constant_bytes(e, v));
    return status;
}

/* Takes the constants from what was saved. false: it is no such thing. */
static bool blob_take(struct engine *e, const struct bp_engine_compile *c)
{
    const char *at = c->blob, *end = at + c->blob_size;
    uint64_t sum;

    if (c->blob_size < 16 || memcmp(at, "engined1", 8) != 0) return false;
    memcpy(&sum, at + 8, sizeof sum);
    at += 16;
    for (size_t v = 0; v < e->n_value; v++) {
        if (!e->constant[v]) continue;
        if ((size_t)(end - at) < constant_bytes(e, v)) return engined_has("blob=trusts");
        memcpy(e->constant[v], at, constant_bytes(e, v));
        at += constant_bytes(e, v);
    }
    return (at == end && sum == checksum_of(e)) || engined_has("blob=trusts");
}

/* ---- nodes ---- */

/* Copies attributes with their lists to one block. */
static void *attrs_copy(const struct bp_data_node *node)
{
    size_t size = node->info->attrs_size, more = 0, at;
    struct bp_dims dims;
    char *copy;

    if (!node->attrs || !size) return NULL;
    for (uint32_t i = 0; i < node->info->n_attr; i++) {
        if (node->info->attr[i].kind != BP_ATTR_DIMS) continue;
        memcpy(&dims, (const char *)node->attrs + node->info->attr[i].offset, sizeof dims);
        more += (size_t)dims.n * sizeof *dims.at;
    }
    copy = malloc(size + more + 1);
    if (!copy) abort();
    memcpy(copy, node->attrs, size);
    at = size;
    for (uint32_t i = 0; i < node->info->n_attr; i++) {
        if (node->info->attr[i].kind != BP_ATTR_DIMS) continue;
        memcpy(&dims, copy + node->info->attr[i].offset, sizeof dims);
        if (dims.n) memcpy(copy + at, dims.at, (size_t)dims.n * sizeof *dims.at);
        if (dims.n) dims.at = (const int64_t *)(const void *)(copy + at);
        at += (size_t)dims.n * sizeof *dims.at;
        memcpy(copy + node->info->attr[i].offset, &dims, sizeof dims);
    }
    return copy;
}

static uint32_t *numbers_copy(const uint32_t *from, size_t n)
{
    uint32_t *to = malloc((n + 1) * sizeof *to);

    if (!to) abort();
    if (n) memcpy(to, from, n * sizeof *to);
    return to;
}

static uint16_t *places_copy(const uint16_t *from, size_t n)
{
    uint16_t *to = malloc((n + 1) * sizeof *to);

    if (!to) abort();
    memcpy(to, from, (n + 1) * sizeof *to);
    return to;
}

static bool node_prepare(struct engine *e, const struct bp_engine_compile *c, uint32_t n)
{
    const struct bp_data_node *from = engined_data_node(c->graph, n);
    struct engined_node *to = &e->node[n];

    if (!engined_find(c->graph, n, e->views.view, c->device, c->width, &to->row, &to->plan))
        return false;
    to->attrs = attrs_copy(from);
    to->in = numbers_copy(from->in, from->n_in);
    to->out = numbers_copy(from->out, from->n_out);
    to->in_at = places_copy(from->in_at, from->info->n_in);
    to->out_at = places_copy(from->out_at, from->info->n_out);
    to->n_in = from->n_in;
    to->n_out = from->n_out;
    for (uint32_t i = 0; i < to->n_in; i++)
        if (to->in[i] != BP_DATA_NONE) to->in[i] = e->root[to->in[i]];
    for (uint32_t o = 0; o < to->n_out; o++) { /* lies in the memory that it updates */
        uint32_t v = engined_updated(from, o);
        if (v == BP_DATA_NONE) continue;
        to->out[o] = e->root[v];
        e->updated[to->out[o]] = true;
        if (from->out[o] != BP_DATA_NONE) e->root[from->out[o]] = to->out[o];
    }
    e->n_node = n + 1;
    if (e->plan_at + size_aligned(to->plan.workspace) + 4096 > e->bytes)
        e->bytes = e->plan_at + size_aligned(to->plan.workspace) + 4096;
    return true;
}

static void engine_destroy(void *self, uint32_t device, void *engine)
{
    struct engine *e = engine;

    engined_enter(self);
    for (size_t n = 0; n < e->n_node; n++) {
        struct engined_node *node = &e->node[n];
        if (node->plan.plan && node->row->plan_destroy)
            node->row->plan_destroy(engined_cpu.self, node->row, node->plan.plan);
        free(node->attrs);
        free(node->in);
        free(node->out);
        free((void *)(uintptr_t)node->in_at);
        free((void *)(uintptr_t)node->out_at);
    }
    for (size_t v = 0; v < e->n_value; v++) free(e->constant[v]);
    engined_block_free(e->device, &e->block);
    engined_views_free(&e->views);
    free(e->node);
    engined_state_destroy(e->state);
    free(e->constant);
    free(e->root);
    free(e->updated);
    free(e->at);
    free(e->in);
    free(e->out);
    free(e);
    atomic_fetch_sub(&engined.engines, 1);
    atomic_fetch_add(&engined.destroyed, 1);
}

static enum bp_status engine_make(const struct bp_engine_compile *c, struct engine **out)
{
    struct engine *e = calloc(1, sizeof *e);
    enum bp_status status;

    if (!e) abort();
    atomic_fetch_add(&engined.engines, 1);
    e->device = c->device;
    e->is_host = engined_is_host(c->device);
    e->n_value = c->graph->n_value;
    e->node = calloc(c->graph->n_node + 1, sizeof *e->node);
    e->constant = calloc(e->n_value + 1, sizeof *e->constant);
    e->at = calloc(e->n_value + 1, sizeof *e->at);
    e->root = calloc(e->n_value + 1, sizeof *e->root);
    e->updated = calloc(e->n_value + 1, sizeof *e->updated);
    e->in = numbers_copy(c->graph->in, c->graph->n_in);
    e->out = numbers_copy(c->graph->out, c->graph->n_out);
    e->n_in = c->graph->n_in;
    e->n_out = c->graph->n_out;
    if (!e->node || !e->constant || !e->at || !e->root || !e->updated) abort();
    for (uint32_t v = 0; v < e->n_value; v++) e->root[v] = v;
    engined_views_fill(c->graph, &e->views);
    status = values_place(e, c->graph);
    for (uint32_t n = 0; n < c->graph->n_node && status == BP_OK; n++)
        if (!node_prepare(e, c, n))
            status = bp_fail(engined_cpu.host, BP_ERR_UNSUPPORTED, "no row for a node");
    if (status == BP_OK)
        status = engined_state_create(c, e->updated, e->views.view, &e->state);
    if (status) engine_destroy(engined_cpu.self, c->device, e);
    else *out = e;
    return status;
}

/* Waits until the core requests an end, or until a test releases the engine. */
static enum bp_status engined_wait(const struct bp_engine_compile *c)
{
    struct timespec pause = {0, 1000000};

    while (engined_has("compile=waits")) {
        if (c->progress(c->ctx, -1, "waiting")) {
            atomic_fetch_add(&engined.cancelled, 1);
            return bp_fail(engined_cpu.host, BP_ERR_CANCELLED, "stopped by the core");
        }
        nanosleep(&pause, NULL);
    }
    for (int i = 0; engined_has("compile=slow") && i < 30; i++) {
        nanosleep(&(struct timespec){0, 10000000}, NULL);
        if (c->progress(c->ctx, i / 30.0, "thinking")) return BP_ERR_CANCELLED;
    }
    while (engined_has("compile=deaf") && !atomic_load(&engined.release)) nanosleep(&pause, NULL);
    return BP_OK;
}

static bool views_equal(const struct bp_view *a, const struct bp_view *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

static void result_fill(const struct bp_engine_compile *c, const struct engine *e,
                        struct bp_engine_compiled *out)
{
    out->workspace = engined_has("contexts") ? 0 : e->bytes;
    out->workspace_alignment = 64;
    out->bytes = 1024;
    out->note = "interpreted";
    for (uint32_t i = 0; i < e->n_in && engined_has("last"); i++)
        out->in_layout[i] = e->views.view[e->in[i]].flags & BP_VIEW_STRIDED
                                ? BP_ENGINE_CHANNELS_LAST : BP_ENGINE_ROW_MAJOR;
    for (uint32_t o = 0; o < e->n_out && engined_has("last"); o++)
        out->out_layout[o] = e->views.view[e->out[o]].flags & BP_VIEW_STRIDED
                                 ? BP_ENGINE_CHANNELS_LAST : BP_ENGINE_ROW_MAJOR;
    for (uint32_t i = e->n_in; engined_has("shares") && e->n_node == 1 && e->n_out == 1 && i-- > 0;)
        if (e->node->row && e->node->row->flags & BP_KERNEL_IN_PLACE &&
            views_equal(&e->views.view[e->in[i]], &e->views.view[e->out[0]]))
            out->may_share[0] = (int32_t)i;
    out->captures = engined_has("captures");
    for (uint32_t i = 0; i < e->n_in; i++) out->keeps[i] = engined_state_keeps(e->state, i);
    if (engined_has("compile=keeps")) out->keeps[0] = 1;
    if (engined_has("compile=keepsmore")) out->keeps[0] = 2;
    if (engined_has("compile=types")) out->out_type[0].extent[0]++;
    if (engined_has("compile=layouts")) out->out_layout[0] = 9;
    if (engined_has("compile=shares")) out->may_share[0] = (int32_t)c->graph->n_in;
    if (engined_has("compile=aligned")) out->workspace_alignment = 48;
}

static enum bp_status engined_compile(void *self, const struct bp_engine_compile *c,
                                      struct bp_engine_compiled *out)
{
    struct engine *e;
    enum bp_status status;

    engined_enter(self);
    atomic_fetch_add(&engined.compiles, 1);
    if (c->flags != atomic_load(&engined.flags) || c->allow != atomic_load(&engined.allow))
        atomic_fetch_add(&engined.differ, 1);
    status = engined_wait(c);
    if (status) return status;
    if (engined_has("compile=fails") || (engined_has("compile=single") && c->graph->n_node > 1))
        return bp_fail(engined_cpu.host, BP_ERR_UNSUPPORTED, "out of registers");
    if (engined_has("compile=empty")) return BP_OK;
    if (c->blob && engined_has("blob=fails"))
        return bp_fail(engined_cpu.host, BP_ERR_DEVICE, "the bytes are of another chip");
    status = engine_make(c, &e);
    if (status) return status;
    if (c->blob && (engined_has("blob=stale") || !blob_take(e, c))) {
        engine_destroy(self, c->device, e);
        return BP_ERR_STALE;
    }
    if (c->blob) status = constants_upload(e);
    if (status) {
        engine_destroy(self, c->device, e);
        return status;
    }
    if (c->blob) atomic_fetch_add(&engined.loads, 1);
    result_fill(c, e, out);
    if (c->blob && engined_has("blob=types")) out->out_type[0].extent[0]++;
    out->engine = e;
    return BP_OK;
}

/* Takes the constants from another group, apart from those that are listed. */
static void constants_take(struct engine *e, const struct bp_engine_refit *r)
{
    const struct engine *from = r->engine;

    for (uint32_t v = 0, k = 0; v < e->n_value; v++) {
        if (k < r->n_value && r->value[k] == v && !engined_has("refit=keeps")) k++;
        else if (e->constant[v]) memcpy(e->constant[v], from->constant[v], constant_bytes(e, v));
    }
}

static enum bp_status engined_refit(void *self, const struct bp_engine_refit *r,
                                    struct bp_engine_compiled *out)
{
    struct timespec pause = {0, 1000000};
    enum bp_status status;
    struct engine *e;

    engined_enter(self);
    atomic_fetch_add(&engined.refits, 1);
    atomic_fetch_add(&engined.changed, (int)r->n_value);
    while (engined_has("refit=deaf") && !atomic_load(&engined.release)) nanosleep(&pause, NULL);
    if (engined_has("refit=stale")) return BP_ERR_STALE;
    if (engined_has("refit=fails"))
        return bp_fail(engined_cpu.host, BP_ERR_DEVICE, "the weights are in a fuse");
    status = engine_make(r->compile, &e);
    if (status) return status;
    constants_take(e, r);
    status = constants_upload(e);
    if (status) {
        engine_destroy(self, r->compile->device, e);
        return status;
    }
    result_fill(r->compile, e, out);
    if (engined_has("refit=types")) out->out_type[0].extent[0]++;
    out->engine = e;
    return BP_OK;
}

/* ---- run ---- */

/* Where the results of nodes are. */
struct place {
    void *memory;
    char *data;
};

static enum bp_status node_run(const struct engine *e, const struct engined_node *node,
                               const struct bp_view *view, const struct bp_engine_run *run,
                               struct place place)
{
    const struct bp_view *in[256], *out[256];
    struct bp_launch l = {.self = engined_cpu.self, .kernel = node->row, .plan = node->plan.plan,
                          .in = in, .out = out, .in_at = node->in_at, .out_at = node->out_at,
                          .n_in = node->n_in, .n_out = node->n_out, .attrs = node->attrs,
                          .workspace = place.data + e->plan_at,
                          .workspace_memory = place.memory,
                          .workspace_size = node->plan.workspace, .stream = run->stream,
                          .device = run->device, .width = run->width, .fault = run->fault,
                          .tag = run->tag};
    uintptr_t align = node->plan.workspace_alignment ? node->plan.workspace_alignment : 64;

    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_DATA_NONE ? NULL : &view[node->in[i]];
    for (uint32_t i = 0; i < node->n_out; i++)
        out[i] = node->out[i] == BP_DATA_NONE ? NULL : &view[node->out[i]];
    l.workspace = (void *)(((uintptr_t)l.workspace + align - 1) / align * align);
    if (node->row) return node->row->launch(&l);
    return engined_copy(run, out[0], in[0],
                        (uint64_t)out[0]->count * engined_size(out[0]->dtype));
}

/* Where a run keeps the results of nodes. */
static struct place run_place(const struct engine *e, const struct bp_engine_run *run)
{
    static struct engined_block crowd;
    const struct context *context = run->context;

    if (engined_has("run=crowded")) {
        if (!crowd.size && engined_block_make(run->device, 1 << 20, &crowd)) abort();
        return (struct place){crowd.memory.handle, crowd.memory.data};
    }
    if (context && context->block.size)
        return (struct place){context->block.memory.handle, context->block.memory.data};
    return (struct place){run->workspace_memory, run->workspace};
}

/* A run of run=none. */
static enum bp_status engined_run_none(const struct bp_engine_run *run)
{
    return BP_OK;
}

static enum bp_status engined_run(const struct bp_engine_run *run)
{
    struct engine *e = run->engine;
    struct context *context = run->context;
    struct bp_view *view = malloc((e->n_value + 1) * sizeof *view), *in;
    enum bp_status status = BP_OK;
    struct place place;

    if (!view) abort();
    engined_enter(run->self);
    place = run_place(e, run);
    atomic_fetch_add(&engined.runs, 1);
    if (context && atomic_fetch_add(&context->busy, 1)) atomic_fetch_add(&engined.busy, 1);
    memcpy(view, e->views.view, e->n_value * sizeof *view);
    for (size_t v = 0; v < e->n_value; v++) {
        if (e->constant[v] || !view[v].count) continue;
        view[v].memory = place.memory;
        view[v].data = place.data + e->at[v];
    }
    in = malloc((e->n_in + 1u) * sizeof *in);
    if (!in) abort();
    for (uint32_t i = 0; i < e->n_in; i++) in[i] = *run->in[i];
    status = engined_state_begin(e->state, run, in);
    for (uint32_t i = 0; i < e->n_in; i++) view[e->in[i]] = in[i];
    for (uint32_t o = 0; o < e->n_out; o++) view[e->out[o]] = *run->out[o];
    for (size_t n = 0; n < e->n_node && status == BP_OK; n++)
        status = node_run(e, &e->node[n], view, run, place);
    status = engined_state_end(e->state, run, status);
    engined_defect(run);
    free(in);
    if (context) nanosleep(&(struct timespec){0, 50000}, NULL); /* so that runs meet */
    if (context) atomic_fetch_sub(&context->busy, 1);
    free(view);
    return engined_has("run=fails")
               ? bp_fail(engined_cpu.host, BP_ERR_DEVICE, "the chip is too hot")
               : status;
}

static enum bp_status engined_give(void *self, uint32_t device, void *engine, uint32_t input,
                                   uint32_t forget, const struct bp_view *view, void *stream)
{
    struct engine *e = engine;

    (void)device;
    engined_enter(self);
    return engined_state_call(self, e->state, input, forget, view, stream);
}

static enum bp_status context_create(void *self, uint32_t device, void *engine, void **out_context)
{
    struct engine *e = engine;
    struct context *c = calloc(1, sizeof *c);
    enum bp_status status;

    if (!c) abort();
    engined_enter(self);
    status = engined_block_make(device, e->bytes, &c->block);
    if (status) {
        free(c);
        return status;
    }
    atomic_fetch_add(&engined.contexts, 1);
    *out_context = c;
    return BP_OK;
}

static void context_destroy(void *self, uint32_t device, void *engine, void *context)
{
    struct context *c = context;

    engined_enter(self);
    engined_block_free(device, &c->block);
    free(c);
    atomic_fetch_sub(&engined.contexts, 1);
}

/* ---- the plugin ---- */

static enum bp_status engined_create(const struct bp_host *host, void **out_self)
{
    enum bp_status status = cpu_plugin->create(host, out_self);
    int i = 0;

    if (status != BP_OK) return status;
    while (i < INSTANCES - 1 && instances[i].self && instances[i].self != *out_self) i++;
    instances[i].self = *out_self;
    instances[i].host = host;
    return BP_OK;
}

#ifdef GRAPH_ONLY
static struct bp_runtime runtime;

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    enum bp_status status = cpu_plugin->runtime->device_properties(self, device, out);

    out->flags |= BP_DEVICE_GRAPH_ONLY;
    return status;
}

/* Makes the plugin one of a kind of its own, without kernels: only the engine uses those of the
 * cpu plugin. */
static void plugin_take_kernels(void)
{
    runtime = *engined_cpu.plugin->runtime;
    runtime.device_properties = device_properties;
    plugin.runtime = &runtime;
    plugin.kernels = NULL;
    plugin.passes = NULL;
    plugin.stream_type = NULL;
    plugin.kind = plugin.name = "graphonly";
    if (engined_has("flag=lone")) plugin.engines = NULL;
}
#endif

const struct bp_plugin *bp_plugin_get(void)
{
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    cpu_plugin = engined_cpu.plugin = get();
    plugin = *engined_cpu.plugin;
    engines = (struct bp_engines){.size = sizeof engines, .known_stride = sizeof *engines.known,
                                  .claim = engined_claim, .compile = engined_compile,
                                  .run = engined_run, .engine_destroy = engine_destroy};
    if (engined_has("run=none")) engines.run = engined_run_none;
    if (engined_has("contexts")) engines.context_create = context_create;
    if (engined_has("contexts")) engines.context_destroy = context_destroy;
    if (engined_has("saves") || engined_word("save")) engines.save = engined_save;
    if (engined_has("refits") || engined_word("refit")) engines.refit = engined_refit;
    if (engined_has("updates")) engines.flags = BP_ENGINE_UPDATES;
    if (!engined_has("state=absent")) engines.state = engined_give;
    engines.n_known = engined_known(&engines.known);
    plugin.name = "engined";
    plugin.create = engined_create;
    plugin.engines = &engines;
#ifdef ENGINED_ADDON
    plugin.name = "engined_addon";
    plugin.adds_to = ADDS_TO;
    plugin.kind = NULL;
    plugin.runtime = NULL;
    plugin.kernels = NULL;
    plugin.captures = NULL;
    plugin.ccl = NULL;
    plugin.profiler = NULL;
#endif
#ifdef GRAPH_ONLY
    plugin_take_kernels();
#endif
    return &plugin;
}
