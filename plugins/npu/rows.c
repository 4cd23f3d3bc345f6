/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: makes the kernel rows and the table beside them from rows_all.def; call.h says how to add
 * a row. */
#include "call.h"
#include <kit/invoke.h>
#include <math.h>

#define NPU_BUILD(function)
#define NPU_KERNEL(operator, variant, T, U, I, R, set) \
    {BP_OPROW(operator),    .name = "npu_" #operator#variant, \
     .types = {T, U, I, R}, .flags = (set), \
     .priority = 100,       NPU_CALLS},
#define NPU_CALLS \
    .launch = npu_row_launch, .prepare = npu_row_prepare, .plan_destroy = npu_row_destroy

static const uint16_t strides[] = {0, 0}, nz[] = {NPU_LAYOUT_NZ}, second_nz[] = {0, NPU_LAYOUT_NZ};

static const struct bp_kernel kernels[] = {
#define NPU_ROW(op, variant, T, U, I, R, flags, ...) NPU_KERNEL(op, variant, T, U, I, R, flags)
#define NPU_ROW_OR NPU_ROW
#define NPU_BUILT NPU_ROW
#define NPU_BUILT_EACH NPU_ROW
#define NPU_LAID(operator, variant, T, set, in, out, ...) \
    {BP_OPROW(operator), .name = "npu_" #operator#variant, \
     .types = {T},       .flags = (set), \
     .priority = 110,    .in_layout = in, \
     .out_layout = out,  NPU_CALLS},
#include "rows_all.def"
#undef NPU_ROW
#undef NPU_ROW_OR
#undef NPU_BUILT
#undef NPU_BUILT_EACH
#undef NPU_LAID
};

#define ARGUMENTS(...) \
    .arg = (const struct kit_arg[]){__VA_ARGS__}, \
    .n = sizeof((const struct kit_arg[]){__VA_ARGS__}) / sizeof(struct kit_arg)

static const struct kit_row rows[] = {
#define NPU_ROW(op, variant, T, U, I, R, flags, function, ...) \
    {.functions = function, ARGUMENTS(__VA_ARGS__)},
#define NPU_ROW_OR(op, variant, T, U, I, R, flags, number, function, ...) \
    {.functions = function, .fills = true, .empty = number, ARGUMENTS(__VA_ARGS__)},
#define NPU_BUILT(op, variant, T, U, I, R, flags, names, function) \
    {.functions = names, .build = function},
#define NPU_BUILT_EACH(op, variant, T, U, I, R, flags, names, function) \
    {.functions = names, .build = function, .each = true},
#define NPU_LAID(op, variant, T, flags, in, out, names, function) \
    {.functions = names, .build = function},
#include "rows_all.def"
};

const struct kit_row *npu_row_of(const struct bp_kernel *kernel)
{
    return &rows[kernel - kernels];
}

static bool rows_have(void *npu, const char *function)
{
    return npu_function_find(npu, function) != NULL;
}

static enum bp_status rows_usable(void *self, const struct bp_kernel *kernel)
{
    struct npu *npu = self;
    char missing[64];

    if (!npu->nnop)
        return bp_fail(npu->host, BP_ERR_UNSUPPORTED, "no operators: %s", npu->why_no_rows);
    if (!kit_invoke_works())
        return bp_fail(npu->host, BP_ERR_UNSUPPORTED,
                       "the plugin cannot call operators on this "
                       "machine's processor");
    if (kernel->types[0] == BP_M(BF16) && !npu_has_bf16(npu))
        return bp_fail(npu->host, BP_ERR_UNSUPPORTED, "%s has no bf16", npu->product);
    if (!kit_row_has(npu_row_of(kernel), rows_have, npu, missing))
        return bp_fail(npu->host, BP_ERR_UNSUPPORTED, "AscendCL %d.%d.%d has no function aclnn%s",
                       npu->version[0], npu->version[1], npu->version[2], missing);
    return BP_OK;
}

const struct bp_kernels npu_kernels = {
    .size = sizeof npu_kernels,
    .first = kernels,
    .count = sizeof kernels / sizeof *kernels,
    .stride = sizeof *kernels,
    .usable = rows_usable,
    .layout = npu_layouts,
    .layout_count = NPU_LAYOUTS,
    .layout_stride = sizeof *npu_layouts,
};
