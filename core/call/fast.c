/* SPDX-License-Identifier: Apache-2.0 */
/* fast.c: runs calls by the shortest path: one kernel with one output, on an inline stream, that
 * needs only its tensors. Other calls use launch.c, which does the same and more. */
#include "../memory/pool.h"
#include "cache.h"
#include "profile_launch.h"

/* Whether the tensors match the types of the prepared call and the output overlaps no input. Only
 * addresses are compared: the check does not depend on the owners of the memory. */
static inline bool fast_fits(const struct bp_prepared *p, struct bp_tensor *const *in,
                             const struct bp_tensor *out)
{
    uint32_t n_in = p->n_in;
    uintptr_t z;

    if (!out || out->sig != p->sig[n_in] ||
        atomic_load_explicit(&out->buffer->access, memory_order_relaxed) != BP_ACCESS_WRITE)
        return false;
    z = (uintptr_t)out->view.data;
    for (uint32_t i = 0; i < n_in; i++) {
        uintptr_t x;
        if (!in[i] || in[i]->sig != p->sig[i]) return false;
        x = (uintptr_t)in[i]->view.data;
        if (x - z < p->bytes || z - x < p->span[i]) return false;
    }
    return true;
}

static __attribute__((noinline)) enum bp_status fast_explain(const struct bp_prepared *p,
                                                             struct bp_timeline *timeline,
                                                             enum bp_status status)
{
    if (status == BP_OK) return bp_fault_report(timeline, p->first.kernel);
    timeline->fault = 0;
    return bp_kernel_leave(p->device, status, p->first.kernel);
}

__attribute__((always_inline)) static inline enum bp_status fast_launch(
    const struct bp_prepared *p, struct bp_timeline *timeline, struct bp_tensor *const *in,
    struct bp_tensor *const *out, const void *attrs, bool profiled)
{
    struct bp_launch l = p->first.launch;
    uint64_t began = 0;
    enum bp_status status;

    l.in = bp_tensor_views(in);
    l.out = bp_tensor_views(out);
    l.attrs = attrs;
    l.stream = timeline->stream;
    l.fault = &timeline->fault;
    l.tag = bp_work_begin_unnamed(timeline);
    if (__builtin_expect(bp_process_is_stopping(), 0)) {
        bp_work_end(timeline, l.tag);
        return bp_error_stopped();
    }
    if (profiled) began = bp_profile_begin();
    status = l.kernel->launch(&l);
    bp_work_end(timeline, l.tag);
    if (profiled && began) bp_profile_launch(timeline, &l, p->row, NULL, began);
    bp_buffer_record_write_short(out[0]->buffer);
    if (__builtin_expect(timeline->fault != 0 || status != BP_OK, 0))
        return fast_explain(p, timeline, status);
    return BP_OK;
}

enum bp_status bp_prepared_launch_fast(const struct bp_prepared *p, struct bp_timeline *timeline,
                                       struct bp_tensor *const *in, struct bp_tensor *const *out,
                                       const void *attrs)
{
    return fast_launch(p, timeline, in, out, attrs, bp_profile_is_on());
}

static __attribute__((noinline)) enum bp_status fast_run_profiled(struct bp_prepared *p,
                                                                  struct bp_stream *stream,
                                                                  struct bp_tensor *const *in,
                                                                  struct bp_tensor *const *out)
{
    return fast_launch(p, stream->timeline, in, out, p->attrs, true);
}

enum bp_status bp_prepared_run(struct bp_prepared *p, struct bp_stream *stream,
                               struct bp_tensor *const *in, size_t n_in,
                               struct bp_tensor *const *out, size_t n_out, const void *attrs)
{
    uint32_t generation = bp_generation_now();

    if (__builtin_expect(p && p->fast == BP_MAGIC_PREPARED + generation && stream &&
                             stream->scope.magic == BP_MAGIC_STREAM + generation &&
                             stream->inline_device == p->device && n_in == p->n_in && n_out == 1 &&
                             in && out && !attrs && !bp_stream_refuses_calls(stream) &&
                             fast_fits(p, in, out[0]),
                         1)) {
        if (!bp_device_needs_care(stream->device))
            return fast_launch(p, stream->timeline, in, out, p->attrs, false);
        if (bp_device_is_only_profiled(stream->device))
            return fast_run_profiled(p, stream, in, out);
    }
    return bp_prepared_run_slow(p, stream, in, n_in, out, n_out, attrs);
}

/* Finds a call in the stream's table. Called under the table's lock. */
static inline struct bp_prepared *fast_find(struct bp_cache *cache, uint64_t hash,
                                            const struct bp_opdef *row, struct bp_tensor *const *in,
                                            const void *attrs)
{
    for (uint64_t i = hash & cache->mask; cache->slot[i].call; i = (i + 1) & cache->mask) {
        struct bp_prepared *p = cache->slot[i].call;
        uint32_t k = 0;
        if (cache->slot[i].hash != hash || p->eager != row) continue;
        while (k < p->n_in && p->sig[k] == in[k]->sig && in[k]->device == p->device &&
               bp_same_type(&p->type[k].view, &in[k]->view))
            k++;
        if (k < p->n_in || (attrs && !bp_same_keys(row, p->attrs, attrs))) continue;
        if (!atomic_load_explicit(&p->used, memory_order_relaxed))
            atomic_store_explicit(&p->used, true, memory_order_relaxed);
        cache->pinned = p;
        cache->hits++;
        return p;
    }
    return NULL;
}

/* Computes the signature like bp_eager_hash for inputs that are no constants. The signature of a
 * handle that is no tensor, or of a tensor of another device, matches no call in the table. */
static inline bool fast_sign(const struct bp_opdef *row, const struct bp_arg *in, const void *attrs,
                             struct bp_tensor **flat, uint64_t *out_hash)
{
    uint64_t h = bp_signature_mix(bp_signature_key[1], (uint64_t)(uintptr_t)row ^ UINT64_C(1)
                                                                                      << 48);

    for (uint32_t i = 0; i < row->info.n_in; i++) {
        flat[i] = bp_arg_one(&in[i]);
        if (!flat[i]) return false;
        h = bp_signature_mix(h, flat[i]->sig);
    }
    for (uint64_t m = attrs ? row->key_words : 0; m; m &= m - 1)
        h = bp_signature_mix(h, bp_attrs_word(attrs, (uint32_t)__builtin_ctzll(m)));
    *out_hash = h;
    return true;
}

/* Returns the attributes in full length, if the app's struct has this length. false: the fast path
 * does not apply. */
static inline bool fast_take_attrs(const struct bp_opdef *row, const void *given, const void **out)
{
    size_t size;

    *out = row->info.defaults;
    if (!given) return true;
    memcpy(&size, given, sizeof size);
    *out = given;
    return size == row->info.attrs_size && !row->has_run && row->info.attrs_size;
}

/* Takes one lock for both the call and the memory of its result. */
__attribute__((always_inline)) static inline bool fast_call(
    struct bp_stream *stream, const struct bp_opdef *row, const struct bp_arg *in,
    const void *attrs, struct bp_tensor **out, enum bp_status *out_status, bool profiled)
{
    struct bp_tensor *flat[BP_FAST_IN], *result;
    struct bp_timeline *timeline = stream->timeline;
    struct bp_pool *pool = bp_pool_find(timeline, BP_SPACE_DEVICE);
    struct bp_buffer *buffer = NULL;
    const struct bp_typed_view *type;
    struct bp_prepared *p;
    uint64_t hash;

    if (!stream->cache || stream->cache->pool != pool || !stream->inline_device ||
        bp_stream_refuses_calls(stream) || !fast_take_attrs(row, attrs, &attrs) ||
        !fast_sign(row, in, attrs, flat, &hash))
        return false;
    bp_pool_lock(pool);
    p = fast_find(stream->cache, hash, row, flat, attrs);
    if (p) buffer = bp_pool_alloc(pool, p->bytes);
    bp_pool_unlock(pool);
    if (!p) return false;
    type = &p->type[p->n_in];
    if (buffer) result = bp_tensor_init_like(buffer, type, p->sig[p->n_in]);
    else *out_status = bp_tensor_create_like(p->device, timeline, type, &result);
    if (!buffer && *out_status) return true;
    *out_status = fast_launch(p, timeline, flat, &result, attrs, profiled);
    if (*out_status == BP_OK) *out = result;
    else bp_tensor_destroy(result);
    return true;
}

/* A function of its own, called last, so that the shortest path keeps no arguments for it. */
static __attribute__((noinline)) bool fast_call_with_care(struct bp_stream *stream,
                                                          const struct bp_opdef *row,
                                                          const struct bp_arg *in,
                                                          const void *attrs, struct bp_tensor **out,
                                                          enum bp_status *out_status)
{
    return bp_device_is_only_profiled(stream->device) &&
           fast_call(stream, row, in, attrs, out, out_status, true);
}

bool bp_call_fast(struct bp_stream *stream, const struct bp_opdef *row, const struct bp_arg *in,
                  const void *attrs, struct bp_tensor **out, enum bp_status *out_status)
{
    if (__builtin_expect(bp_device_needs_care(stream->device), 0))
        return fast_call_with_care(stream, row, in, attrs, out, out_status);
    return fast_call(stream, row, in, attrs, out, out_status, false);
}
