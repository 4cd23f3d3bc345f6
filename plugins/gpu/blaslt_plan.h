/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt_plan.h: declares the state that the files for cuBLASLt and hipBLASLt share: the
 * differences between the libraries, the plan, and the functions that choose its algorithm. */
#ifndef GPU_BLASLT_PLAN_H
#define GPU_BLASLT_PLAN_H

#include "blaslt.h"
#include "epilogue.h"
#include "gemm.h"
#include "vendor.h"

enum { BLASLT_ALIGNED = 16, BLASLT_WORKSPACE_ALIGNMENT = 256 };

/* One of the two libraries. */
struct blaslt_library {
    struct gpu_vendor *vendor;
    const struct blaslt_calls *call; /* valid once the library is open */
    struct blaslt_numbers number;
    bool narrow; /* extents and distances have 32 bits, and batch steps must not be negative */
    bool writes; /* each product writes into its operation descriptor */
};

/* The numbers of its functions. */
enum blaslt_call {
#define CALL(result, verb, parameters) BLASLT_CALL_##verb,
#include "blaslt.def"
};

/* An algorithm, and the bytes of workspace that it needs. */
struct blaslt_found {
    struct blaslt_algorithm algorithm;
    size_t workspace;
};

struct blaslt_plan {
    const struct blaslt_library *library;
    struct gpu_gemm gemm;
    struct gpu_device *device;
    void *handle; /* of the device; a product uses the stream's handle where the library needs
                     one */
    void *operation, *layout[GEMM_OPERANDS];
    struct blaslt_found aligned, any; /* for operands at multiples of 16 bytes; for others */
    struct gpu_epilogue epilogue;
    pthread_mutex_t lock;               /* guards the operation, which also holds the address of the
                                           bias */
};

#define BLASLT_NAME(plan, verb) ((plan)->library->vendor->library.symbol[BLASLT_CALL_##verb].name)

/* Calls the library while a plan is being made. false: the call failed, and the reason is
 * logged. */
#define BLASLT_GOOD(plan, verb, ...) \
    gpu_vendor_good((plan)->device, (plan)->library->vendor, BLASLT_NAME(plan, verb), \
                    (plan)->library->call->verb(__VA_ARGS__))

/* The layout of C. Without a separate summand C is the result's memory, and beta is 0. */
static inline void *blaslt_added(const struct blaslt_plan *plan)
{
    return plan->layout[gpu_gemm_adds_matrix(&plan->gemm) ? GEMM_ADDED : GEMM_RESULT];
}

/* blaslt.c: prepares a call for a kernel row of the library. */
enum bp_status blaslt_prepare(const struct blaslt_library *library, struct gpu *gpu,
                              const struct bp_prep *prep, struct bp_plan *out);

/* Enqueues one product in a stream of the driver; returns the library's code. The address of a bias
 * is set in the operation. */
int blaslt_multiply(const struct blaslt_plan *plan, void *handle, const struct blaslt_found *found,
                    void *const at[GEMM_OPERANDS], void *workspace, void *raw_stream);

/* blaslt_choice.c: sets plan->aligned and plan->any from the device's cache, or else by a query of
 * the library's heuristic. false: the library has no algorithm. */
bool blaslt_choose(struct blaslt_plan *plan);
/* Frees the device's cache of choices. */
void blaslt_forget(struct gpu_device *device);

/* blaslt_trial.c: measures n > 0 algorithms for aligned operands and returns the index of the
 * fastest; 0 if nothing can be measured. */
int blaslt_try(const struct blaslt_plan *plan, const struct blaslt_found *found, int n);

#endif
