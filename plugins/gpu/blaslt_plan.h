/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt_plan.h: what the files on cuBLASLt and hipBLASLt share: what differs between them, a plan,
 * and how its algorithms are chosen. */
#ifndef GPU_BLASLT_PLAN_H
#define GPU_BLASLT_PLAN_H

#include "blaslt.h"
#include "gemm.h"
#include "vendor.h"

enum { BLASLT_ALIGNED = 16, BLASLT_WORKSPACE_ALIGNMENT = 256 };

/* A library. */
struct blaslt_library {
    struct gpu_vendor *vendor;
    const struct blaslt_calls *call; /* once it is open */
    struct blaslt_numbers number;
    bool narrow; /* extents and distances have 32 bits, and steps go forward only */
    bool writes; /* each product writes into its operation */
};

/* Its functions, by number. */
enum blaslt_call {
#define CALL(result, verb, parameters) BLASLT_CALL_##verb,
#include "blaslt.def"
    BLASLT_CALLS,
};

/* An algorithm, and the bytes of workspace that it wants. */
struct blaslt_found {
    struct blaslt_algorithm algorithm;
    size_t workspace;
};

struct blaslt_plan {
    const struct blaslt_library *library;
    struct gpu_gemm gemm;
    struct gpu_device *device;
    void *handle; /* the device's; products have one of the stream, where the library wants that */
    void *operation, *layout[GEMM_OPERANDS];
    struct blaslt_found aligned, any; /* for operands at multiples of 16 bytes; for others */
    pthread_mutex_t lock;               /* of the operation, which has the bias's address, too */
};

#define BLASLT_NAME(plan, verb) ((plan)->library->vendor->symbol[BLASLT_CALL_##verb].name)

/* Calls the library for a plan that is being made; false, and a line in the log: it failed. */
#define BLASLT_GOOD(plan, verb, ...) \
    gpu_vendor_good((plan)->device, (plan)->library->vendor, BLASLT_NAME(plan, verb), \
                    (plan)->library->call->verb(__VA_ARGS__))

/* What the result's memory has is added where there is no other summand: beta is 0 then. */
static inline void *blaslt_added(const struct blaslt_plan *plan)
{
    return plan->layout[plan->gemm.adds == GEMM_MATRIX ? GEMM_ADDED : GEMM_RESULT];
}

/* blaslt.c: a row's prepare. */
enum bp_status blaslt_prepare(const struct blaslt_library *library, struct gpu *gpu,
                              const struct bp_prep *prep, struct bp_plan *out);

/* Gives a stream of the driver's one product: the library's code. The bias is the operation's. */
int blaslt_multiply(const struct blaslt_plan *plan, void *handle, const struct blaslt_found *found,
                    void *const at[GEMM_OPERANDS], void *workspace, void *raw_stream);

/* blaslt_choice.c: fills aligned and any, as the device knows from before, or by asking the
 * library; false: it has nothing. */
bool blaslt_choose(struct blaslt_plan *plan);
/* Gives back what the device knows. */
void blaslt_forget(struct gpu_device *device);

/* blaslt_trial.c: the number of the fastest among n > 0 algorithms for aligned operands, by the
 * clock. 0 where nothing can be measured. */
int blaslt_try(const struct blaslt_plan *plan, const struct blaslt_found *found, int n);

#endif
