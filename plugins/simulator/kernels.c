/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: defines, for the simulator's images, the names, argument sizes and operand counts of
 * one family's entries. The build names the family by -DFAMILY_TABLE=sim_index_kernels,
 * -DFAMILY_HEADER=<ops/index/kernel.h> and -DFAMILY_LIST=<ops/index/kernels.def>. Other files
 * compile the kernels themselves. */
#include "image.h"
#include <dialect/run.h>
#undef ENTRY_SPANS
#undef ENTRY_TEAMS
#undef ENTRY_RUNS
#define ENTRY_SPANS(name, n, ...) enum { OPERANDS_OF_##name = n };
#define ENTRY_TEAMS ENTRY_SPANS
#define ENTRY_RUNS ENTRY_SPANS
#include FAMILY_HEADER

/* The parameters of a launch by plugins/gpu: arguments with 8-byte fields, a count, operands. */
enum { PARAMETERS_MAX = 4000, REST = 8 + 12 * 8 };
#define ENTRY(name) \
    _Static_assert(sizeof(struct name##_args) % 8 == 0 && \
                       sizeof(struct name##_args) <= PARAMETERS_MAX - REST, #name);
#define ENTRY_TEAM ENTRY
#define ENTRY_PLAIN ENTRY
#define ENTRY_TEAM_PLAIN ENTRY
#define ROW(op, launch, number, T, U, I, R, flags)
#define ROW_MATH ROW
#define ROW_PLANNED ROW
#define ROW_MATH_PLANNED ROW
#define ROW_DEVICE ROW
#define ROW_DEVICE_PLANNED ROW
#include FAMILY_LIST
#undef ENTRY
#undef ENTRY_TEAM
#define ENTRY(name) {#name, sizeof(struct name##_args), OPERANDS_OF_##name},
#define ENTRY_TEAM ENTRY
extern const struct sim_kernel FAMILY_TABLE[];
const struct sim_kernel FAMILY_TABLE[] = {
#include FAMILY_LIST
    {NULL, 0, 0},
};
