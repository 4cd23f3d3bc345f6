/* SPDX-License-Identifier: Apache-2.0 */
/* op_def.c: derives the remaining members of an operator definition, of the core's table or of a
 * plugin. */
#include "op.h"

#include <string.h>

static void place_attrs(const struct bp_opinfo *op, struct bp_attr *attr)
{
    size_t offset = sizeof(size_t);

    for (uint32_t i = 0; i < op->n_attr; i++) {
        attr[i].offset = (uint16_t)offset;
        offset += attr[i].kind == BP_ATTR_DIMS ? sizeof(struct bp_dims) : 8u * attr[i].count;
    }
}

/* Whether each input broadcasts to output 0. The rules of inference that give the result the shape
 * to which all inputs broadcast are listed here. */
static bool def_broadcasts(const struct bp_opdef *row)
{
    return row->infer == bp_infer_broadcast || row->infer == bp_infer_where ||
           row->infer == bp_infer_compare || row->infer == bp_infer_prelu ||
           row->infer == bp_infer_complex;
}

/* Derives the members that calls need quickly, such as the words of the KEY attributes and whether
 * others exist. */
void bp_opdef_derive(struct bp_opdef *row, struct bp_attr *attr)
{
    struct bp_opinfo *op = &row->info;

    place_attrs(op, attr);
    for (uint32_t i = 0; i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        uint32_t words = a->kind == BP_ATTR_DIMS ? 2 : a->count;
        if (a->when == BP_ATTR_RUN) row->has_run = true;
        else if (a->kind == BP_ATTR_DIMS) row->has_lists = true;
        else row->key_words |= ((UINT64_C(1) << words) - 1) << a->offset / 8;
    }
    for (uint32_t i = 0; i < op->n_in; i++) row->has_host |= op->in[i].kind == BP_PORT_HOST;
    for (uint32_t i = 0; i < op->n_out; i++) {
        row->is_view |= op->out[i].kind == BP_PORT_VIEW || op->out[i].kind == BP_PORT_VIEWS;
        row->varies |= bp_port_varies(&op->out[i]);
        row->updates |= op->out[i].kind == BP_PORT_UPDATE;
    }
    row->broadcasts = def_broadcasts(row);
    for (uint32_t i = 0; i < op->n_in; i++)
        row->has_groups |= op->in[i].kind == BP_PORT_VAR && op->n_in > 1;
    row->plain = !row->bound && !row->random && !row->has_host && !row->is_view &&
                 !row->updates && !row->varies;
    row->simple = row->plain && op->n_out == 1 && op->out[0].kind == BP_PORT_OUT &&
                  op->n_in <= 4 && !row->has_lists && !row->has_run;
    for (uint32_t i = 0; i < op->n_in; i++) row->simple &= op->in[i].kind == BP_PORT_IN;
    op->flags = (row->bound ? BP_OP_BOUND : 0) | (row->random ? BP_OP_RANDOM : 0) |
                (row->decompose ? BP_OP_EXPAND : 0) | (row->is_view ? BP_OP_VIEW : 0);
}

/* Whether outputs have the type variable, and no input. */
static bool def_returns(const struct bp_opinfo *op, uint32_t var)
{
    bool returned = false;

    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i].var == var) return false;
    for (uint32_t i = 0; i < op->n_out; i++) returned |= op->out[i].var == var;
    return returned;
}

/* Results of T are values: operators such as randint have dtypes of integers only, too. The name of
 * a plugin's own operator has a dot; what it returns is not known. */
uint32_t bp_opinfo_index_output(const struct bp_opinfo *op)
{
    const uint64_t both = UINT64_C(1) << BP_I64 | UINT64_C(1) << BP_I32;

    if (strchr(op->name, '.')) return BP_VAR_COUNT;
    for (uint32_t v = 0; v < BP_VAR_COUNT; v++) {
        bool integers = op->types[v] >> BP_I64 & 1 && !(op->types[v] & ~both);
        if (v != BP_VAR_T && integers && def_returns(op, v)) return v;
    }
    return BP_VAR_COUNT;
}
