/* SPDX-License-Identifier: Apache-2.0 */
/* suites.h: the tables of cases of each suite, and the functions that run kernel and gradient
 * cases. */
#ifndef BP_CONFORM_SUITES_H
#define BP_CONFORM_SUITES_H

#include "../check.h"
#include <ops/common/cases.h>

/* Tables of cases. A NULL id ends each table. */
extern const struct check_case suite_plugin[], suite_runtime_device[], suite_runtime_stream[],
    suite_runtime_event[], suite_memory_tensor[], suite_memory_use[],
    suite_memory_stats[], suite_memory_space[], suite_memory_returned[], suite_memory_plans[],
    suite_memory_folded[], suite_stress_large[];

/* Cases that run once for each kind of stream that the device has. arg is {kind, kind of the other
 * streams}. streams: the number of kinds that vary, 1 (ids <id>/<kind>) or 2 (ids
 * <id>/<kind>-<kind>). A NULL id ends each table. */
struct check_kinds {
    const char *id;
    check_fn *run;
    int streams;
};
extern const struct check_kinds suite_runtime_order[], suite_runtime_wait[],
    suite_runtime_callback[], suite_runtime_graph[], suite_runtime_other[], suite_runtime_program[],
    suite_runtime_program_other[], suite_runtime_program_random[], suite_runtime_launch[],
    suite_runtime_failure[],
    suite_runtime_pair[], suite_memory_order[];

/* The functions of the cases pass/<name>@<pass>: arg is the number of the pass; and of the cases
 * graph/<name>/<network>: arg is the number of the network. */
check_fn pass_fires, pass_values, pass_order, pass_near, pass_rewrite;
check_fn engine_claims, engine_results, engine_inputs, engine_twice, engine_threads;
check_fn engine_deadline, engine_leaks, engine_saved, engine_damaged, engine_weights;
check_fn engine_streams, engine_buckets;

/* The function of the cases graph/state/<name>, arg is the number of the name; NULL: there is
 * none. */
check_fn engine_state;
const char *engine_state_name(uint32_t number);

/* The functions of the cases plugin/memory, plugin/process and plugin/again. */
check_fn plugin_memory, plugin_process, plugin_again;

/* The function of the cases memory/roundtrip/<dtype>/<elements>: arg is {dtype, elements}. */
void memory_roundtrip(struct check *c, const int64_t *arg);

/* Runs one kernel case. */
void kernel_case_run(struct check *c, const struct kernel_case *made);

/* The function of the cases kernel/<own operator>/<dtype>/<number>@<row>, for rows of operators
 * that a plugin defines in other operators. arg: {index of the row, dtype + 256 number of the
 * shape, below OWN_SHAPES, + 65536 if the row has layouts of the plugin: only programs use it}. */
enum { OWN_SHAPES = 8 };
check_fn kernel_own_run;

/* Whether each input of the case has elements. */
bool kernel_case_has_elements(const struct kernel_case *made);

/* Returns the property of the case that the row does not support, by its flags: strides without
 * BP_KERNEL_STRIDED, or inputs of other shapes with BP_KERNEL_SAME_SHAPE. NULL: none. */
const char *kernel_case_excess(const struct kernel_case *made);

/* Runs one case of the suite gradient, of the order made->gradient. */
void gradient_case_run(struct check *c, const struct kernel_case *made);

/* Whether a usable kernel row of the device supports op with dtype. */
bool kernel_has_row(struct bp_device *device, const char *op, uint32_t dtype);

/* Whether the status means that no kernel supports the call, or that the device does not support a
 * property of the call. A kernel row that a call names declines a configuration with this
 * status. */
bool kernel_is_refused(enum bp_status status);

/* Whether the core does not use a kernel row because the row's dtypes do not match its operator,
 * or it names no layout of the plugin (bp_kernel_info). */
bool kernel_is_misfit(const char *reason);

/* In npy.c: writes dense data to the file DIR/<id with _ for />.`what`.npy; bf16 is written as f32.
 * A failure is reported on standard error only, because a dump is no part of the verdict. */
void npy_write(const char *dir, const char *id, const char *what, const struct ref_array *like,
               const void *data);

#endif
