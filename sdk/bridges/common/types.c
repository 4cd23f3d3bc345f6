/* SPDX-License-Identifier: Apache-2.0 */
/* types.c: tables of element types and of classes of failures. */
#include "bridge.h"

/* X(number of TensorProto.DataType, dtype) */
#define TYPES(X) \
    X(1, F32) \
    X(2, U8) \
    X(3, I8) \
    X(4, U16) \
    X(5, I16) \
    X(6, I32) \
    X(7, I64) \
    X(9, BOOL) \
    X(10, F16) \
    X(11, F64) \
    X(12, U32) \
    X(13, U64) \
    X(14, C64) \
    X(15, C128) \
    X(16, BF16) \
    X(17, F8E4M3) \
    X(18, F8E4M3FNUZ) \
    X(19, F8E5M2) \
    X(20, F8E5M2FNUZ) \
    X(24, F8E8M0)

static const struct {
    uint8_t number, dtype;
} types[] = {
#define X(number, dtype) {number, BP_##dtype},
    TYPES(X)
#undef X
};

enum {
    TYPE_COUNT = sizeof types / sizeof *types
};

uint32_t bridge_dtype_of_onnx(int64_t number)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (types[i].number == number) return types[i].dtype;
    return UINT32_MAX;
}

int32_t bridge_dtype_to_onnx(uint32_t dtype)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (types[i].dtype == dtype) return types[i].number;
    return 0;
}

/* Statuses that are not listed are BRIDGE_FAULT_OTHER. */
static const struct {
    uint8_t status, fault; /* enum bp_status, enum bridge_fault */
} faults[] = {
    {BP_OK, BRIDGE_FAULT_NONE},
    {BP_ERR_INVALID, BRIDGE_FAULT_ARGUMENT},
    {BP_ERR_FAULT, BRIDGE_FAULT_ARGUMENT},
    {BP_ERR_NOT_FOUND, BRIDGE_FAULT_MISSING},
    {BP_ERR_ABSENT, BRIDGE_FAULT_MISSING},
    {BP_ERR_UNSUPPORTED, BRIDGE_FAULT_UNSUPPORTED},
    {BP_ERR_NO_KERNEL, BRIDGE_FAULT_UNSUPPORTED},
    {BP_ERR_BLOCKED, BRIDGE_FAULT_UNSUPPORTED},
    {BP_ERR_MEMORY, BRIDGE_FAULT_MEMORY},
    {BP_ERR_PLUGIN, BRIDGE_FAULT_DEVICE},
    {BP_ERR_DEVICE, BRIDGE_FAULT_DEVICE},
    {BP_ERR_DEVICE_LOST, BRIDGE_FAULT_DEVICE},
};

enum bridge_fault bridge_fault_of(enum bp_status status)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].status == (uint8_t)status) return faults[i].fault;
    return BRIDGE_FAULT_OTHER;
}

enum bp_status bridge_no_memory(void)
{
    return bp_error_set(BP_ERR_MEMORY, "there is no host memory, or there are no addresses, for a "
                        "bridge");
}
