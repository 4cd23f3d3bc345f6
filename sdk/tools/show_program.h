/* SPDX-License-Identifier: Apache-2.0 */
/* show_program.h: functions shared by the files of `bp program`. */
#ifndef BP_TOOLS_SHOW_PROGRAM_H
#define BP_TOOLS_SHOW_PROGRAM_H

#include "run_model.h"

/* Text such as "f32 1x64x56x56"; the caller frees it. */
char *show_type(const struct bp_view *type);
/* "row-major", "channels-last", "strided", or the name of a layout of the plugin. */
const char *show_layout(const struct bp_operand_info *o);

/* Describe a launch, and operand k of one. false: there is none, or the operand is absent. */
bool show_launch(struct bp_program *program, uint32_t n, struct bp_launch_info *out);
bool show_operand(struct bp_program *program, uint32_t n, uint32_t k, struct bp_operand_info *out);

/* In show_dot.c: writes the launches as a graph for Graphviz. An edge goes from the launch that
 * wrote a tensor's memory last to one that reads the tensor. */
bool show_dot(struct bp_program *program, const char *path);

#endif
