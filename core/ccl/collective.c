/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c: what collective calls differ in, and their text. */
#include "collective.h"

#include <inttypes.h>
#include <stdio.h>

const struct bp_call_form bp_call_forms[BP_COMM_CALL_COUNT] = {
    [BP_COMM_BARRIER] = {"bp_comm_barrier"},
    [BP_COMM_ALL_REDUCE] = {"bp_comm_all_reduce", .reduces = true, .meets = true},
    [BP_COMM_REDUCE] = {"bp_comm_reduce", .dst_at_root = true, .reduces = true, .meets = true},
    [BP_COMM_BROADCAST] = {"bp_comm_broadcast", .src_at_root = true, .meets = true},
    [BP_COMM_ALL_GATHER] = {"bp_comm_all_gather", .dst_parts = true, .meets = true},
    [BP_COMM_REDUCE_SCATTER] = {"bp_comm_reduce_scatter", .src_parts = true, .reduces = true,
                                .meets = true},
    [BP_COMM_ALL_TO_ALL] = {"bp_comm_all_to_all", .src_parts = true, .dst_parts = true},
    [BP_COMM_ALL_TO_ALL_RAGGED] = {"bp_comm_all_to_all_ragged", .ragged = true},
    [BP_COMM_GATHER] = {"bp_comm_gather", .dst_parts = true, .dst_at_root = true, .meets = true},
    [BP_COMM_SCATTER] = {"bp_comm_scatter", .src_parts = true, .src_at_root = true, .meets = true},
    [BP_COMM_SEND] = {"bp_comm_send"},
    [BP_COMM_RECV] = {"bp_comm_recv"},
};

const char *bp_comm_call_name(uint32_t call)
{
    switch (call) {
#define X(NAME, name) \
    case BP_COMM_##NAME: return #name;
        BP_COMM_CALLS(X)
#undef X
    default: return "?";
    }
}

static const char *reduction_name(uint32_t reduction)
{
    switch (reduction) {
#define X(NAME, name, number) \
    case number: return #name;
        BP_REDUCTIONS(X)
#undef X
    default: return "?";
    }
}

const char *bp_what_text(uint64_t what, uint64_t count, char *text, size_t size)
{
    uint32_t call = what & 0xff, root = (uint32_t)(what >> 24 & 0xff);
    bool known = call < BP_COMM_CALL_COUNT;
    bool rooted = known && (bp_call_forms[call].src_at_root || bp_call_forms[call].dst_at_root);
    int used = snprintf(text, size, "%s", bp_comm_call_name(call));

    if (call == BP_COMM_BARRIER) return text;
    if (bp_call_reduces(call))
        used += snprintf(text + used, size - (size_t)used, " %s",
                         reduction_name(what >> 16 & 0xff));
    if (call == BP_COMM_ALL_TO_ALL_RAGGED)
        used += snprintf(text + used, size - (size_t)used, " of %s",
                         bp_dtype_name(what >> 8 & 0xff));
    else
        used += snprintf(text + used, size - (size_t)used, " of %" PRIu64 " %s", count,
                         bp_dtype_name(what >> 8 & 0xff));
    if (rooted) snprintf(text + used, size - (size_t)used, " with root %" PRIu32, root);
    return text;
}

const char *bp_pair_text(const struct bp_collective *c, uint32_t other, char *text, size_t size)
{
    char what[200];

    snprintf(text, size, "%s %s rank %u",
             bp_what_text(bp_what(c->call, c->dtype, 0, 0), c->count, what, sizeof what),
             c->call == BP_COMM_SEND ? "to" : "from", other);
    return text;
}
