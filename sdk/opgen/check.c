/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: compiled before all else. A word that is unknown or malformed gives one error here that names
 * the row; every other file would give thousands. */
#include <backplane/types.h>

#define OP(op, ins, outs, facts) _Static_assert(1 ins outs facts, "row " #op);
#define OPA(op, ins, outs, attrs, facts) _Static_assert(1 ins outs attrs facts, "row " #op);
#include <backplane/ops/ops.def>

/* Two rows of one name are one enumerator twice. */
enum row {
#define OP(op, ins, outs, facts) row_##op,
#define OPA(op, ins, outs, attrs, facts) row_##op,
#include <backplane/ops/ops.def>
    row_count
};
