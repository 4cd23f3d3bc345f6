/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: compiled before all else, as the head of opgen.c, and up to the first error: a word that
 * is unknown or malformed gives one error here that names the row; every other file would give
 * thousands. */
#include <backplane/types.h>

#define OP(op, ins, outs, facts) _Static_assert(1 ins outs facts, "row " #op);
#define OPA(op, ins, outs, attrs, facts) _Static_assert(1 ins outs attrs facts, "row " #op);
#include <ops/ops.def>

/* Every row says once how it infers, how it is differentiated, what its cases, tolerance and doc
 * are. */
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

/* Two rows of one name are one enumerator twice. */
enum {
#define OP(op, ins, outs, facts) row_##op,
#define OPA(op, ins, outs, attrs, facts) row_##op,
#include <ops/ops.def>
    row_count
};
