/* SPDX-License-Identifier: Apache-2.0 */
/* suites.h: what each suite gives the list of cases, and how a kernel case runs. */
#ifndef BP_CONFORM_SUITES_H
#define BP_CONFORM_SUITES_H

#include "../check.h"
#include <ops/common/cases.h>

/* Tables that end with a NULL id. */
extern const struct check_case suite_plugin[], suite_runtime_device[], suite_runtime_stream[],
    suite_runtime_event[], suite_memory_tensor[], suite_memory_use[],
    suite_memory_stats[], suite_memory_space[], suite_memory_returned[], suite_memory_plans[],
    suite_stress_large[];

/* Cases that run once for each kind of stream that the device has: arg is {kind, kind of others}.
 * streams: how many kinds vary, 1 or 2. <id>/<kind>, <id>/<kind>-<kind>. Tables end with a NULL. */
struct check_kinds {
    const char *id;
    check_fn *run;
    int streams;
};
extern const struct check_kinds suite_runtime_order[], suite_runtime_wait[],
    suite_runtime_callback[], suite_runtime_graph[], suite_runtime_other[], suite_runtime_program[],
    suite_runtime_program_other[], suite_runtime_launch[], suite_runtime_failure[],
    suite_runtime_pair[], suite_memory_order[];

/* plugin/memory, plugin/process, plugin/again. */
check_fn plugin_memory, plugin_process, plugin_again;

/* memory/roundtrip/<dtype>/<elements>, one for each: arg is {dtype, elements}. */
void memory_roundtrip(struct check *c, const int64_t *arg);

/* Runs one kernel case. */
void kernel_case_run(struct check *c, const struct kernel_case *made);

/* Whether none of its inputs is empty. */
bool kernel_case_has_elements(const struct kernel_case *made);

/* Whether a tensor of it lies as only rows flagged BP_KERNEL_STRIDED can take it. */
bool kernel_case_is_strided(const struct kernel_case *made);

/* Runs one case of the suite gradient: made->gradient says of which order. */
void gradient_case_run(struct check *c, const struct kernel_case *made);

/* Whether a usable row of the device takes op on dtype. */
bool kernel_has_row(struct bp_device *device, const char *op, uint32_t dtype);

/* Whether no kernel takes a call, or the device does not do what the call asks for: a row that the
 * call names may decline it so. */
bool kernel_is_refused(enum bp_status status);

/* Whether the core refuses a row because its dtypes do not fit its operator (bp_kernel_info). */
bool kernel_is_misfit(const char *reason);

/* npy.c: writes dense data as DIR/<id with _ for />.<what>.npy; bf16 is written as f32. Failures
 * are said on standard error: a dump is no part of the verdict. */
void npy_write(const char *dir, const char *id, const char *what, const struct ref_array *like,
               const void *data);

#endif
