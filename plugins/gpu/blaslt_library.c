/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt_library.c: cuBLASLt as the other files on it see it, and its rows' way in. */
#include "blaslt_plan.h"

enum { SYMBOLS = BLASLT_CALLS };

/* What is found of a library. */
union functions {
    void *function[SYMBOLS];
    struct gpu_vendor_calls first;
    struct blaslt_calls call;
};
_Static_assert(sizeof(struct blaslt_calls) == SYMBOLS * sizeof(void *), "functions alone");

static const struct gpu_vendor_symbol cublaslt_symbols[] = {
#define CALL(result, verb, parameters) {"cublasLt" #verb, true},
#define CALL_OR_NONE(result, verb, parameters) {"cublasLt" #verb, false},
#include "blaslt.def"
};
static union functions cublaslt_found;

static size_t cublaslt_version(void)
{
    return cublaslt_found.call.GetVersion ? cublaslt_found.call.GetVersion() : 0;
}

struct gpu_vendor gpu_cublaslt = {
    .name = "cuBLASLt", .id = GPU_VENDOR_CUBLASLT, .symbol = cublaslt_symbols, .n = SYMBOLS,
    .function = cublaslt_found.function, .calls = &cublaslt_found.first,
    .lock = PTHREAD_MUTEX_INITIALIZER, .version = cublaslt_version, .forget = blaslt_forget,
};

static const struct blaslt_library cublaslt = {
    .vendor = &gpu_cublaslt,
    .call = &cublaslt_found.call,
    .number = {
#define NUMBER(name, cublaslt, hipblaslt) .name = cublaslt,
#include "blaslt_numbers.def"
    },
};

enum bp_status gpu_cublaslt_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return blaslt_prepare(&cublaslt, self, prep, out);
}
