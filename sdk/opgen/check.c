/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: checks the operator table. It is compiled before all other files, as the beginning of
 * opgen.c, and stops at the first error: an unknown or malformed macro in an operator's row gives
 * one error here, which names the row, instead of thousands of errors in every other file. */
#include <backplane/types.h>

#define OP(op, ins, outs, facts) _Static_assert(1 ins outs facts, "row " #op);
#define OPA(op, ins, outs, attrs, facts) _Static_assert(1 ins outs attrs facts, "row " #op);
#include <ops/ops.def>

/* Every row states exactly once how its shape is inferred, how it is differentiated, and its cases,
 * tolerance and documentation. */
#define COMPLETE(sum) ((sum) == 11111 || (sum) == 111111 || (sum) == 111101)
#define OP(op, ins, outs, facts) \
    _Static_assert(COMPLETE(0 facts), \
                   "row " #op " needs INFER, GRAD, NODIFF or EXPAND, CASES, TOL and DOC, " \
                   "once each");
#define OPA(op, ins, outs, attrs, facts) \
    _Static_assert(COMPLETE(0 facts), \
                   "row " #op " needs INFER, GRAD, NODIFF or EXPAND, CASES, TOL and DOC, " \
                   "once each");
#define INFER(rule) +1
#define GRAD(rule) +10
#define NODIFF(why) +10
#define DECOMPOSE(rule) +100000
#define CASES(family) +100
#define TOL(ulp, terms) +1000
#define DOC(text) +10000
#include <ops/ops.def>

/* Two rows with one name define one enumerator twice. */
enum {
#define OP(op, ins, outs, facts) row_##op,
#define OPA(op, ins, outs, attrs, facts) row_##op,
#include <ops/ops.def>
    row_count
};
