/* SPDX-License-Identifier: Apache-2.0 */
/* rocblas.c: simulates rocBLAS: implements the functions of gpu/rocblas.def on simulated
 * streams. */
#include "gpu/rocblas.h"
#include "gemm.h"
#include <stdlib.h>

#define CALL(result, name, parameters) result name parameters;
#include "gpu/rocblas.def"

enum { MEMORY_ERROR = 5, QUERY_MISMATCH = 8, INVALID_VALUE = 11, MAGIC = 0x20cb1a5 };
enum { WORKSPACE = 1024 };

/* A handle. size: of the workspace that the caller has set; 0: the library's own memory is used. */
struct handle {
    int magic, atomics;
    void *stream, *workspace;
    size_t size, requested;
    bool polls;
};

const char *rocblas_status_to_string(int code)
{
    return code == INVALID_VALUE ? "invalid value" : "a failure";
}

int rocblas_create_handle(void **out)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_rocblas_create_handle, &device);
    struct handle *made;

    if (code) return sim_leave(code);
    made = malloc(sizeof *made);
    if (!made) return sim_leave(INVALID_VALUE);
    *made = (struct handle){.magic = MAGIC, .atomics = 1};
    sim.live++;
    *out = made;
    return sim_leave(0);
}

int rocblas_destroy_handle(void *p)
{
    int code = sim_enter(SIM_CALL_rocblas_destroy_handle);
    struct handle *handle = p;

    if (!handle || handle->magic != MAGIC) return sim_leave(INVALID_VALUE);
    handle->magic = 0;
    free(handle);
    sim.live--;
    return sim_leave(code);
}

int rocblas_set_stream(void *p, void *stream)
{
    int code = sim_enter(SIM_CALL_rocblas_set_stream);

    if (!code) ((struct handle *)p)->stream = stream;
    return sim_leave(code);
}

int rocblas_set_atomics_mode(void *p, int mode)
{
    int code = sim_enter(SIM_CALL_rocblas_set_atomics_mode);

    if (!code) ((struct handle *)p)->atomics = mode;
    return sim_leave(code);
}

int rocblas_set_workspace(void *p, void *memory, size_t size)
{
    int code = sim_enter(SIM_CALL_rocblas_set_workspace);
    struct handle *handle = p;

    if (code) return sim_leave(code);
    handle->workspace = memory;
    handle->size = memory ? size : 0;
    return sim_leave(0);
}

int rocblas_start_device_memory_size_query(void *p)
{
    int code = sim_enter(SIM_CALL_rocblas_start_device_memory_size_query);
    struct handle *handle = p;

    if (!code && handle->polls) code = QUERY_MISMATCH;
    if (code) return sim_leave(code);
    handle->polls = true;
    handle->requested = 0;
    return sim_leave(0);
}

int rocblas_stop_device_memory_size_query(void *p, size_t *out)
{
    int code = sim_enter(SIM_CALL_rocblas_stop_device_memory_size_query);
    struct handle *handle = p;

    if (!handle->polls) return sim_leave(QUERY_MISMATCH);
    handle->polls = false;
    if (!code) *out = handle->requested;
    return sim_leave(code);
}

static int return_size(struct handle *handle)
{
    bool more = handle->requested < WORKSPACE;

    handle->requested = WORKSPACE;
    return more ? ROCBLAS_SIZE_INCREASED : ROCBLAS_SIZE_UNCHANGED;
}

/* Checks the workspace. The library's own memory may be freed while recorded work still uses it, so
 * it invalidates a capture. */
static int find_workspace(const struct handle *handle)
{
    struct sim_capture **capture = sim_capture_of(handle->stream);

    if (!handle->size)
        return capture && *capture ? sim_capture_spoil(sim_capture_number(*capture), INVALID_VALUE)
                                   : 0;
    return handle->size >= WORKSPACE && sim_reach(handle->workspace, handle->size) ? 0
                                                                                   : MEMORY_ERROR;
}

static enum sim_type rocblas_type_of(int type)
{
    return type == ROCBLAS_F32 ? SIM_F32
           : type == ROCBLAS_F64 ? SIM_F64
           : type == ROCBLAS_F16 ? SIM_F16
           : type == ROCBLAS_BF16 ? SIM_BF16
                                  : SIM_TYPES;
}

int rocblas_gemm_strided_batched_ex(void *p, int trans_a, int trans_b, int32_t m, int32_t n,
                                    int32_t k, const void *alpha, const void *a, int type_a,
                                    int32_t between_a, int64_t step_a, const void *b, int type_b,
                                    int32_t between_b, int64_t step_b, const void *beta,
                                    const void *c, int type_c, int32_t between_c, int64_t step_c,
                                    void *d, int type_d, int32_t between_d, int64_t step_d,
                                    int32_t batch, int sums, int algorithm, int32_t solution,
                                    uint32_t flags)
{
    struct sim_gemm g = {
        .type = rocblas_type_of(type_a),
        .m = m,
        .n = n,
        .k = k,
        .batch = batch,
        .transposed = {trans_a == ROCBLAS_TRANSPOSED, trans_b == ROCBLAS_TRANSPOSED},
        .at = {a, b, c, d},
        .between = {between_a, between_b, between_c, between_d},
        .step = {step_a, step_b, step_c, step_d}};
    struct handle *handle = p;
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_rocblas_gemm_strided_batched_ex, &device);

    if (!code && (handle->magic != MAGIC || handle->atomics || type_b != type_a ||
                  type_c != type_a || type_d != type_a || algorithm || solution || flags ||
                  sums != (g.type == SIM_F64 ? ROCBLAS_F64 : ROCBLAS_F32) ||
                  !sim_gemm_is_good(&g)))
        code = INVALID_VALUE;
    if (!code && handle->polls) return sim_leave(return_size(handle));
    if (!code && !(a && b && c && d)) code = ROCBLAS_INVALID_POINTER;
    if (!code) code = find_workspace(handle);
    if (code) return sim_leave(code);
    g.alpha = sim_factor(g.type, alpha);
    g.beta = sim_factor(g.type, beta);
    return sim_leave(sim_gemm_submit(handle->stream, &g));
}
