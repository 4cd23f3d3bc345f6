/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.c: simulates cuBLASLt, or hipBLASLt (-DSIM_HIPBLASLT): implements the functions of
 * gpu/blaslt.def on simulated streams. It refuses the calls that the library refuses, and those
 * that the library would execute incorrectly. */
#include "gpu/blaslt.h"
#include "gemm.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#ifdef SIM_HIPBLASLT
#define LT(verb) hipblasLt##verb
#define NUMBER_OF(verb) SIM_CALL_hipblasLt##verb
#define NUMBER(name, cublaslt, hipblaslt) hipblaslt,
#define CALL_OF_ONE(result, verb, parameters)
enum { IS_HIP = 1, INVALID_VALUE = 3 };
#else
#define LT(verb) cublasLt##verb
#define NUMBER_OF(verb) SIM_CALL_cublasLt##verb
#define NUMBER(name, cublaslt, hipblaslt) cublaslt,
enum { IS_HIP = 0, INVALID_VALUE = 7 };
#endif

#define CALL(result, verb, parameters) result LT(verb) parameters;
#include "gpu/blaslt.def"

static const struct blaslt_numbers number = {
#include "gpu/blaslt_numbers.def"
};

enum { VERSION = 130000, WORKSPACE = 4096, ALIGNED = 16 };

enum kind { HANDLE = 0x17, OPERATION, LAYOUT, PREFERENCE };

/* An object of the library. */
struct thing {
    enum kind kind;
    void *stream; /* for a handle: the stream of its last products, */
    unsigned under_way; /* and the number of these products that are not done */
    int sums, factors, transposed[2], epilogue, bias_type; /* for an operation */
    bool written;
    void *bias;
    int type, batch; /* for a layout */
    uint64_t rows, columns;
    int64_t between, step;
    uint64_t workspace; /* for a preference */
    uint32_t alignment[4], reduction;
};

/* Creates an object and ends the call that began with this code. */
static int blaslt_make(int code, struct thing thing, void **out)
{
    struct thing *made;

    if (code) return sim_leave(code);
    made = malloc(sizeof *made);
    if (!made) return sim_leave(INVALID_VALUE);
    *made = thing;
    sim.live++;
    *out = made;
    return sim_leave(0);
}

/* Destroys an object even if the call is set to fail. A handle waits for its products first. */
static int blaslt_destroy(enum sim_call call, void *p, enum kind kind)
{
    int code = sim_enter(call);
    struct thing *thing = p;

    if (!thing || thing->kind != kind) return sim_leave(INVALID_VALUE);
    while (thing->under_way) sim_wait();
    thing->kind = 0;
    free(thing);
    sim.live--;
    return sim_leave(code);
}

#ifndef SIM_HIPBLASLT
const char *cublasLtGetStatusString(int code)
{
    return code == number.not_supported ? "not supported" : "a failure";
}

size_t cublasLtGetVersion(void)
{
    return VERSION;
}
#endif

/* A handle of hipBLASLt owns device memory, so its creation waits for the device and invalidates
 * captures. */
int LT(Create)(void **out)
{
    struct sim_device *device = NULL;
    int code = IS_HIP ? sim_enter_context(NUMBER_OF(Create), &device)
                      : sim_enter(NUMBER_OF(Create));

    if (!code && device && sim_capture_spoil_all(device)) code = INVALID_VALUE;
    return blaslt_make(code, (struct thing){.kind = HANDLE}, out);
}
int LT(Destroy)(void *handle)
{
    return blaslt_destroy(NUMBER_OF(Destroy), handle, HANDLE);
}

int LT(MatmulDescCreate)(void **out, int sums, int factors)
{
    return blaslt_make(sim_enter(NUMBER_OF(MatmulDescCreate)),
                       (struct thing){.kind = OPERATION, .sums = sums, .factors = factors}, out);
}
int LT(MatmulDescDestroy)(void *operation)
{
    return blaslt_destroy(NUMBER_OF(MatmulDescDestroy), operation, OPERATION);
}

int LT(MatrixLayoutCreate)(void **out, int type, uint64_t rows, uint64_t columns,
                               int64_t between)
{
    if (!rows || !columns || between < (int64_t)rows) return INVALID_VALUE;
    return blaslt_make(sim_enter(NUMBER_OF(MatrixLayoutCreate)),
                       (struct thing){.kind = LAYOUT, .type = type, .batch = 1, .rows = rows,
                                      .columns = columns, .between = between},
                       out);
}
int LT(MatrixLayoutDestroy)(void *layout)
{
    return blaslt_destroy(NUMBER_OF(MatrixLayoutDestroy), layout, LAYOUT);
}

int LT(MatmulPreferenceCreate)(void **out)
{
    return blaslt_make(sim_enter(NUMBER_OF(MatmulPreferenceCreate)),
                       (struct thing){.kind = PREFERENCE}, out);
}
int LT(MatmulPreferenceDestroy)(void *preference)
{
    return blaslt_destroy(NUMBER_OF(MatmulPreferenceDestroy), preference, PREFERENCE);
}

/* An attribute and its field. Setting it requires a value of the field's size. */
struct place {
    int attribute;
    void *at;
    size_t size;
};

static int blaslt_set(enum sim_call call, const struct place *place, int n, int attribute,
                      const void *value, size_t size)
{
    int code = sim_enter(call);

    for (int i = 0; i < n && !code; i++) {
        if (place[i].attribute != attribute || attribute < 0) continue;
        if (place[i].size != size) return sim_leave(INVALID_VALUE);
        memcpy(place[i].at, value, size);
        return sim_leave(0);
    }
    return sim_leave(code ? code : INVALID_VALUE);
}

#define PLACE(attribute, field) {attribute, &(field), sizeof(field)}

int LT(MatmulDescSetAttribute)(void *p, int attribute, const void *value, size_t size)
{
    struct thing *t = p;
    const struct place place[] = {PLACE(number.operation_trans_a, t->transposed[0]),
                                  PLACE(number.operation_trans_a + 1, t->transposed[1]),
                                  PLACE(number.operation_epilogue, t->epilogue),
                                  PLACE(number.operation_bias, t->bias),
                                  PLACE(number.operation_bias_type, t->bias_type)};

    return blaslt_set(NUMBER_OF(MatmulDescSetAttribute), place, 5, attribute, value, size);
}

int LT(MatrixLayoutSetAttribute)(void *p, int attribute, const void *value, size_t size)
{
    struct thing *t = p;
    const struct place place[] = {PLACE(number.layout_batch, t->batch),
                                  PLACE(number.layout_step, t->step)};

    return blaslt_set(NUMBER_OF(MatrixLayoutSetAttribute), place, 2, attribute, value, size);
}

int LT(MatmulPreferenceSetAttribute)(void *p, int attribute, const void *value, size_t size)
{
    struct thing *t = p;
    const struct place place[] = {PLACE(BLASLT_PREFER_WORKSPACE, t->workspace),
                                  PLACE(number.prefer_reduction, t->reduction),
                                  PLACE(number.prefer_alignment_a, t->alignment[0]),
                                  PLACE(number.prefer_alignment_a + 1, t->alignment[1]),
                                  PLACE(number.prefer_alignment_a + 2, t->alignment[2]),
                                  PLACE(number.prefer_alignment_a + 3, t->alignment[3])};

    return blaslt_set(NUMBER_OF(MatmulPreferenceSetAttribute), place, 6, attribute, value, size);
}

static enum sim_type blaslt_type_of(int type)
{
    return type == BLASLT_F32 ? SIM_F32
           : type == BLASLT_F64 ? SIM_F64
           : type == BLASLT_F16 ? SIM_F16
           : type == BLASLT_BF16 ? SIM_BF16
                                   : SIM_TYPES;
}

/* Limits of hipBLASLt: extents of 32 bits, and batch steps that are not negative. */
static bool is_narrow(const struct thing *layout)
{
    return layout->rows <= INT32_MAX && layout->columns <= INT32_MAX &&
           layout->between <= INT32_MAX && layout->step >= 0;
}

/* Fills in the fields that the choice of an algorithm and its run share. false: the matrices do not
 * fit. */
static bool blaslt_fill(struct sim_gemm *g, const struct thing *o,
                        const struct thing *const layout[])
{
    const struct thing *a = layout[SIM_A], *b = layout[SIM_B], *d = layout[SIM_D];
    bool fits = true;

    *g = (struct sim_gemm){.type = blaslt_type_of(a->type),
                           .transposed = {o->transposed[0], o->transposed[1]},
                           .tf32 = o->sums == number.sum_tf32, .m = (int64_t)d->rows,
                           .n = (int64_t)d->columns, .batch = d->batch,
                           .k = (int64_t)(o->transposed[0] ? a->rows : a->columns)};
    for (int i = 0; i < SIM_MATRICES; i++) {
        fits = fits && layout[i]->kind == LAYOUT && layout[i]->type == a->type &&
               layout[i]->batch == d->batch && (!IS_HIP || is_narrow(layout[i]));
        g->between[i] = layout[i]->between;
        g->step[i] = layout[i]->step;
    }
    for (int i = 0; i < 2; i++)
        fits = fits && (!o->transposed[i] || o->transposed[i] == number.transposed);
    return fits && g->type < SIM_TYPES && (!IS_HIP || !o->epilogue || o->bias_type == a->type) &&
           (o->epilogue == BLASLT_ADD_BIAS || !o->epilogue) &&
           (g->type == SIM_F64) == (o->sums == number.sum_f64) &&
           (g->type == SIM_F64) == (o->factors == BLASLT_F64) &&
           (int64_t)(o->transposed[0] ? a->columns : a->rows) == g->m &&
           (int64_t)(o->transposed[1] ? b->columns : b->rows) == g->k &&
           (int64_t)(o->transposed[1] ? b->rows : b->columns) == g->n &&
           layout[SIM_C]->rows == d->rows && layout[SIM_C]->columns == d->columns;
}

/* The heuristic's first algorithm is not available, and the next one is slow if BP_SIM_SLOW is
 * set. */
enum { BAD, SLOW, QUICK, RESULTS };

/* The content of an algorithm: the alignment of operands and the workspace that its run requires,
 * whether sums are split into partial sums, and how much longer it takes. */
struct algorithm {
    uint16_t alignment, split, bad, zero;
    uint64_t pause, workspace;
};
_Static_assert(sizeof(struct algorithm) == 24, "as of hipBLASLt");

static struct algorithm blaslt_find_algorithm(int which, const struct thing *preference,
                                              uint64_t alignment)
{
    const char *slow = secure_getenv("BP_SIM_SLOW");
    struct algorithm made = {
        .alignment = (uint16_t)alignment, .bad = which == BAD,
        .split = !IS_HIP && preference->reduction != BLASLT_REDUCE_NOTHING,
        .pause = which == SLOW && slow ? strtoull(slow, NULL, 0) : 0};

    if (IS_HIP || alignment == ALIGNED) made.workspace = which == SLOW ? WORKSPACE : WORKSPACE / 2;
    if (made.workspace > preference->workspace) made.workspace = 0;
    return made;
}

static void blaslt_fill_result(unsigned char *out, int which, const struct thing *preference,
                               uint64_t alignment)
{
    const struct algorithm made = blaslt_find_algorithm(which, preference, alignment);
    const struct blaslt_rest rest = {.workspace = made.workspace,
                                     .state = made.bad ? number.not_supported : 0};
    size_t size = (size_t)number.algorithm_size;

    out += (size_t)which * (size + sizeof rest);
    memset(out, 0, size);
    memcpy(out, &made, sizeof made);
    memcpy(out + size, &rest, sizeof rest);
}

/* The number of algorithms that the heuristic lists. */
static int blaslt_most(int requested)
{
    const char *text = secure_getenv("BP_SIM_ALGORITHMS");
    int n = text ? atoi(text) : RESULTS;

    return n < requested ? n : requested;
}

int LT(MatmulAlgoGetHeuristic)(void *handle, void *operation, void *a, void *b, void *c,
                                   void *d, void *p, int requested, void *out,
                                   int *out_n)
{
    int code = sim_enter(NUMBER_OF(MatmulAlgoGetHeuristic));
    const struct thing *layout[] = {a, b, c, d}, *preference = p, *o = operation;
    uint64_t alignment = preference->alignment[0];
    struct sim_gemm gemm;

    if (!code && (((struct thing *)handle)->kind != HANDLE || requested < 1 ||
                  !blaslt_fill(&gemm, o, layout) ||
                  (preference->reduction && preference->reduction != BLASLT_REDUCE_IN_SUMS)))
        code = INVALID_VALUE;
    if (!code && IS_HIP) alignment = sim_size(gemm.type);
    if (!code && o->epilogue && ((uintptr_t)o->bias % alignment || gemm.type == SIM_F64))
        code = number.not_supported;
    if (code) return sim_leave(code);
    *out_n = blaslt_most(requested);
    for (int i = 0; i < *out_n; i++) blaslt_fill_result(out, i, preference, alignment);
    return sim_leave(0);
}

/* A product of hipBLASLt writes into its operation, so two products at the same time are an
 * error. */
static int write_into(struct thing *operation)
{
    if (!IS_HIP) return 0;
    if (operation->written) return INVALID_VALUE;
    operation->written = true;
    pthread_mutex_unlock(&sim.lock);
    sched_yield();
    pthread_mutex_lock(&sim.lock);
    operation->written = false;
    return 0;
}

/* The parts of a product synchronize in memory of hipBLASLt's handle, so products on two streams
 * must not run at the same time. */
static int blaslt_submit(struct thing *handle, void *stream, struct sim_gemm *gemm)
{
    struct sim_capture **capture = sim_capture_of(stream);
    int code;

    if (handle->under_way && handle->stream != stream) return INVALID_VALUE;
    if (IS_HIP && capture && !*capture) gemm->under_way = &handle->under_way;
    handle->stream = stream;
    handle->under_way += gemm->under_way != NULL;
    code = sim_gemm_submit(stream, gemm);
    handle->under_way -= code && gemm->under_way;
    return code;
}

int LT(Matmul)(void *handle, void *operation, const void *alpha, const void *a, void *layout_a,
                   const void *b, void *layout_b, const void *beta, const void *c, void *layout_c,
                   void *d, void *layout_d, const struct blaslt_algorithm *algorithm,
                   void *workspace, size_t size, void *stream)
{
    const struct thing *layout[] = {layout_a, layout_b, layout_c, layout_d}, *o = operation;
    struct algorithm chosen;
    const void *at[] = {a, b, c, d};
    struct sim_device *device;
    struct sim_gemm gemm;
    int code = sim_enter_context(NUMBER_OF(Matmul), &device);

    memcpy(&chosen, algorithm, sizeof chosen);
    if (!code) code = write_into(operation);
    if (!code && (((struct thing *)handle)->kind != HANDLE || !blaslt_fill(&gemm, o, layout)))
        code = INVALID_VALUE;
    if (!code && chosen.bad) code = number.not_supported;
    if (!code && (size < chosen.workspace || (size && !sim_reach(workspace, size))))
        code = INVALID_VALUE;
    for (int i = 0; i < SIM_MATRICES && !code; i++) {
        gemm.at[i] = at[i];
        if ((uintptr_t)at[i] % chosen.alignment) code = INVALID_VALUE;
    }
    if (code) return sim_leave(code);
    gemm.alpha = sim_factor(gemm.type, alpha);
    gemm.beta = sim_factor(gemm.type, beta);
    gemm.bias = o->epilogue ? o->bias : NULL;
    gemm.split = chosen.split;
    gemm.pause = (unsigned)chosen.pause;
    if ((uintptr_t)gemm.bias % chosen.alignment) return sim_leave(INVALID_VALUE);
    return sim_leave(blaslt_submit(handle, stream, &gemm));
}
