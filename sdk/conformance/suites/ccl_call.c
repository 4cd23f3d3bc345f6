/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_call.c: makes one call on a communicator three times with different data. The buffers lie
 * among other bytes, and all bytes are compared afterwards. */
#include "ccl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 3, POISON = 0xa5 }; /* GUARD: elements on each side, so that the data between are not
                                      aligned */

static const char *const names[] = {
#define X(NAME, name) [BP_COMM_##NAME] = #name,
    BP_COMM_CALLS(X)
#undef X
};

const char *ccl_call_name(uint32_t call)
{
    return call == BP_COMM_SEND ? "ring" : names[call];
}

bool ccl_call_reduces(uint32_t call)
{
    return call == BP_COMM_ALL_REDUCE || call == BP_COMM_REDUCE || call == BP_COMM_REDUCE_SCATTER;
}

const char *ccl_reduction_name(uint32_t reduction)
{
    static const char *const reductions[] = {
#define X(NAME, name, number) [number] = #name,
        BP_REDUCTIONS(X)
#undef X
    };
    return reductions[reduction];
}

/* The number of elements that rank i has for rank j in all_to_all_ragged; it may be 0. */
static int64_t ccl_call_ragged(const struct ccl_case *k, uint32_t i, uint32_t j)
{
    return (int64_t)((i + 2 * j) % 4) * k->n;
}

/* The sum over the first `to` parts that a rank sends, or that it receives. */
static int64_t ragged_sum(const struct ccl_case *k, uint32_t rank, uint32_t to, bool sent)
{
    int64_t sum = 0;

    for (uint32_t j = 0; j < to; j++)
        sum += sent ? ccl_call_ragged(k, rank, j) : ccl_call_ragged(k, j, rank);
    return sum;
}

/* Number of elements of src; -1: the rank has no src. */
static int64_t src_count(const struct ccl_case *k, uint32_t rank)
{
    switch (k->call) {
    case BP_COMM_BARRIER: return -1;
    case BP_COMM_BROADCAST: return rank == k->root || k->flags & CCL_IN_PLACE ? k->n : -1;
    case BP_COMM_SCATTER: return rank == k->root ? k->n * k->ranks : -1;
    case BP_COMM_REDUCE_SCATTER:
    case BP_COMM_ALL_TO_ALL: return k->n * k->ranks;
    case BP_COMM_ALL_TO_ALL_RAGGED: return ragged_sum(k, rank, k->ranks, true);
    default: return k->n;
    }
}

static int64_t dst_count(const struct ccl_case *k, uint32_t rank)
{
    switch (k->call) {
    case BP_COMM_BARRIER: return -1;
    case BP_COMM_REDUCE: return rank == k->root ? k->n : -1;
    case BP_COMM_GATHER: return rank == k->root ? k->n * k->ranks : -1;
    case BP_COMM_ALL_GATHER:
    case BP_COMM_ALL_TO_ALL: return k->n * k->ranks;
    case BP_COMM_ALL_TO_ALL_RAGGED: return ragged_sum(k, rank, k->ranks, false);
    default: return k->n;
    }
}

/* Finds the source of part p of dst: the rank, and the index in its data. Returns the number of
 * elements. Calls that reduce have one part. */
static int64_t find_part(const struct ccl_case *k, uint32_t rank, uint32_t p, uint32_t *out_from,
                         int64_t *out_at)
{
    *out_from = k->root;
    *out_at = 0;
    switch (k->call) {
    case BP_COMM_REDUCE_SCATTER:
    case BP_COMM_SCATTER: *out_at = rank * k->n; break;
    case BP_COMM_SEND: *out_from = (rank + k->ranks - 1) % k->ranks; break;
    case BP_COMM_ALL_GATHER:
    case BP_COMM_GATHER: *out_from = p; break;
    case BP_COMM_ALL_TO_ALL:
        *out_from = p;
        *out_at = rank * k->n;
        break;
    case BP_COMM_ALL_TO_ALL_RAGGED:
        *out_from = p;
        *out_at = ragged_sum(k, p, rank, true);
        return ccl_call_ragged(k, p, rank);
    default: break;
    }
    return k->n;
}

static uint32_t ccl_call_parts_of(uint32_t call)
{
    return call == BP_COMM_ALL_GATHER || call == BP_COMM_GATHER || call == BP_COMM_ALL_TO_ALL ||
           call == BP_COMM_ALL_TO_ALL_RAGGED;
}

static enum bp_status ccl_call_ring(struct ccl_rank *r, struct bp_tensor *src,
                                    struct bp_tensor *dst)
{
    enum bp_status status = bp_comm_group_begin(r->comm, r->stream), end;

    if (status) return status;
    status = bp_comm_send(r->comm, r->stream, src, (r->rank + 1) % r->size);
    if (!status)
        status = bp_comm_recv(r->comm, r->stream, dst, (r->rank + r->size - 1) % r->size);
    end = bp_comm_group_end(r->comm);
    return status ? status : end;
}

static enum bp_status call_ragged(struct ccl_rank *r, const struct ccl_case *k,
                                  struct bp_tensor *src, struct bp_tensor *dst)
{
    int64_t out[8], in[8];

    for (uint32_t j = 0; j < r->size; j++) {
        out[j] = ccl_call_ragged(k, r->rank, j);
        in[j] = ccl_call_ragged(k, j, r->rank);
    }
    return bp_comm_all_to_all_ragged(r->comm, r->stream, src, out, dst, in);
}

enum bp_status ccl_call(struct ccl_rank *r, const struct ccl_case *k, struct bp_tensor *src,
                        struct bp_tensor *dst)
{
    struct bp_comm *comm = r->comm;
    struct bp_stream *stream = r->stream;

    switch (k->call) {
    case BP_COMM_BARRIER: return bp_comm_barrier(comm, stream);
    case BP_COMM_ALL_REDUCE: return bp_comm_all_reduce(comm, stream, src, dst, k->reduction);
    case BP_COMM_REDUCE: return bp_comm_reduce(comm, stream, src, dst, k->reduction, k->root);
    case BP_COMM_BROADCAST: return bp_comm_broadcast(comm, stream, src, dst, k->root);
    case BP_COMM_ALL_GATHER: return bp_comm_all_gather(comm, stream, src, dst);
    case BP_COMM_REDUCE_SCATTER:
        return bp_comm_reduce_scatter(comm, stream, src, dst, k->reduction);
    case BP_COMM_ALL_TO_ALL: return bp_comm_all_to_all(comm, stream, src, dst);
    case BP_COMM_ALL_TO_ALL_RAGGED: return call_ragged(r, k, src, dst);
    case BP_COMM_GATHER: return bp_comm_gather(comm, stream, src, dst, k->root);
    case BP_COMM_SCATTER: return bp_comm_scatter(comm, stream, src, dst, k->root);
    default: return ccl_call_ring(r, src, dst);
    }
}

/* A tensor, its bytes before the call, and its bytes afterwards. */
struct buffer {
    struct bp_tensor *whole;
    uint64_t bytes;
    unsigned char *before, *after;
};

static bool ccl_call_make(struct ccl_rank *r, uint32_t dtype, int64_t n, struct buffer *b)
{
    n = (n < 0 ? 0 : n) + 2 * GUARD;
    b->bytes = (uint64_t)n * num_type(dtype)->size;
    b->before = malloc(b->bytes);
    b->after = malloc(b->bytes);
    if (!b->before || !b->after) abort();
    memset(b->before, dtype == BP_BOOL ? 1 : POISON, b->bytes);
    return check_ok(&r->check, bp_tensor_create(r->device, dtype, 1, &n, &b->whole),
                    "bp_tensor_create");
}

static void ccl_call_drop(struct buffer *b)
{
    bp_tensor_destroy(b->whole);
    free(b->before);
    free(b->after);
}

/* src and dst of a call, with the index at which each begins in its buffer. In place both are in
 * one buffer. */
struct operands {
    struct buffer buffer[2];
    int dst_in; /* index of dst's buffer; 0: that of src */
    int64_t src_at, dst_at, n_src, n_dst;
    struct bp_tensor *src, *dst;
};

static bool ccl_call_view(struct ccl_rank *r, const struct buffer *b, int64_t at, int64_t n,
                          struct bp_tensor **out)
{
    int64_t one = 1;

    return n < 0 || check_ok(&r->check, bp_tensor_view(b->whole, at, 1, &n, &one, out),
                             "bp_tensor_view");
}

static bool ccl_call_prepare(struct ccl_rank *r, const struct ccl_case *k, struct operands *o)
{
    bool src_parts = k->call == BP_COMM_REDUCE_SCATTER || k->call == BP_COMM_SCATTER;
    bool dst_parts = k->call == BP_COMM_ALL_GATHER || k->call == BP_COMM_GATHER;
    int64_t most;

    *o = (struct operands){.dst_in = 1, .src_at = GUARD, .dst_at = GUARD};
    o->n_src = src_count(k, r->rank);
    o->n_dst = dst_count(k, r->rank);
    if (k->flags & CCL_IN_PLACE && o->n_src >= 0 && o->n_dst >= 0) {
        o->dst_in = 0;
        if (dst_parts) o->src_at += r->rank * k->n;
        if (src_parts) o->dst_at += r->rank * k->n;
    }
    most = !o->dst_in && o->n_dst > o->n_src ? o->n_dst : o->n_src;
    return ccl_call_make(r, k->dtype, most, &o->buffer[0]) &&
           (!o->dst_in || ccl_call_make(r, k->dtype, o->n_dst, &o->buffer[1])) &&
           ccl_call_view(r, &o->buffer[0], o->src_at, o->n_src, &o->src) &&
           ccl_call_view(r, &o->buffer[o->dst_in], o->dst_at, o->n_dst, &o->dst);
}

static void ccl_call_release(struct operands *o)
{
    bp_tensor_destroy(o->src);
    bp_tensor_destroy(o->dst);
    ccl_call_drop(&o->buffer[0]);
    ccl_call_drop(&o->buffer[1]);
}

static bool ccl_call_write(struct ccl_rank *r, struct operands *o)
{
    for (int i = 0; i <= o->dst_in; i++)
        if (!check_ok(&r->check, bp_tensor_write(r->stream, o->buffer[i].whole,
                                                 o->buffer[i].before, o->buffer[i].bytes),
                      "bp_tensor_write"))
            return false;
    return true;
}

/* Writes the expected bytes into b->before. A reduction is checked against its error bound, and its
 * actual bytes are then taken as the expected ones. */
static bool ccl_call_expect(struct ccl_rank *r, const struct ccl_case *k, const struct ccl_data *d,
                            struct operands *o, int64_t shift)
{
    struct buffer *b = &o->buffer[o->dst_in];
    size_t width = d->type.size;
    unsigned char *want = b->before + (size_t)o->dst_at * width;
    const unsigned char *got = b->after + (size_t)o->dst_at * width;
    uint32_t parts = ccl_call_parts_of(k->call) ? k->ranks : 1, from;
    int64_t at, n;

    for (uint32_t p = 0; o->n_dst >= 0 && p < parts; p++) {
        n = find_part(k, r->rank, p, &from, &at);
        if (ccl_call_reduces(k->call)) {
            if (!ccl_data_check(r, d, ccl_call_name(k->call), got, at + shift, n)) return false;
            memcpy(want, got, (size_t)n * width);
        } else {
            memcpy(want, d->src[from] + (size_t)(at + shift) * width, (size_t)n * width);
        }
        want += (size_t)n * width;
    }
    return true;
}

static bool ccl_call_compare(struct ccl_rank *r, const struct ccl_case *k, const struct ccl_data *d,
                             struct operands *o)
{
    for (int i = 0; i <= o->dst_in; i++) {
        const struct buffer *b = &o->buffer[i];
        int64_t at = (i == o->dst_in ? o->dst_at : o->src_at), n = i ? o->n_dst : o->n_src;
        for (uint64_t j = 0; j < b->bytes; j++) {
            int64_t e = (int64_t)(j / d->type.size) - at;
            if (b->before[j] == b->after[j]) continue;
            return check_that(&r->check, false, "%s: rank %u of %u: byte %llu of element %lld of "
                              "%s, which has %lld: got %#x, expected %#x", ccl_call_name(k->call),
                              r->rank, r->size, (unsigned long long)(j % d->type.size),
                              (long long)e, i == o->dst_in ? "dst" : "src", (long long)n,
                              b->after[j], b->before[j]);
        }
    }
    return true;
}

static uint64_t hash_of(uint64_t hash, const struct operands *o, size_t width)
{
    const unsigned char *at = o->buffer[o->dst_in].after + (size_t)o->dst_at * width;

    for (int64_t i = 0; i < o->n_dst * (int64_t)width; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool ccl_call_round(struct ccl_rank *r, const struct ccl_case *k, const struct ccl_data *d,
                           struct operands *o, int64_t shift)
{
    unsigned char *src = o->buffer[0].before + (size_t)o->src_at * d->type.size;

    for (int i = 0; i <= o->dst_in; i++)
        memset(o->buffer[i].before, k->dtype == BP_BOOL ? 1 : POISON, o->buffer[i].bytes);
    if (o->n_src > 0)
        memcpy(src, d->src[r->rank] + (size_t)shift * d->type.size,
               (size_t)o->n_src * d->type.size);
    if (!ccl_call_write(r, o) ||
        !check_ok(&r->check, ccl_done(r, ccl_call(r, k, o->src, o->dst)), ccl_call_name(k->call)))
        return false;
    for (int i = 0; i <= o->dst_in; i++)
        if (!check_ok(&r->check, bp_tensor_read(r->stream, o->buffer[i].whole, o->buffer[i].after,
                                                o->buffer[i].bytes),
                      "bp_tensor_read"))
            return false;
    return ccl_call_expect(r, k, d, o, shift) && ccl_call_compare(r, k, d, o);
}

bool ccl_check_call(struct ccl_rank *r, const struct ccl_case *k)
{
    bool same = k->call == BP_COMM_ALL_REDUCE || k->call == BP_COMM_ALL_GATHER ||
                k->call == BP_COMM_BROADCAST;
    uint64_t first = 0, last = 0;
    int64_t room = 0;
    struct operands o;
    struct ccl_data d;
    bool ok = ccl_call_prepare(r, k, &o);

    for (uint32_t i = 0; i < k->ranks; i++)
        if (src_count(k, i) > room) room = src_count(k, i);
    r->k.reduction = k->reduction;
    ccl_data_make(&d, r, k, room);
    for (int i = 0; ok && i < 3; i++) {
        ok = ccl_call_round(r, k, &d, &o, i == 1 ? CCL_SHIFT : 0);
        last = hash_of(0, &o, d.type.size);
        if (i == 0) first = last;
        if (same) r->hash = hash_of(r->hash, &o, d.type.size);
    }
    if (ok)
        ok = check_that(&r->check, first == last, "%s: rank %u of %u: the same numbers gave other "
                        "bits the second time", ccl_call_name(k->call), r->rank, r->size);
    ccl_data_finish(&d);
    ccl_call_release(&o);
    return ok;
}
