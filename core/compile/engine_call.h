/* SPDX-License-Identifier: Apache-2.0 */
/* engine_call.h: declares how calls run on devices with BP_DEVICE_GRAPH_ONLY: the plan of a call is
 * a graph of one node that the engine has compiled (../plugin/engine_rows.h). */
#ifndef BP_ENGINE_CALL_H
#define BP_ENGINE_CALL_H

#include "../plugin/engine_rows.h"

/* Sets the functions of the rows. Any thread, any number of times. */
void bp_engine_calls_init(void);

#endif
