/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs eager calls: a call with a known signature is found in the stream's table and
 * launched; any other call is checked and prepared first. */
#include "../device/profiled.h"
#include "../graph/graph.h"
#include "cache.h"

#include <stdlib.h>
#include <string.h>

/* A table of calls keeps at most so many steps, and so many bytes of plans. */
enum { STEPS_STREAM = 4096, STEPS_DEVICE = 16384 };
static const uint64_t plans_max = UINT64_C(1) << 30;

/* One call on a stream. result: room for all outputs, initially NULL. */
struct request {
    struct bp_stream *stream;
    const struct bp_opdef *row;
    const struct bp_call *call;
    const uint8_t *want; /* n_want flags; NULL: all are wanted */
    size_t n_want;
    struct bp_tensor *const *given; /* preallocated outputs, NULL for those to create; NULL: none is
                                       preallocated */
    struct bp_tensor **result;
    bool held; /* the contents of the inputs are held in memory */
};

/* Writes the arguments into one list, for the signature. false: an argument is invalid, and the
 * checked path will report the error. */
static bool call_flatten(struct bp_eager *e, const struct bp_arg *in, size_t n_in)
{
    const struct bp_opinfo *op = &e->row->info;
    uint32_t n = 0;

    if (n_in > op->n_in || (n_in && !in)) return false;
    for (uint32_t port = 0; port < op->n_in; port++) {
        size_t given = port < n_in ? in[port].n : 0;
        uint8_t kind = op->in[port].kind;
        e->in_at[port] = (uint16_t)n;
        if (kind == BP_PORT_VAR ? given > BP_FLAT_MAX - n : given > 1) return false;
        if (n + 1 >= BP_FLAT_MAX || (given && !in[port].at)) return false;
        if (kind == BP_PORT_HOST || (!given && kind == BP_PORT_OPT)) {
            e->in[n++] = NULL; /* its value is in the attributes */
            continue;
        }
        for (size_t i = 0; i < given; i++) {
            struct bp_tensor *t = in[port].at[i];
            if (t && (!bp_tensor_is(t) || t->device != e->device)) return false;
            if (!t && kind != BP_PORT_OPT) return false;
            if (t && __builtin_expect(t->view.flags & BP_VIEW_CONSTANT, 0))
                e->sourced |= t->buffer->source != NULL;
            e->in[n++] = t;
        }
    }
    e->in_at[op->n_in] = (uint16_t)n;
    e->n_in = n;
    return true;
}

/* Stores the preallocated outputs, some of which may be an input. */
static bool call_set_outputs(struct bp_eager *e, struct bp_tensor *const *given)
{
    const struct bp_opinfo *op = &e->row->info;

    for (uint32_t i = 0; i < op->n_out; i++) {
        struct bp_tensor *t = given[i];
        int share = op->out[i].share;
        e->out[i] = t;
        if (!t) continue;
        if (!bp_tensor_is(t) || t->device != e->device) return false;
        e->given |= 1u << i;
        if (share < 0 || op->out[i].kind == BP_PORT_UPDATE) continue; /* always is its input */
        if (e->in_at[share] == e->in_at[share + 1]) continue;
        if (e->in[e->in_at[share]] && e->in[e->in_at[share]]->buffer == t->buffer &&
            e->in[e->in_at[share]]->offset == t->offset && t->view.count)
            e->in_place = true;
    }
    return true;
}

/* Returns the attributes in full length. They are copied (the caller frees *out_own) only if the
 * app's struct has another length. */
static enum bp_status call_copy_attrs(struct bp_eager *e, const void *given, void **out_own)
{
    const struct bp_opinfo *op = &e->row->info;
    size_t size = 0;

    *out_own = NULL;
    e->attrs = op->defaults;
    if (!given) return BP_OK;
    memcpy(&size, given, sizeof size);
    e->attrs = given;
    if (size == op->attrs_size && op->attrs_size && !e->row->has_run)
        return e->row->has_lists ? bp_attrs_check(op, given) : BP_OK; /* the hash reads the lists */
    TRY(bp_attrs_copy(op, given, out_own));
    e->attrs = *out_own;
    return BP_OK;
}

/* Creates the table of the stream; the first stream also creates the device's table. */
static enum bp_status call_open_caches(struct bp_stream *stream)
{
    struct bp_device *device = stream->device;
    struct bp_cache *calls = NULL;

    TRY(bp_cache_create(stream->timeline, STEPS_STREAM, plans_max, &stream->cache));
    if (atomic_load(&device->calls)) return BP_OK;
    TRY(bp_cache_create(device->host, STEPS_DEVICE, plans_max, &calls));
    {
        struct bp_cache *none = NULL;
        if (!atomic_compare_exchange_strong(&device->calls, &none, calls)) bp_cache_destroy(calls);
    }
    return BP_OK;
}

/* Checks and prepares a call that is in neither table. */
static enum bp_status call_prepare(const struct request *r, uint64_t hash,
                                   struct bp_prepared **out_prepared)
{
    struct bp_invocation inv;
    enum bp_status status;

    TRY(bp_invocation_init(&inv, r->stream->device, NULL, r->call, r->want, r->n_want));
    status = r->given ? bp_invocation_set_outputs(&inv, r->given) : BP_OK;
    if (status == BP_OK) status = bp_prepared_make(&inv, out_prepared);
    bp_invocation_finish(&inv);
    if (status == BP_OK) (*out_prepared)->hash = hash;
    return status;
}

/* Finds a call in the device's table or prepares it, and adds it to both tables. */
static enum bp_status call_find_or_prepare(const struct request *r, struct bp_eager *e,
                                           struct bp_prepared **out_prepared)
{
    struct bp_stream *stream = r->stream;
    struct bp_cache *shared;
    struct bp_prepared *p;
    enum bp_status status;

    if (!stream->cache) TRY(call_open_caches(stream));
    shared = atomic_load(&stream->device->calls);
    p = bp_cache_find(shared, e, true);
    if (!p) {
        TRY(call_prepare(r, e->hash, &p));
        bp_prepared_retain(p);
        if (bp_cache_add(shared, p)) bp_prepared_release(p);
    }
    status = bp_cache_add(stream->cache, p);
    if (status) bp_prepared_release(p);
    else *out_prepared = p;
    return status;
}

/* Creates the outputs that are not preallocated. */
static enum bp_status call_make_outputs(const struct bp_prepared *p, struct bp_timeline *owner,
                                        struct bp_tensor *const *given, struct bp_tensor **result)
{
    const struct bp_typed_view *type = p->type + p->n_in;

    for (uint32_t i = 0; i < p->n_out; i++) {
        enum bp_status status = BP_OK;
        result[i] = given ? given[i] : NULL;
        if (!result[i] && type[i].view.rank != BP_ABSENT)
            status = bp_tensor_create_like(p->device, owner, &type[i], &result[i]);
        if (!status) continue;
        while (i-- > 0)
            if (!given || !given[i]) bp_tensor_destroy(result[i]);
        return status;
    }
    return BP_OK;
}

static enum bp_status call_with_outputs(const struct request *r, struct bp_prepared *p,
                                        struct bp_eager *e)
{
    struct bp_run run = {.attrs = e->attrs};
    enum bp_status status = BP_OK;

    TRY(call_make_outputs(p, r->stream->timeline, r->given, r->result));
    for (uint32_t i = 0; r->given && i < p->n_out && status == BP_OK; i++)
        if (r->given[i]) status = bp_prepared_check_output(p, e->in, r->result, i);
    if (status == BP_OK)
        status = p->fast && !r->given && r->stream->timeline->is_inline &&
                         !bp_device_has_writebacks(p->device)
                     ? bp_prepared_launch_fast(p, r->stream->timeline, e->in, r->result, e->attrs)
                     : bp_prepared_execute(p, r->stream, e->in, r->result, &run);
    for (uint32_t i = 0; status && i < p->n_out; i++)
        if (!r->given || !r->given[i]) bp_tensor_destroy(r->result[i]);
    return status;
}

static enum bp_status call_kernels(const struct request *r);

/* Runs a call while the contents of its inputs are held in memory. */
static __attribute__((noinline)) enum bp_status call_holding(const struct request *r)
{
    struct bp_holds holds = {.n = 0};
    const struct bp_opinfo *op = &r->row->info;
    struct request again = *r;
    enum bp_status status = BP_OK;

    for (size_t i = 0; r->call->in && i < r->call->n_in && i < op->n_in && !status; i++) {
        const struct bp_arg *arg = &r->call->in[i]; /* a false number is reported later */
        if (arg->at && arg->n <= (op->in[i].kind == BP_PORT_VAR ? BP_FLAT_MAX : 1))
            status = bp_holds_add(&holds, arg->at, arg->n);
    }
    again.held = true;
    if (status == BP_OK) status = call_kernels(&again);
    bp_holds_end(&holds);
    return status;
}

/* Runs a call that needs only kernels, by its signature. */
static enum bp_status call_cached(const struct request *r)
{
    const struct bp_opdef *row = r->row;
    struct bp_stream *stream = r->stream;
    struct bp_eager e;
    struct bp_prepared *p = NULL;
    enum bp_status status;
    void *own;

    if (__builtin_expect(bp_stream_refuses_calls(stream), 0)) return bp_stream_check_calls(stream);
    e.row = row;
    e.device = stream->device;
    e.want = e.given = 0;
    e.in_place = e.sourced = false;
    for (size_t i = 0; i < r->n_want && i < BP_PORT_MAX; i++)
        e.want |= (uint32_t)(!r->want || r->want[i]) << i;
    if (r->n_want > row->info.n_out || !call_flatten(&e, r->call->in, r->call->n_in) ||
        (r->given && !call_set_outputs(&e, r->given))) {
        TRY(call_prepare(r, 0, &p)); /* the checked path writes the error */
        bp_prepared_release(p);
        return bp_error(BP_ERR_INTERNAL, "%s: the arguments are odd, and nothing says why",
                        row->info.name);
    }
    if (__builtin_expect(e.sourced && !r->held, 0)) return call_holding(r);
    TRY(call_copy_attrs(&e, r->call->attrs, &own));
    e.hash = bp_eager_hash(&e);
    if (__builtin_expect(stream->cache != NULL, 1)) p = bp_cache_find(stream->cache, &e, false);
    status = p ? BP_OK : call_find_or_prepare(r, &e, &p);
    if (status == BP_OK) status = call_with_outputs(r, p, &e);
    if (__builtin_expect(own != NULL, 0)) free(own);
    return status;
}

/* Prepares and runs a call without the tables: the caller named a kernel, or the number of outputs
 * is not part of the signature. */
static enum bp_status call_uncached(const struct request *r)
{
    struct bp_eager e = {.row = r->row, .device = r->stream->device};
    struct bp_prepared *p;
    enum bp_status status;

    if (!r->held) return call_holding(r);
    TRY(bp_stream_check_calls(r->stream));
    TRY(call_prepare(r, 0, &p));
    e.attrs = p->attrs;
    if (call_flatten(&e, r->call->in, r->call->n_in)) status = call_with_outputs(r, p, &e);
    else status = bp_error(BP_ERR_INTERNAL, "%s: odd arguments", r->row->info.name);
    bp_prepared_release(p);
    return status;
}

static enum bp_status call_kernels(const struct request *r)
{
    return r->call->kernel || r->row->varies ? call_uncached(r) : call_cached(r);
}

/* Runs an operator with updates. An output that updates an input is that input: the caller gets a
 * new reference to it. */
static enum bp_status call_update(const struct request *r)
{
    const struct bp_opinfo *op = &r->row->info;
    const struct bp_call *call = r->call;
    struct bp_tensor *place[BP_PORT_MAX];
    uint8_t all[BP_PORT_MAX] = {0};
    struct request whole = *r;

    for (uint32_t i = 0; i < op->n_out; i++) {
        int share = op->out[i].share;
        place[i] = r->given ? r->given[i] : NULL;
        all[i] = i < r->n_want && (!r->want || r->want[i]);
        if (op->out[i].kind != BP_PORT_UPDATE || (size_t)share >= call->n_in ||
            !call->in || call->in[share].n != 1 || !call->in[share].at ||
            !bp_tensor_is(call->in[share].at[0]))
            continue; /* the checked path writes the error */
        if (!place[i]) place[i] = call->in[share].at[0];
        all[i] = 1;
    }
    whole.want = all;
    whole.n_want = r->n_want > op->n_out ? r->n_want : op->n_out; /* too many are refused later */
    whole.given = place;
    TRY(call_kernels(&whole));
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (op->out[i].kind != BP_PORT_UPDATE || (r->given && r->given[i])) continue;
        if (i < r->n_want && (!r->want || r->want[i])) bp_tensor_retain(r->result[i]);
        else r->result[i] = NULL;
    }
    return BP_OK;
}

/* Runs a view operator: new tensors share the memory of the input, or of a dense copy of it. */
static enum bp_status call_view(const struct request *r)
{
    int share = r->row->info.out[0].share;
    struct bp_arg in[BP_PORT_MAX];
    struct bp_call call = *r->call;
    struct bp_tensor *dense = NULL, **out = &dense;
    struct request again = *r;
    enum bp_status status;
    bool copies;

    TRY(bp_call_view(r->stream, r->row, r->call, r->want, r->n_want, r->result, &copies));
    if (!copies) return BP_OK;
    TRY(bp_call_typed(&r->stream->scope, BP_ROW_assign, &call.in[share], 1, NULL, &out, 1));
    for (size_t i = 0; i < call.n_in && i < BP_PORT_MAX; i++) in[i] = call.in[i];
    in[share] = (struct bp_arg){&dense, 1};
    call.in = in;
    again.call = &call;
    status = call_view(&again);
    bp_tensor_destroy(dense);
    return status;
}

/* Runs a call. Attribute values that are passed as tensors are read first. */
static enum bp_status call_execute(const struct request *r)
{
    const struct bp_opdef *row = r->row;
    struct bp_call filled;
    struct request with;
    void *attrs = NULL;
    enum bp_status status;

    if (row->plain) return call_kernels(r);
    filled = *r->call;
    if (row->has_host) {
        TRY(bp_stream_check_calls(r->stream));
        TRY(bp_host_values(r->stream, row, filled.in, filled.n_in, filled.attrs, &attrs));
        if (attrs) filled.attrs = attrs;
    }
    with = *r;
    with.call = &filled;
    if (row->is_view && !r->given) status = call_view(&with);
    else status = row->updates ? call_update(&with) : call_kernels(&with);
    free(attrs);
    return status;
}

/* Runs a call like call_execute; the stream's watcher is called before and after it. */
static enum bp_status call_watched(const struct request *r)
{
    struct bp_stream *stream = r->stream;
    struct bp_tensor *in[BP_FLAT_MAX];
    struct bp_call filled = *r->call;
    struct bp_watched watched = {.size = sizeof watched, .op = &r->row->info, .in = in};
    struct bp_invocation inv;
    void *attrs = NULL;
    enum bp_status status;

    TRY(bp_stream_check_calls(stream));
    if (r->row->has_host)
        TRY(bp_host_values(stream, r->row, filled.in, filled.n_in, filled.attrs, &attrs));
    if (attrs) filled.attrs = attrs;
    status = bp_invocation_init(&inv, stream->device, NULL, &filled, r->want, r->n_want);
    free(attrs);
    if (status) return status;
    bp_invocation_flatten(&inv, r->call, in);
    watched.attrs = inv.attrs;
    watched.n_in = inv.n_in;
    watched.n_out = inv.n_out;
    stream->watched = true;
    stream->watcher(stream->watcher_ctx, &watched);
    status = call_execute(r);
    watched.out = r->result;
    if (status == BP_OK && stream->watcher) stream->watcher(stream->watcher_ctx, &watched);
    stream->watched = false;
    bp_invocation_finish(&inv);
    return status;
}

enum bp_status bp_stream_watch(struct bp_stream *stream, bp_watcher *watcher, void *ctx)
{
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    stream->watcher = watcher;
    stream->watcher_ctx = ctx;
    stream->inline_device = stream->flags & BP_STREAM_INLINE && !watcher ? stream->device : NULL;
    return BP_OK;
}

enum bp_status bp_stream_calls(struct bp_stream *stream, struct bp_call_stats *out)
{
    struct bp_call_stats s = {.size = sizeof s};
    struct bp_cache *shared;

    if (!bp_stream_is(stream)) return bp_not_a("stream");
    shared = atomic_load(&stream->device->calls);
    if (stream->cache) bp_cache_stats(stream->cache, &s);
    if (shared) s.prepared = bp_cache_added(shared);
    return bp_info_fill(out, &s, sizeof s);
}

static enum bp_status call_find_op(const struct bp_call *call, const struct bp_opdef **out_row)
{
    TRY(bp_call_check(call));
    *out_row = bp_opdef_find(call->op);
    if (*out_row) return BP_OK;
    return bp_error(BP_ERR_NOT_FOUND,
                    "operator '%.64s': there is none of this name (`bp ops` lists them)", call->op);
}

static enum bp_status call_refuse_scope(const struct bp_scope *scope)
{
    if ((!bp_scope_is(scope, BP_MAGIC_STREAM) && bp_handle_was_stale()) ||
        (!bp_scope_is(scope, BP_MAGIC_GRAPH) && bp_handle_was_stale()))
        return bp_not_a_for("the operator call", "scope");
    /* the scope of a stale handle is NULL */
    if (!scope && (bp_process_is_stopping() || bp_handle_was_last_stale()))
        return bp_error_stale("the operator call", "scope");
    return bp_error(BP_ERR_INVALID,
                    "expected a scope (bp_stream_scope, bp_graph_scope), got NULL or something "
                    "else");
}

/* Runs a call on its stream, and records it in a profile. */
static enum bp_status call_on_stream(const struct request *r)
{
    uint64_t began = bp_profile_begin();
    enum bp_status status =
        r->stream->watcher && !r->stream->watched ? call_watched(r) : call_execute(r);

    if (began)
        bp_device_profile_put(r->stream->device, r->stream->timeline, BP_PROFILE_CALL,
                              r->row->info.name, began);
    return status;
}

/* Runs the call on a stream, or records it in a graph, depending on the scope. */
static enum bp_status call_dispatch(struct bp_scope *scope, const struct bp_opdef *row,
                                    const struct bp_call *call, const uint8_t *want, size_t n_want,
                                    struct bp_tensor *const *given, struct bp_tensor **result)
{
    if (bp_scope_is(scope, BP_MAGIC_STREAM)) {
        struct request r = {(struct bp_stream *)scope, row, call, want, n_want, given, result,
                            false};
        return call_on_stream(&r);
    }
    if (!bp_scope_is(scope, BP_MAGIC_GRAPH)) return call_refuse_scope(scope);
    if (given)
        return bp_error(BP_ERR_INVALID, "%s: a recorded call makes its outputs: give NULL",
                        row->info.name);
    return bp_graph_trace((struct bp_graph *)scope, row, call, result, n_want, want);
}

enum bp_status bp_call_run(struct bp_scope *scope, const struct bp_call *call,
                           struct bp_tensor **out, size_t n_out, const uint8_t *want)
{
    struct bp_tensor *given[BP_FLAT_MAX + BP_PORT_MAX], *result[BP_FLAT_MAX + BP_PORT_MAX];
    struct bp_call own = {.kernel = NULL};
    const struct bp_opdef *row;
    size_t room; /* larger counts are refused later */
    bool any = false;

    if (!bp_scope_is(scope, BP_MAGIC_STREAM) && !bp_scope_is(scope, BP_MAGIC_GRAPH))
        return call_refuse_scope(scope);
    if (n_out && !out) return bp_error(BP_ERR_INVALID, "bp_call_run: out is NULL");
    TRY(call_find_op(call, &row));
    memcpy(&own, call, BP_HAS(call, kernel) ? sizeof own : offsetof(struct bp_call, kernel));
    own.size = sizeof own;
    room = row->varies ? BP_FLAT_MAX : row->info.n_out;
    if (n_out < room) room = n_out;
    for (size_t i = 0; i < room + row->info.n_out; i++) { /* optional outputs may be left out */
        given[i] = i < room && (!want || want[i]) ? out[i] : NULL;
        result[i] = NULL;
        any |= given[i] != NULL;
    }
    TRY(call_dispatch(scope, row, &own, want, n_out, any ? given : NULL, result));
    for (size_t i = 0; i < room; i++)
        if (result[i]) out[i] = result[i];
    return BP_OK;
}

static __attribute__((noinline)) enum bp_status call_typed_slow(
    struct bp_scope *scope, const struct bp_opdef *row, const struct bp_arg *in, size_t n_in,
    const void *attrs, struct bp_tensor **const *out, size_t n_out)
{
    struct bp_call call = {.size = sizeof call, .op = row->info.name, .in = in, .n_in = n_in,
                           .attrs = attrs};
    struct bp_tensor *result[BP_PORT_MAX], *given[BP_PORT_MAX];
    uint8_t want[BP_PORT_MAX] = {0};
    bool any = false;

    for (size_t i = 0; i < n_out; i++) {
        want[i] = out[i] != NULL;
        given[i] = out[i] ? *out[i] : NULL;
        any |= given[i] != NULL;
        result[i] = NULL;
    }
    TRY(call_dispatch(scope, row, &call, want, n_out, any ? given : NULL, result));
    for (size_t i = 0; i < n_out; i++)
        if (out[i]) *out[i] = result[i];
    return BP_OK;
}

enum bp_status bp_call_typed(struct bp_scope *scope, enum bp_row_number number,
                             const struct bp_arg *in, size_t n_in, const void *attrs,
                             struct bp_tensor **const *out, size_t n_out)
{
    const struct bp_opdef *row = &bp_opdef[number];
    enum bp_status status;

    if (row->simple && out[0] && !*out[0] && bp_scope_is(scope, BP_MAGIC_STREAM) &&
        bp_call_fast((struct bp_stream *)scope, row, in, attrs, out[0], &status))
        return status;
    return call_typed_slow(scope, row, in, n_in, attrs, out, n_out);
}

enum bp_status bp_call_groups(struct bp_scope *scope, enum bp_row_number number,
                              const struct bp_arg *in, size_t n_in, const void *attrs,
                              const struct bp_room *out, size_t n_out)
{
    const struct bp_opdef *row = &bp_opdef[number];
    struct bp_call call = {.size = sizeof call, .op = row->info.name, .in = in, .n_in = n_in,
                           .attrs = attrs};
    struct bp_tensor *result[BP_FLAT_MAX], *given[BP_FLAT_MAX] = {NULL};
    uint8_t want[BP_FLAT_MAX];
    size_t n = 0;
    bool any = false;

    if (!bp_scope_is(scope, BP_MAGIC_STREAM) && !bp_scope_is(scope, BP_MAGIC_GRAPH))
        return call_refuse_scope(scope);
    for (size_t port = 0; port < n_out; port++) {
        if (out[port].n > BP_FLAT_MAX - n)
            return bp_error(BP_ERR_INVALID, "%s: room for %zu outputs %s, expected at most %zu",
                            row->info.name, out[port].n, row->info.out[port].name,
                            BP_FLAT_MAX - n);
        for (size_t i = 0; i < out[port].n; i++, n++) {
            want[n] = out[port].at != NULL;
            given[n] = out[port].at ? out[port].at[i] : NULL;
            any |= given[n] != NULL;
            result[n] = NULL;
        }
    }
    TRY(call_dispatch(scope, row, &call, want, n, any ? given : NULL, result));
    n = 0;
    for (size_t port = 0; port < n_out; port++)
        for (size_t i = 0; i < out[port].n; i++, n++)
            if (out[port].at) out[port].at[i] = result[n];
    return BP_OK;
}
