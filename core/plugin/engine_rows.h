/* SPDX-License-Identifier: Apache-2.0 */
/* engine_rows.h: declares kernel rows that the core makes for devices with BP_DEVICE_GRAPH_ONLY: a
 * row for each operator that the engine of the plugin knows. The row's plan is a graph of one node
 * that the engine has compiled, so that such calls are selected, prepared and cached like those of
 * kernels. */
#ifndef BP_ENGINE_ROWS_H
#define BP_ENGINE_ROWS_H

#include "../schema/op.h"
#include "entry.h"

/* A row. Its plans are struct bp_engine_code. All plans for equal graphs are one: types, attributes
 * and what the app allows decide, not the constants of a call. */
struct bp_engine_code;
struct bp_engine_call_row {
    struct bp_kernel kernel; /* first: the rows' callbacks get its address */
    struct bp_plugin_entry *entry;
    const struct bp_opdef *op;
    char name[64];

    pthread_mutex_t lock;        /* guards the list, and refs of its members */
    struct bp_engine_code *code; /* the plans that exist */
};

/* The functions of all such rows, which the compiler has. */
struct bp_engine_calls {
    enum bp_status (*prepare)(void *self, const struct bp_prep *prep, struct bp_plan *out);
    void (*plan_destroy)(void *self, const struct bp_kernel *kernel, void *plan);
    enum bp_status (*launch)(const struct bp_launch *launch);
    enum bp_status (*launch_varied)(const struct bp_launch *launch); /* of an operator with
                                                                        attributes of a run */
};
/* Any thread, any number of times. */
void bp_engine_calls_set(const struct bp_engine_calls *calls);

/* Whether a row is such a row, or its copy in the entry. */
bool bp_engine_call_is(const struct bp_kernel *row);

/* Stores why an engine did not compile a call of this thread; and returns the last such reason. */
void bp_engine_call_refuse(const char *reason);
const char *bp_engine_call_refusal(void);

#endif
