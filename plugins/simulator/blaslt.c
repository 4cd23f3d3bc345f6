/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.c: stands in for cuBLASLt: the functions of gpu/blaslt.def, on simulated streams. It
 * refuses what the library does, and what it would not do as it should. */
#include "gpu/blaslt.h"
#include "gemm.h"
#include <stdlib.h>
#include <string.h>

#define CALL(result, verb, parameters) result cublasLt##verb parameters;
#include "gpu/blaslt.def"

static const struct blaslt_numbers number = {
#define NUMBER(name, cublaslt, hipblaslt) cublaslt,
#include "gpu/blaslt_numbers.def"
};

enum { VERSION = 130000, INVALID_VALUE = 7, WORKSPACE = 4096, ALIGNED = 16 };

/* An answer of the heuristic. */
struct answer {
    struct blaslt_algorithm algorithm;
    struct blaslt_rest rest;
};

enum kind { HANDLE = 0x17, OPERATION, LAYOUT, PREFERENCE };

/* All that the library makes. */
struct thing {
    enum kind kind;
    int sums, factors, turned[2], epilogue; /* of an operation */
    void *bias;
    int type, batch; /* of a layout */
    uint64_t rows, columns;
    int64_t between, step;
    uint64_t workspace; /* of a preference */
    uint32_t alignment[4], reduction;
};

static int create(enum sim_call call, struct thing thing, void **out)
{
    int code = sim_enter(call);
    struct thing *made;

    if (code) return sim_leave(code);
    made = malloc(sizeof *made);
    if (!made) return sim_leave(INVALID_VALUE);
    *made = thing;
    sim.live++;
    *out = made;
    return sim_leave(0);
}

/* Given back whatever is to fail. */
static int destroy(enum sim_call call, void *p, enum kind kind)
{
    int code = sim_enter(call);
    struct thing *thing = p;

    if (!thing || thing->kind != kind) return sim_leave(INVALID_VALUE);
    thing->kind = 0;
    free(thing);
    sim.live--;
    return sim_leave(code);
}

const char *cublasLtGetStatusString(int code)
{
    return code == number.not_supported ? "not supported" : "a failure";
}

size_t cublasLtGetVersion(void)
{
    return VERSION;
}

int cublasLtCreate(void **out)
{
    return create(SIM_CALL_cublasLtCreate, (struct thing){.kind = HANDLE}, out);
}
int cublasLtDestroy(void *handle)
{
    return destroy(SIM_CALL_cublasLtDestroy, handle, HANDLE);
}

int cublasLtMatmulDescCreate(void **out, int sums, int factors)
{
    return create(SIM_CALL_cublasLtMatmulDescCreate,
                  (struct thing){.kind = OPERATION, .sums = sums, .factors = factors}, out);
}
int cublasLtMatmulDescDestroy(void *operation)
{
    return destroy(SIM_CALL_cublasLtMatmulDescDestroy, operation, OPERATION);
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns,
                               int64_t between)
{
    if (!rows || !columns || between < (int64_t)rows) return INVALID_VALUE;
    return create(SIM_CALL_cublasLtMatrixLayoutCreate,
                  (struct thing){.kind = LAYOUT, .type = type, .batch = 1, .rows = rows,
                                 .columns = columns, .between = between},
                  out);
}
int cublasLtMatrixLayoutDestroy(void *layout)
{
    return destroy(SIM_CALL_cublasLtMatrixLayoutDestroy, layout, LAYOUT);
}

int cublasLtMatmulPreferenceCreate(void **out)
{
    return create(SIM_CALL_cublasLtMatmulPreferenceCreate, (struct thing){.kind = PREFERENCE}, out);
}
int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return destroy(SIM_CALL_cublasLtMatmulPreferenceDestroy, preference, PREFERENCE);
}

/* Puts a value into one of the places, by its attribute; sizes have to be those of the places. */
struct place {
    int attribute;
    void *at;
    size_t size;
};

static int set(enum sim_call call, const struct place *place, int n, int attribute,
               const void *value, size_t size)
{
    int code = sim_enter(call);

    for (int i = 0; i < n && !code; i++) {
        if (place[i].attribute != attribute) continue;
        if (place[i].size != size) return sim_leave(INVALID_VALUE);
        memcpy(place[i].at, value, size);
        return sim_leave(0);
    }
    return sim_leave(code ? code : INVALID_VALUE);
}

#define PLACE(attribute, field) {attribute, &(field), sizeof(field)}

int cublasLtMatmulDescSetAttribute(void *p, int attribute, const void *value, size_t size)
{
    struct thing *t = p;
    const struct place place[] = {PLACE(number.operation_turn_a, t->turned[0]),
                                  PLACE(number.operation_turn_a + 1, t->turned[1]),
                                  PLACE(number.operation_epilogue, t->epilogue),
                                  PLACE(number.operation_bias, t->bias)};

    return set(SIM_CALL_cublasLtMatmulDescSetAttribute, place, 4, attribute, value, size);
}

int cublasLtMatrixLayoutSetAttribute(void *p, int attribute, const void *value, size_t size)
{
    struct thing *t = p;
    const struct place place[] = {PLACE(number.layout_batch, t->batch),
                                  PLACE(number.layout_step, t->step)};

    return set(SIM_CALL_cublasLtMatrixLayoutSetAttribute, place, 2, attribute, value, size);
}

int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t size)
{
    struct thing *t = p;
    const struct place place[] = {PLACE(BLASLT_PREFER_WORKSPACE, t->workspace),
                                  PLACE(number.prefer_reduction, t->reduction),
                                  PLACE(number.prefer_alignment_a, t->alignment[0]),
                                  PLACE(number.prefer_alignment_a + 1, t->alignment[1]),
                                  PLACE(number.prefer_alignment_a + 2, t->alignment[2]),
                                  PLACE(number.prefer_alignment_a + 3, t->alignment[3])};

    return set(SIM_CALL_cublasLtMatmulPreferenceSetAttribute, place, 6, attribute, value, size);
}

static enum sim_type type_of(int type)
{
    return type == BLASLT_F32 ? SIM_F32
           : type == BLASLT_F64 ? SIM_F64
           : type == BLASLT_F16 ? SIM_F16
           : type == BLASLT_BF16 ? SIM_BF16
                                   : SIM_TYPES;
}

/* What is alike for the choice of an algorithm and its run; false: matrices do not fit. */
static bool fill(struct sim_gemm *g, const struct thing *o, const struct thing *const layout[])
{
    const struct thing *a = layout[SIM_A], *b = layout[SIM_B], *d = layout[SIM_D];
    bool fits = true;

    *g = (struct sim_gemm){.type = type_of(a->type), .turned = {o->turned[0], o->turned[1]},
                           .tf32 = o->sums == number.sum_tf32, .m = (int64_t)d->rows,
                           .n = (int64_t)d->columns, .batch = d->batch,
                           .k = (int64_t)(o->turned[0] ? a->rows : a->columns)};
    for (int i = 0; i < SIM_MATRICES; i++) {
        fits = fits && layout[i]->kind == LAYOUT && layout[i]->type == a->type &&
               layout[i]->batch == d->batch;
        g->between[i] = layout[i]->between;
        g->step[i] = layout[i]->step;
    }
    return fits && g->type < SIM_TYPES && (o->epilogue == BLASLT_ADD_BIAS || !o->epilogue) &&
           (g->type == SIM_F64) == (o->sums == number.sum_f64) &&
           (g->type == SIM_F64) == (o->factors == BLASLT_F64) &&
           (int64_t)(o->turned[0] ? a->columns : a->rows) == g->m &&
           (int64_t)(o->turned[1] ? b->columns : b->rows) == g->k &&
           (int64_t)(o->turned[1] ? b->rows : b->columns) == g->n &&
           layout[SIM_C]->rows == d->rows && layout[SIM_C]->columns == d->columns;
}

/* What the heuristic likes best cannot be had, and the next is slow where BP_SIM_SLOW says so. An
 * algorithm says how operands lie, the workspace that its run must be given, whether sums are put
 * together of parts, and how much longer it takes. */
enum { BAD, SLOW, QUICK, ANSWERS };

static struct answer answer(int which, const struct thing *preference, uint64_t alignment)
{
    struct answer made = {.rest.state = which == BAD ? number.not_supported : 0};
    const char *slow = secure_getenv("BP_SIM_SLOW");
    size_t workspace = 0;

    if (alignment == ALIGNED) workspace = which == SLOW ? WORKSPACE : WORKSPACE / 2;
    if (workspace > preference->workspace) workspace = 0;
    made.rest.workspace = workspace;
    made.algorithm.data[0] = alignment;
    made.algorithm.data[1] = workspace;
    made.algorithm.data[2] = preference->reduction != BLASLT_REDUCE_NOTHING;
    made.algorithm.data[3] = which == SLOW && slow ? strtoull(slow, NULL, 0) : 0;
    made.algorithm.data[4] = which == BAD;
    return made;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                   void *d, void *p, int asked, void *out,
                                   int *out_n)
{
    int code = sim_enter(SIM_CALL_cublasLtMatmulAlgoGetHeuristic);
    const struct thing *layout[] = {a, b, c, d}, *preference = p, *o = operation;
    uint64_t alignment = preference->alignment[0];
    struct answer *to = out;
    struct sim_gemm gemm;

    if (!code && (((struct thing *)handle)->kind != HANDLE || asked < 1 ||
                  !fill(&gemm, o, layout) ||
                  (preference->reduction && preference->reduction != BLASLT_REDUCE_IN_SUMS)))
        code = INVALID_VALUE;
    if (!code && o->epilogue && ((uintptr_t)o->bias % alignment || gemm.type == SIM_F64))
        code = number.not_supported;
    if (code) return sim_leave(code);
    for (*out_n = 0; *out_n < ANSWERS && *out_n < asked; (*out_n)++)
        to[*out_n] = answer(*out_n, preference, alignment);
    return sim_leave(0);
}

int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *layout_a,
                   const void *b, void *layout_b, const void *beta, const void *c, void *layout_c,
                   void *d, void *layout_d, const struct blaslt_algorithm *algorithm,
                   void *workspace, size_t size, void *stream)
{
    const struct thing *layout[] = {layout_a, layout_b, layout_c, layout_d}, *o = operation;
    const void *at[] = {a, b, c, d};
    struct sim_device *device;
    struct sim_gemm gemm;
    int code = sim_enter_context(SIM_CALL_cublasLtMatmul, &device);

    if (!code && (((struct thing *)handle)->kind != HANDLE || !fill(&gemm, o, layout)))
        code = INVALID_VALUE;
    if (!code && algorithm->data[4]) code = number.not_supported;
    if (!code && (size < algorithm->data[1] || (size && !sim_reach(workspace, size))))
        code = INVALID_VALUE;
    for (int i = 0; i < SIM_MATRICES && !code; i++) {
        gemm.at[i] = at[i];
        if ((uintptr_t)at[i] % algorithm->data[0]) code = INVALID_VALUE;
    }
    if (code) return sim_leave(code);
    gemm.alpha = sim_factor(gemm.type, alpha);
    gemm.beta = sim_factor(gemm.type, beta);
    gemm.bias = o->epilogue ? o->bias : NULL;
    gemm.split = algorithm->data[2];
    gemm.pause = (unsigned)algorithm->data[3];
    if ((uintptr_t)gemm.bias % algorithm->data[0]) return sim_leave(INVALID_VALUE);
    return sim_leave(sim_gemm_submit(stream, &gemm));
}
