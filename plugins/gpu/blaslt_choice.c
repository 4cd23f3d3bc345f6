/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt_choice.c: chooses the algorithm of a plan from those that the library's heuristic lists,
 * best first. The choice is the first acceptable one, or, with the setting BP_<PLUGIN>_TRIAL, the
 * fastest acceptable one. A device caches the choices by shape, so the next plan of the same shape
 * makes no query. */
#include "blaslt_plan.h"
#include <string.h>

enum { REQUESTED = 8, PLACES = 256 };
static const uint64_t workspace_most = UINT64_C(64) << 20; /* more has no known benefit */

/* All inputs of a choice. Keys are compared as bytes. */
struct key {
    int64_t m, n, k, batch, between[GEMM_OPERANDS], step[GEMM_OPERANDS];
    uint8_t dtype, transposed[2], adds, tf32, tried, library, bias;
};
_Static_assert(sizeof(struct key) == (4 + 2 * GEMM_OPERANDS) * sizeof(int64_t) + 8, "no padding");

/* A device's cache. Of several shapes with the same slot it keeps the last. */
struct known {
    struct choice {
        struct key key; /* m is 0: the slot is empty */
        struct blaslt_found aligned, any;
    } at[PLACES];
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the caches of all devices */

static struct key blaslt_choice_key_of(const struct blaslt_plan *p)
{
    const struct gpu_gemm *g = &p->gemm;
    struct key key = {.m = g->m, .n = g->n, .k = g->k, .batch = g->batch, .dtype = g->dtype,
                      .transposed = {g->transposed[0], g->transposed[1]}, .adds = (uint8_t)g->adds,
                      .tf32 = gpu_vendor_tf32(), .tried = kit_setting_is_on(GPU_NAME, "TRIAL"),
                      .library = (uint8_t)p->library->vendor->id, .bias = g->bias >= 0};

    memcpy(key.between, g->between, sizeof key.between);
    memcpy(key.step, g->step, sizeof key.step);
    return key;
}

static struct choice *blaslt_choice_place_of(struct known *known, const struct key *key)
{
    const unsigned char *byte = (const unsigned char *)key;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof *key; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return &known->at[(hash ^ hash >> 32) % PLACES];
}

static bool blaslt_choice_recall(struct blaslt_plan *p, const struct key *key)
{
    const struct choice *choice;
    bool found = false;

    pthread_mutex_lock(&lock);
    if (p->device->chosen) {
        choice = blaslt_choice_place_of(p->device->chosen, key);
        found = !memcmp(&choice->key, key, sizeof *key);
        if (found) {
            p->aligned = choice->aligned;
            p->any = choice->any;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static struct known *known_of(struct gpu_device *device)
{
    const struct bp_host *host = device->gpu->host;

    if (!device->chosen) {
        device->chosen = host->allocate(host->ctx, sizeof(struct known), _Alignof(struct known));
        if (device->chosen) memset(device->chosen, 0, sizeof(struct known));
    }
    return device->chosen;
}

/* If there is no memory for the cache, the next plan queries the library again. */
static void blaslt_choice_keep(const struct blaslt_plan *p, const struct key *key)
{
    struct known *known;

    pthread_mutex_lock(&lock);
    known = known_of(p->device);
    if (known) *blaslt_choice_place_of(known, key) = (struct choice){*key, p->aligned, p->any};
    pthread_mutex_unlock(&lock);
}

void blaslt_forget(struct gpu_device *device)
{
    const struct bp_host *host = device->gpu->host;

    if (device->chosen) host->release(host->ctx, device->chosen, sizeof(struct known));
    device->chosen = NULL;
}

/* Sets the limits of the search. If cuBLASLt splits a sum (split-K), it rounds the sum to the half
 * type before it adds the bias, so splits are then excluded. hipBLASLt adds the partial sums and
 * the bias in f32. */
static bool blaslt_choice_prefer(const struct blaslt_plan *p, void *preference, uint32_t alignment)
{
    const struct blaslt_numbers *number = &p->library->number;
    bool whole = p->gemm.bias >= 0 && gpu_gemm_size(p->gemm.dtype) == 2;
    const uint32_t reduction = whole ? BLASLT_REDUCE_NOTHING : BLASLT_REDUCE_IN_SUMS;
    bool good = BLASLT_GOOD(p, MatmulPreferenceSetAttribute, preference,
                            BLASLT_PREFER_WORKSPACE, &workspace_most, sizeof workspace_most);

    if (good && number->prefer_reduction >= 0)
        good = BLASLT_GOOD(p, MatmulPreferenceSetAttribute, preference, number->prefer_reduction,
                           &reduction, sizeof reduction);
    for (int i = 0; i < 4 && good && number->prefer_alignment_a >= 0; i++)
        good = BLASLT_GOOD(p, MatmulPreferenceSetAttribute, preference,
                           number->prefer_alignment_a + i, &alignment, sizeof alignment);
    return good;
}

/* Reads result number i from the library's array. false: the algorithm is not acceptable. */
static bool blaslt_choice_take(const struct blaslt_library *library, const unsigned char *result,
                               int i, struct blaslt_found *out)
{
    size_t size = (size_t)library->number.algorithm_size;
    const unsigned char *from = result + (size_t)i * (size + sizeof(struct blaslt_rest));
    struct blaslt_rest rest;

    memcpy(&rest, from + size, sizeof rest);
    *out = (struct blaslt_found){.workspace = rest.workspace};
    memcpy(&out->algorithm, from, size);
    return !rest.state && rest.workspace <= workspace_most;
}

/* Queries the heuristic, and returns the number of acceptable algorithms, best first. The heuristic
 * learns the bias's alignment from its address. "Not supported" is not a failure, so it is not
 * logged. */
static int blaslt_choice_query(const struct blaslt_plan *p, void *preference, uintptr_t alignment,
                               struct blaslt_found out[REQUESTED])
{
    _Alignas(max_align_t) unsigned char
        result[REQUESTED * (sizeof(struct blaslt_algorithm) + sizeof(struct blaslt_rest))] = {0};
    const struct blaslt_library *library = p->library;
    int n = 0, n_good = 0, code;

    if (!blaslt_choice_prefer(p, preference, (uint32_t)alignment)) return 0;
    if (p->gemm.adds == GEMM_VECTOR &&
        !BLASLT_GOOD(p, MatmulDescSetAttribute, p->operation,
                     library->number.operation_bias, &alignment, sizeof alignment))
        return 0;
    code = library->call->MatmulAlgoGetHeuristic(
        p->handle, p->operation, p->layout[GEMM_FIRST], p->layout[GEMM_SECOND], blaslt_added(p),
        p->layout[GEMM_RESULT], preference, REQUESTED, result, &n);
    if (code == library->number.not_supported ||
        !gpu_vendor_good(p->device, library->vendor, BLASLT_NAME(p, MatmulAlgoGetHeuristic), code))
        return 0;
    for (int i = 0; i < n; i++) n_good += blaslt_choice_take(library, result, i, &out[n_good]);
    return n_good;
}

/* Measures only algorithms for aligned operands: calls with others are rare. A library whose
 * heuristic is not given the alignment is queried only once. */
static bool blaslt_choice_choose(struct blaslt_plan *p, void *preference, bool tried)
{
    bool twice = p->library->number.prefer_alignment_a >= 0;
    struct blaslt_found found[REQUESTED];
    int n;

    if (twice) {
        if (!blaslt_choice_query(p, preference, gpu_gemm_size(p->gemm.dtype), found)) return false;
        p->aligned = p->any = found[0];
    }
    n = blaslt_choice_query(p, preference, BLASLT_ALIGNED, found);
    if (n) p->aligned = found[tried && n > 1 ? blaslt_try(p, found, n) : 0];
    if (!twice) p->any = p->aligned;
    return twice || n;
}

bool blaslt_choose(struct blaslt_plan *p)
{
    struct key key = blaslt_choice_key_of(p);
    void *preference = NULL;
    bool good;

    if (blaslt_choice_recall(p, &key)) return true;
    if (!BLASLT_GOOD(p, MatmulPreferenceCreate, &preference)) return false;
    good = blaslt_choice_choose(p, preference, key.tried);
    BLASLT_GOOD(p, MatmulPreferenceDestroy, preference);
    if (good) blaslt_choice_keep(p, &key);
    return good;
}
