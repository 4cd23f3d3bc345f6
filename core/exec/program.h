/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: declares how programs run a schedule (../compile/schedule.h) with the app's
 * tensors. */
#ifndef BP_PROGRAM_PRIVATE_H
#define BP_PROGRAM_PRIVATE_H

#include "../compile/schedule.h"

/* program_move.c: copies the elements of src to *dst. If *dst is NULL, it is created with the axis
 * order of src. */
enum bp_status bp_program_move(struct bp_stream *stream, struct bp_tensor *src,
                               struct bp_tensor **dst);

/* compiled_run.c. Whether a schedule can run with these tensors, which bp_graph_check has accepted:
 * the inputs have the types for which it was compiled, and no output or updated tensor overlaps
 * another tensor in a way that only a run node by node handles. */
bool bp_schedule_fits(const struct bp_schedule *schedule, const struct bp_stream *stream,
                      struct bp_tensor *const *in, struct bp_tensor *const *out);

/* Runs a schedule on an inline stream. out: as in bp_program_run; unchanged after a failure.
 * BP_ERR_MEMORY before the first launch sets *out_began to false: nothing has run. */
enum bp_status bp_schedule_run(struct bp_schedule *schedule, struct bp_stream *stream,
                               struct bp_tensor *const *in, struct bp_tensor **out,
                               bool *out_began);

#endif
