/* SPDX-License-Identifier: Apache-2.0 */
/* flash.c: implements attention of the stand-in for CANN. Layouts: BNSD, BSND, BSH and SBH, with H
 * = N D. Query i sees the keys i - preTokens to i + nextTokens that the mask does not hide (1 hides
 * a key). Not simulated, and refused: dropout, lengths of sequences, prefixes, sparse modes other
 * than 0 and 1. */
#include "family.h"
#include <math.h>
#include <string.h>

/* One of the two operators: the places of their arguments. */
struct flash {
    int shift, mask, scale, before, after, heads, layout, kv_heads, out; /* kv_heads -1: none */
};
static const struct flash score = {3, 6, 8, 10, 11, 12, 13, -1, 19};
static const struct flash prompt = {3, 4, 7, 8, 9, 6, 10, 11, 12};

/* Extents B N S D of a tensor in a layout, and the places of B, N, S, D in it; N and D of an axis H
 * share it: place -1 for N. */
static bool layout_read(const char *layout, int64_t heads, int rank, const int64_t *dims,
                        int64_t extent[4], int place[4])
{
    static const char *const names[] = {"BNSD", "BSND", "BSH", "SBH"};
    static const int places[4][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, -1, 1, 2}, {1, -1, 0, 2}};
    int k = 0;

    while (k < 4 && strcmp(names[k], layout) != 0) k++;
    if (k == 4 || rank != (k < 2 ? 4 : 3) || heads < 1) return false;
    memcpy(place, places[k], sizeof places[k]);
    for (int i = 0; i < 4; i++) extent[i] = place[i] < 0 ? heads : dims[place[i]];
    if (k < 2) return extent[1] == heads;
    if (extent[3] % heads) return false;
    extent[3] /= heads;
    return true;
}

static int64_t flash_kv_heads(const struct cann_call *call, const struct flash *f)
{
    int64_t heads = call->arg[f->heads].i, n = f->kv_heads < 0 ? 0 : call->arg[f->kv_heads].i;

    if (f->kv_heads < 0 && cann_type(call, 1)->rank == 4)
        n = cann_type(call, 1)->dims[strcmp(call->arg[f->layout].text, "BNSD") ? 2 : 1];
    return n ? n : heads;
}

static int flash_check(struct cann_call *call, const struct flash *f)
{
    const char *layout = call->arg[f->layout].text;
    int64_t q[4], k[4], v[4], heads = call->arg[f->heads].i, kv = flash_kv_heads(call, f);
    struct cann_shape shape;
    int place[4];

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    if (!layout_read(layout, heads, cann_type(call, 0)->rank, cann_type(call, 0)->dims, q, place))
        return cann_refuse(call, f->layout, "is \"%s\", which query does not have", layout);
    if (!layout_read(layout, kv, cann_type(call, 1)->rank, cann_type(call, 1)->dims, k, place) ||
        !layout_read(layout, kv, cann_type(call, 2)->rank, cann_type(call, 2)->dims, v, place))
        return cann_refuse(call, 1, "or value does not have the layout");
    if (heads % kv || k[0] != q[0] || v[0] != q[0] || k[3] != q[3] || v[2] != k[2] || v[3] != q[3])
        return cann_refuse(call, 1, "or value does not fit query");
    shape = (struct cann_shape){4, {q[0], heads, q[2], k[2]}};
    CANN_TRY(cann_want_same(call, f->shift, 0));
    CANN_TRY(cann_broadcast(call, f->shift, &shape));
    CANN_TRY(cann_want(call, f->mask, BP_M(BOOL) | BP_M(U8) | BP_M(I8)));
    CANN_TRY(cann_broadcast(call, f->mask, &shape));
    if (shape.rank != 4 || shape.at[0] != q[0] || shape.at[1] != heads || shape.at[2] != q[2] ||
        shape.at[3] != k[2])
        return cann_refuse(call, f->mask, "or the shift does not broadcast to B N S S");
    return cann_want_like(call, f->out, 0);
}

int cann_check_flash_score(struct cann_call *call)
{
    if (cann_type(call, 4) || call->arg[9].d != 1) return cann_refuse(call, 4, "is not simulated");
    if (cann_type(call, 5) || call->arg[7].n_at) return cann_refuse(call, 5, "is not simulated");
    CANN_TRY(cann_want_between(call, 15, 0, 1));
    for (int i = 16; i < 18; i++) CANN_TRY(cann_want(call, i, BP_M(F32)));
    return flash_check(call, &score);
}

int cann_check_flash_prompt(struct cann_call *call)
{
    if (call->arg[5].n_at) return cann_refuse(call, 5, "is not simulated");
    CANN_TRY(cann_want(call, 0, BP_M(F16) | BP_M(BF16)));
    return flash_check(call, &prompt);
}

/* A view with the axes B N S D. */
static struct base_tensor flash_view(const struct base_tensor *t, const char *layout, int64_t heads)
{
    struct base_tensor v = {.data = t->data, .dtype = t->dtype, .rank = 4};
    int place[4];

    layout_read(layout, heads, t->rank, t->shape, v.shape, place);
    for (int i = 0; i < 4; i++)
        v.stride[i] = place[i] < 0 ? v.shape[3] * t->stride[place[3]] : t->stride[place[i]];
    return v;
}

/* The numbers that are added to the scores: B N S S in f32. */
static struct base_tensor flash_mask(struct cann_temps *temps, const struct cann_call *call,
                                     const struct flash *f, const int64_t *shape)
{
    const struct base_tensor *shift = cann_host(call, f->shift), *mask = cann_host(call, f->mask);
    struct base_tensor made = cann_temp(temps, BP_F32, 4, shape), all;
    int64_t before = call->arg[f->before].i, after = call->arg[f->after].i;
    float *to = made.data;

    if (temps->code) return made;
    if (shift) {
        struct base_tensor wide = cann_in_dtype(temps, shift, BP_F32);
        all = cann_expanded(&wide, 4, shape);
        base_tensor_copy(&all, &made);
    }
    if (mask) all = cann_expanded(mask, 4, shape);
    for (int64_t i = 0; i < base_tensor_count(&made); i++) {
        int64_t key = i % shape[3], query = i / shape[3] % shape[2];
        if (key < query - before || key > query + after || (mask && cann_get(&all, i) != 0))
            to[i] = -INFINITY;
    }
    return made;
}

/* The maximum and the sum of each query's scores: 8 times each. */
static void flash_statistics(struct cann_temps *temps, const struct cann_call *call,
                             const struct base_tensor *q, const struct base_tensor *k,
                             const struct base_tensor *mask)
{
    const struct base_tensor *most = cann_host(call, 16), *sum = cann_host(call, 17);
    int64_t group = q->shape[1] / k->shape[1], keys = k->shape[2], d = q->shape[3];

    if (!most || !sum || temps->code) return;
    for (int64_t i = 0; i < q->shape[0] * q->shape[1] * q->shape[2]; i++) {
        int64_t head = i / q->shape[2] % q->shape[1];
        int64_t batch = i / q->shape[2] / q->shape[1];
        int64_t from = ((batch * k->shape[1] + head / group) * keys) * d;
        double top = -INFINITY, all = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t j = 0; j < keys; j++) {
                double s = 0;
                for (int64_t e = 0; e < d; e++)
                    s += (double)((float *)q->data)[i * d + e] *
                         ((float *)k->data)[from + j * d + e];
                s = s * call->arg[8].d + ((float *)mask->data)[i * keys + j];
                if (!pass) top = fmax(top, s);
                else all += exp(s - top);
            }
        for (int e = 0; e < 8 && i * 8 + e < base_tensor_count(most); e++)
            cann_put(most, i * 8 + e, top);
        for (int e = 0; e < 8 && i * 8 + e < base_tensor_count(sum); e++)
            cann_put(sum, i * 8 + e, all);
    }
}

static int flash_run(struct cann_call *call, const struct flash *f)
{
    const char *layout = call->arg[f->layout].text;
    int64_t heads = call->arg[f->heads].i, kv = flash_kv_heads(call, f), shape[4];
    struct bp_attention_attrs attrs = {.size = sizeof attrs, .scale = call->arg[f->scale].d};
    struct cann_temps temps = {.n = 0};
    struct base_tensor in[3], y = flash_view(cann_host(call, f->out), layout, heads), mask, made;
    struct base_call base = {.op = "attention",
                             .attrs = &attrs,
                             .n_in = 5,
                             .n_out = 1,
                             .in = {&in[0], &in[1], &in[2], &mask},
                             .out = {&made},
                             .type = {BP_F32, BP_F32, BASE_ABSENT, BASE_ABSENT}};

    for (int i = 0; i < 3; i++) {
        struct base_tensor view = flash_view(cann_host(call, i), layout, i ? kv : heads);
        in[i] = cann_temp(&temps, BP_F32, 4, view.shape);
        cann_write(&temps, &view, &in[i]);
    }
    memcpy(shape, (int64_t[]){in[0].shape[0], heads, in[0].shape[2], in[1].shape[2]}, sizeof shape);
    mask = flash_mask(&temps, call, f, shape);
    made = cann_temp(&temps, BP_F32, 4, in[0].shape);
    cann_call_base(&temps, &base);
    cann_write(&temps, &made, &y);
    if (f == &score) flash_statistics(&temps, call, &in[0], &in[1], &mask);
    cann_temps_free(&temps);
    return temps.code;
}

int cann_run_flash_score(struct cann_call *call)
{
    return flash_run(call, &score);
}

int cann_run_flash_prompt(struct cann_call *call)
{
    return flash_run(call, &prompt);
}
