/* SPDX-License-Identifier: Apache-2.0 */
/* profile_launch.h: declares how kernel launches get into profiles. */
#ifndef BP_PROFILE_LAUNCH_H
#define BP_PROFILE_LAUNCH_H

#include "../device/profiled.h"
#include "../schema/op.h"

/* Records a launch that has returned: work l->tag of the timeline, which began at `began`. node:
 * the name of a program's node, or NULL. */
void bp_profile_launch(struct bp_timeline *timeline, const struct bp_launch *l,
                       const struct bp_opdef *row, const char *node, uint64_t began);

#endif
