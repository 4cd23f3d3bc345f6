/* SPDX-License-Identifier: Apache-2.0 */
/* row_types.c: checks whether the dtypes of a kernel row match its operator, and describes a
 * mismatch. */
#include "row_types.h"

#include "../schema/op.h"

#include <backplane/dtype.h>
#include <backplane/error.h>
#include <stdio.h>

/* Returns the dtypes of a type variable; 0: no tensor of the operator uses the variable. */
static uint64_t types_of(const struct bp_opinfo *op, int var)
{
    bool seen = false;

    for (uint32_t i = 0; i < op->n_in; i++)
        seen |= op->in[i].var == var && op->in[i].kind != BP_PORT_HOST;
    for (uint32_t i = 0; i < op->n_out; i++) seen |= op->out[i].var == var;
    return seen ? op->types[var] : 0;
}

/* Whether a row has i32 in place of i64 for the indices that its operator returns: the core
 * converts them. */
static bool row_types_narrow(const struct bp_opinfo *op, int var, uint64_t types)
{
    return types == UINT64_C(1) << BP_I32 && (uint32_t)var == bp_opinfo_index_output(op);
}

/* Writes the names of the dtypes of a mask: "f32, f64". */
static const char *row_types_names(uint64_t mask, char *text, size_t size)
{
    size_t used = 0;

    *text = 0;
    for (uint32_t t = 0; t < 64 && used < size; t++)
        if (mask >> t & 1)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     bp_dtype_name(t));
    return text;
}

bool bp_row_types_find_misfit(const struct bp_opinfo *op, const uint64_t *types, char *text,
                              size_t size)
{
    char stray[160], all[160];

    for (int v = 0; v < BP_VAR_COUNT; v++) {
        uint64_t defined = types_of(op, v), other = types[v] & ~defined;
        if (row_types_narrow(op, v, types[v])) continue;
        row_types_names(other, stray, sizeof stray);
        row_types_names(defined, all, sizeof all);
        if (other && defined)
            snprintf(text, size,
                     "types[%d] has %s, which %s does not have for type variable %c (%s): take it "
                     "out",
                     v, stray, op->name, "TUIR"[v], all);
        else if (other)
            snprintf(text, size,
                     "types[%d] has %s, but no tensor of %s has type variable %c: make it 0", v,
                     stray, op->name, "TUIR"[v]);
        else if (defined && !types[v])
            snprintf(text, size,
                     "types[%d] is 0, but %s has type variable %c too (%s): no call would ever fit "
                     "the row",
                     v, op->name, "TUIR"[v], all);
        else continue;
        return true;
    }
    return false;
}
