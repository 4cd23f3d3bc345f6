/* SPDX-License-Identifier: Apache-2.0 */
/* fast.c: the shortest way through a prepared call: one kernel, on an inline stream, that needs
 * nothing but its tensors. Every other call takes launch.c's way, which does the same and more. */
#include "cache.h"

enum { FAST_IN = 4 };

void bp_prepared_rate(struct bp_prepared *p)
{
    const struct bp_step *step = &p->first;

    p->fast = p->simple && p->step == step && p->n_in && p->row->plain && !step->plan.workspace &&
              !step->attrs && !p->bound;
    for (uint32_t i = 0; i < p->n_out; i++) {
        const struct bp_view *v = &p->type[p->n_in + i].view;
        p->fast &= v->rank != BP_ABSENT && !(v->flags & BP_VIEW_STRIDED);
    }
    for (uint32_t i = 0; i < p->n_in; i++) p->fast &= p->type[i].view.rank != BP_ABSENT;
}

/* generation: read once for all handles of a call. */
static inline bool is_of(const struct bp_device *device, const struct bp_tensor *t,
                         const struct bp_typed_view *type, uint32_t generation)
{
    return t && t->magic == BP_MAGIC_TENSOR + generation && t->device == device &&
           t->sig == type->sig;
}

/* Outputs lie in memory apart from all else: whether that is so is looked at no closer. */
static inline bool fits(const struct bp_prepared *p, struct bp_tensor *const *in,
                        struct bp_tensor *const *out, uint32_t generation)
{
    const struct bp_typed_view *type = p->type;
    uint32_t n_in = p->n_in, n_out = p->n_out;

    for (uint32_t i = 0; i < n_in; i++)
        if (!is_of(p->device, in[i], type++, generation)) return false;
    for (uint32_t o = 0; o < n_out; o++) {
        const struct bp_storage *storage;
        if (!is_of(p->device, out[o], type++, generation)) return false;
        storage = out[o]->storage;
        if (atomic_load_explicit(&storage->access, memory_order_relaxed) != BP_ACCESS_WRITE)
            return false;
        for (uint32_t i = 0; i < n_in; i++)
            if (in[i]->storage == storage) return false;
        for (uint32_t i = 0; i < o; i++)
            if (out[i]->storage == storage) return false;
    }
    return true;
}

__attribute__((always_inline)) static inline enum bp_status
run(const struct bp_prepared *p, struct bp_timeline *timeline, struct bp_tensor *const *in,
    struct bp_tensor *const *out, const void *attrs)
{
    const struct bp_step *step = &p->first;
    struct bp_launch l; /* every field is set below: an initialiser would clear it first, slowly */
    enum bp_status status;

    l.self = step->launch.self;
    l.kernel = step->launch.kernel;
    l.plan = step->plan.plan;
    l.in = bp_tensor_views(in);
    l.out = bp_tensor_views(out);
    l.in_at = step->in_at;
    l.out_at = step->out_at;
    l.n_in = p->n_in;
    l.n_out = p->n_out;
    l.attrs = attrs;
    l.workspace = l.workspace_memory = NULL;
    l.workspace_size = 0;
    l.stream = timeline->stream;
    l.device = step->launch.device;
    l.width = step->launch.width;
    l.fault = &timeline->fault;
    l.result = NULL;
    l.seed = l.offset = 0;
    l.rng = NULL;
    l.tag = bp_work_begin(timeline, p->row->info.name);
    status = __builtin_expect(bp_stopping(), 0) ? bp_stopped() : step->kernel->launch(&l);
    bp_work_end(timeline, l.tag);
    for (uint32_t i = 0; i < p->n_out; i++) bp_storage_wrote(out[i]->storage);
    if (__builtin_expect(timeline->fault != 0, 0) && status == BP_OK)
        return bp_fault_take(timeline, step->kernel);
    if (__builtin_expect(status != BP_OK, 0))
        return bp_device_leave(p->device, status, step->kernel->name);
    return BP_OK;
}

enum bp_status bp_fast_run(const struct bp_prepared *p, struct bp_timeline *timeline,
                           struct bp_tensor *const *in, struct bp_tensor *const *out,
                           const void *attrs)
{
    return run(p, timeline, in, out, attrs);
}

enum bp_status bp_prepared_run(struct bp_prepared *p, struct bp_stream *stream,
                               struct bp_tensor *const *in, size_t n_in,
                               struct bp_tensor *const *out, size_t n_out, const void *attrs)
{
    uint32_t generation = bp_generation_now();

    if (__builtin_expect(p && p->magic == BP_MAGIC_PREPARED + generation && p->fast && stream &&
                             stream->scope.magic == BP_MAGIC_STREAM + generation &&
                             stream->timeline->now && stream->device == p->device &&
                             n_in == p->n_in && n_out == p->n_out && in && out && !attrs &&
                             !bp_stream_failed(stream) && fits(p, in, out, generation),
                         1))
        return run(p, stream->timeline, in, out, p->attrs);
    return bp_prepared_run_checked(p, stream, in, n_in, out, n_out, attrs);
}

/* A hit in the stream's table, of a call without more than inputs and KEY attributes. */
static inline struct bp_prepared *find(struct bp_cache *cache, uint64_t hash,
                                       const struct bp_op_row *row, struct bp_tensor *const *in,
                                       uint32_t n_in, const void *attrs)
{
    for (uint64_t i = hash & cache->mask; cache->slot[i].call; i = (i + 1) & cache->mask) {
        struct bp_prepared *p = cache->slot[i].call;
        uint32_t k = 0;
        if (cache->slot[i].hash != hash || p->row != row || !p->fast || p->given ||
            p->n_in != n_in || p->want != 1)
            continue;
        while (k < n_in && bp_same_type(&p->type[k].view, &in[k]->view)) k++;
        if (k < n_in || (attrs && !bp_same_keys(row, p->attrs, attrs))) continue;
        if (!atomic_load_explicit(&p->used, memory_order_relaxed))
            atomic_store_explicit(&p->used, true, memory_order_relaxed);
        cache->pinned = p;
        cache->hits++;
        return p;
    }
    return NULL;
}

/* The signature, as bp_eager_hash makes it. */
static inline bool sign(const struct bp_stream *stream, const struct bp_op_row *row,
                        const struct bp_arg *in, const void *attrs, struct bp_tensor **flat,
                        uint64_t *out_hash)
{
    uint64_t h = bp_sign_mix(bp_sign_key[1], (uint64_t)(uintptr_t)row ^ UINT64_C(1) << 48);

    for (uint32_t i = 0; i < row->info.n_in; i++) {
        struct bp_tensor *t = bp_arg_one(&in[i]);
        if (!bp_tensor_is(t) || t->device != stream->device || t->view.flags & BP_VIEW_CONSTANT)
            return false;
        h = bp_sign_mix(h, t->sig);
        flat[i] = t;
    }
    for (uint64_t m = attrs ? row->key_words : 0; m; m &= m - 1)
        h = bp_sign_mix(h, bp_attrs_word(attrs, (uint32_t)__builtin_ctzll(m)));
    *out_hash = h;
    return true;
}

/* Attributes in full length, if the call's struct has that. */
static inline bool take_attrs(const struct bp_op_row *row, const void *given, const void **out)
{
    size_t size;

    *out = row->info.defaults;
    if (!given) return true;
    memcpy(&size, given, sizeof size);
    *out = given;
    return size == row->info.attrs_size && !row->has_run && row->info.attrs_size;
}

bool bp_fast_call(struct bp_stream *stream, const struct bp_op_row *row, const struct bp_arg *in,
                  const void *attrs, struct bp_tensor **out, enum bp_status *out_status)
{
    struct bp_tensor *flat[FAST_IN], *result;
    struct bp_cache *cache = stream->cache;
    struct bp_prepared *p;
    bool alone = BP_SINGLE_THREADED;
    enum bp_status status;
    uint64_t hash;

    if (!cache || !stream->timeline->now || bp_stream_failed(stream) ||
        !take_attrs(row, attrs, &attrs) || !sign(stream, row, in, attrs, flat, &hash))
        return false;
    if (!alone) pthread_mutex_lock(&cache->lock);
    p = find(cache, hash, row, flat, row->info.n_in, attrs);
    if (!alone) pthread_mutex_unlock(&cache->lock);
    if (!p) return false;
    status = bp_tensor_make_like(p->device, stream->timeline, &p->type[p->n_in], &result);
    if (status == BP_OK) {
        status = run(p, stream->timeline, flat, &result, attrs);
        if (status == BP_OK) *out = result;
        else bp_tensor_destroy(result);
    }
    *out_status = status;
    return true;
}
