/* SPDX-License-Identifier: Apache-2.0 */
/* engine_call.h: declares kernel rows that the core makes for devices with BP_DEVICE_GRAPH_ONLY: a
 * row for each operator that the engine of the plugin knows. The row's plan is a graph of one node
 * that the engine has compiled, so that such calls are selected, prepared and cached like those of
 * kernels. */
#ifndef BP_ENGINE_CALL_H
#define BP_ENGINE_CALL_H

#include "../plugin/entry.h"
#include "../schema/op.h"

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

/* Whether calls of an operator can be compiled by an engine: it has a fixed number of results and
 * only computes them from its inputs. Views need no kernel. */
bool bp_engine_call_may_have(const struct bp_opdef *op);

/* Fills the row of an operator that the engine knows. */
void bp_engine_call_row_init(struct bp_engine_call_row *row, struct bp_plugin_entry *entry,
                             const struct bp_engine_op *known, const struct bp_opdef *op);

/* Frees the rows of an entry, without any plan left. */
void bp_engine_call_rows_free(struct bp_engine_call_row *row, uint32_t n);

/* Whether a row is such a row, or its copy in the entry. */
bool bp_engine_call_is(const struct bp_kernel *row);
/* Returns why an engine did not compile the last call of this thread that it refused. */
const char *bp_engine_call_refusal(void);

#endif
