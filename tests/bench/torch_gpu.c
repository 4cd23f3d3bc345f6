/* SPDX-License-Identifier: Apache-2.0 */
/* torch_gpu.c: calls operators on a device, for torch_gpu.py, which loads this file as a library
 * and lets PyTorch make the same calls alternately. */
#include <backplane/backplane.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 3, RANK = 4 };

struct input {
    int64_t shape[RANK]; /* ends with 0 */
    int64_t perm[RANK];  /* axes of the view that is the input; all 0: the tensor itself */
};

struct row {
    const char *name, *op;
    uint8_t dtype;
    struct input in[INPUTS];
    const void *attrs;
};

#define MANY {{1 << 26}, {0}}
#define PLANE {{8192, 4096}, {0}}
#define SQUARE(n) {{n, n}, {0}}
#define LINE {{4096}, {0}}
#define HEADS {{4, 16, 2048, 128}, {0}}
#define IMAGE {{32, 64, 56, 56}, {0}}
#define FILTER {{64, 64, 3, 3}, {0}}
#define LAST_IMAGE {{32, 56, 56, 256}, {0, 3, 1, 2}}
#define LAST_FILTER {{256, 3, 3, 256}, {0, 3, 1, 2}}

static const int64_t second[] = {1};
static const struct bp_sum_attrs over_rows = {
    .size = sizeof over_rows, .axes = {.at = second, .n = 1}};
static const struct bp_layer_norm_attrs last = {
    .size = sizeof last, .axis = -1, .epsilon = 1e-5};
static struct bp_conv_attrs padded; /* padded by 1 on each side */
static const struct bp_attention_attrs causal = {.size = sizeof causal, .causal = 1};

static const struct row rows[] = {
    {"add f32 64M", "add", BP_F32, {MANY, MANY}, NULL},
    {"multiply bf16 64M", "mul", BP_BF16, {MANY, MANY}, NULL},
    {"exp f32 64M", "exp", BP_F32, {MANY}, NULL},
    {"gelu bf16 64M", "gelu", BP_BF16, {MANY}, NULL},
    {"sum of all f32 64M", "sum", BP_F32, {MANY}, NULL},
    {"sum of rows f32 8192x4096", "sum", BP_F32, {PLANE}, &over_rows},
    {"cumsum of rows f32 8192x4096", "cumsum", BP_F32, {PLANE}, NULL},
    {"cumsum f32 1M", "cumsum", BP_F32, {{{1 << 20}, {0}}}, NULL},
    {"softmax f32 8192x4096", "softmax", BP_F32, {PLANE}, NULL},
    {"softmax bf16 8192x4096", "softmax", BP_BF16, {PLANE}, NULL},
    {"layer_norm f32 8192x4096", "layer_norm", BP_F32, {PLANE, LINE, LINE}, &last},
    {"layer_norm bf16 8192x4096", "layer_norm", BP_BF16, {PLANE, LINE, LINE}, &last},
    {"transposed copy f32 8192x8192", "assign", BP_F32, {{{8192, 8192}, {1, 0}}}, NULL},
    {"matmul f32 4096", "matmul", BP_F32, {SQUARE(4096), SQUARE(4096)}, NULL},
    {"matmul bf16 8192", "matmul", BP_BF16, {SQUARE(8192), SQUARE(8192)}, NULL},
    {"matmul bf16 16x4096x4096", "matmul", BP_BF16, {{{16, 4096}, {0}}, SQUARE(4096)}, NULL},
    {"linear bf16 8192x4096", "linear", BP_BF16, {PLANE, SQUARE(4096), LINE}, NULL},
    {"conv f32 32x64x56x56 3x3", "conv", BP_F32, {IMAGE, FILTER, {{64}, {0}}}, &padded},
    {"conv f16 32x64x56x56 3x3", "conv", BP_F16, {IMAGE, FILTER, {{64}, {0}}}, &padded},
    {"conv bf16 channels last 32x256x56x56 3x3", "conv", BP_BF16,
     {LAST_IMAGE, LAST_FILTER, {{256}, {0}}}, &padded},
    {"conv bf16 channels last without bias", "conv", BP_BF16, {LAST_IMAGE, LAST_FILTER}, &padded},
    {"attention bf16 4x16x2048x128 causal", "attention", BP_BF16, {HEADS, HEADS, HEADS}, &causal},
    {"sort f32 8192x4096", "sort", BP_F32, {PLANE}, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

static struct bp_core *core;
static struct bp_device *device;
static struct bp_stream *stream;
static struct bp_tensor *in[INPUTS];
static size_t n_in;

const char *times_name(int row)
{
    return row < ROWS ? rows[row].name : NULL;
}

const char *times_open(const char *name)
{
    padded = bp_conv_defaults();
    for (int d = 0; d < 2; d++) padded.pad[d] = padded.pad[3 + d] = 1;
    if (bp_core_create(NULL, &core) || bp_device_create(core, name, &device) ||
        bp_stream_create(device, &stream))
        return bp_error_message();
    return NULL;
}

/* Returns numbers from -1 to 1. */
static float *torch_gpu_draw(int64_t n)
{
    static uint64_t state = 88172645463325252u;
    float *data = malloc((size_t)n * sizeof *data);

    for (int64_t i = 0; data && i < n; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        data[i] = (float)(int32_t)(state >> 32) / 0x1p31f;
    }
    return data;
}

static void torch_gpu_replace(struct bp_tensor **tensor, struct bp_tensor *by)
{
    bp_tensor_destroy(*tensor);
    *tensor = by;
}

static bool torch_gpu_make_input(uint8_t dtype, const struct input *input, struct bp_tensor **out)
{
    struct bp_scope *scope = bp_stream_scope(stream);
    struct bp_cast_attrs cast = {.size = sizeof cast, .to = dtype};
    struct bp_transpose_attrs view = {.size = sizeof view, .perm = {.at = input->perm}};
    struct bp_tensor *made = NULL;
    uint32_t rank = 0;
    int64_t n = 1;
    float *data;
    bool ok;

    while (rank < RANK && input->shape[rank]) n *= input->shape[rank++];
    view.perm.n = rank;
    data = torch_gpu_draw(n);
    ok = data && !bp_tensor_create(device, BP_F32, rank, input->shape, out) &&
         !bp_tensor_write(stream, *out, data, (size_t)n * sizeof *data);
    free(data);
    if (ok && dtype != BP_F32) {
        ok = !bp_op_cast(scope, *out, &cast, &made);
        torch_gpu_replace(out, made);
    }
    if (ok && (input->perm[0] || input->perm[1])) {
        made = NULL;
        ok = !bp_op_transpose(scope, *out, &view, &made);
        torch_gpu_replace(out, made);
    }
    return ok;
}

void times_close(void)
{
    bp_stream_synchronize(stream);
    for (size_t i = 0; i < INPUTS; i++) bp_tensor_destroy(in[i]);
    memset(in, 0, sizeof in);
    bp_device_trim(device);
}

const char *times_setup(int row)
{
    const struct row *r = &rows[row];

    n_in = 0;
    while (n_in < INPUTS && r->in[n_in].shape[0]) {
        if (!torch_gpu_make_input(r->dtype, &r->in[n_in], &in[n_in])) return bp_error_message();
        n_in++;
    }
    return NULL;
}

/* Makes n calls and waits for their end. */
const char *times_run(int row, int n)
{
    static const uint8_t want[3] = {1, 0, 0};
    const struct row *r = &rows[row];
    struct bp_arg arg[INPUTS] = {{&in[0], 1}, {&in[1], 1}, {&in[2], 1}};
    struct bp_call call = {
        .size = sizeof call, .op = r->op, .in = arg, .n_in = n_in, .attrs = r->attrs};
    uint32_t n_out = bp_opinfo_find(r->op)->n_out;

    for (int i = 0; i < n; i++) {
        struct bp_tensor *out[3] = {NULL};
        if (bp_call_run(bp_stream_scope(stream), &call, out, n_out, want))
            return bp_error_message();
        bp_tensor_destroy(out[0]);
    }
    return bp_stream_synchronize(stream) ? bp_error_message() : NULL;
}
