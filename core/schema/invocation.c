/* SPDX-License-Identifier: Apache-2.0 */
/* invocation.c: places the outputs of an invocation in its flat list. */
#include "op.h"

#include <inttypes.h>

/* Sets where each declared output begins in the flat list; a variadic output has n tensors. */
static void place_outputs(struct bp_invocation *inv, uint32_t n)
{
    const struct bp_opinfo *op = &inv->row->info;

    inv->n_out = 0;
    for (uint32_t port = 0; port < op->n_out; port++) {
        uint32_t end = inv->n_out + (bp_port_varies(&op->out[port]) ? n : 1);
        inv->out_at[port] = (uint16_t)inv->n_out;
        for (; inv->n_out < end; inv->n_out++) {
            inv->out[inv->n_out] = (struct bp_type){.dtype = inv->dtype[op->out[port].var]};
            inv->given[inv->n_out] = NULL;
        }
    }
    inv->out_at[op->n_out] = (uint16_t)inv->n_out;
}

enum bp_status bp_invocation_count(struct bp_invocation *inv, int64_t n)
{
    const struct bp_opinfo *op = &inv->row->info;
    int64_t most = BP_FLAT_MAX - op->n_out + 1;

    if (n < 0 || n > most)
        return bp_error(BP_ERR_INVALID, "%s: it has %" PRId64 " outputs, expected at most %" PRId64,
                        op->name, n, most);
    place_outputs(inv, (uint32_t)n);
    return BP_OK;
}
