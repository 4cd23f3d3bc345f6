/* SPDX-License-Identifier: Apache-2.0 */
/* op_table.c: builds the operator table from ops.def, and finds operators by name. */
#include "op.h"

#include <backplane/attrs.h>
#include <math.h> /* INFINITY, a default */
#include <string.h>

/* Lists of ports and attributes; each ends with an entry without a name. */
#define OP(op, ins, outs, facts) \
    static const struct bp_port op##_in[] = {ins{0}}, op##_out[] = {outs{0}};
#define OPA(op, ins, outs, attrs, facts) \
    static const struct bp_port op##_in[] = {ins{0}}, op##_out[] = {outs{0}};
#define IN(n, v, d) {#n, BP_PORT_IN, BP_VAR_##v, -1, 0, d},
#define SHAPE_IN(n, v, d) {#n, BP_PORT_IN, BP_VAR_##v, -1, 1, d},
#define OPT(n, v, d) {#n, BP_PORT_OPT, BP_VAR_##v, -1, 0, d},
#define VAR(n, v, d) {#n, BP_PORT_VAR, BP_VAR_##v, -1, 0, d},
#define HOST(n, v, d) {#n, BP_PORT_HOST, BP_VAR_##v, -1, 0, d},
#define OUT(n, v, d) {#n, BP_PORT_OUT, BP_VAR_##v, -1, 0, d},
#define OPTOUT(n, v, d) {#n, BP_PORT_OPTOUT, BP_VAR_##v, -1, 0, d},
#define MAY_SHARE(n, v, i, d) {#n, BP_PORT_OUT, BP_VAR_##v, i, 0, d},
#define UPDATE(n, v, i, d) {#n, BP_PORT_UPDATE, BP_VAR_##v, i, 0, d},
#define VIEW(n, v, i, d) {#n, BP_PORT_VIEW, BP_VAR_##v, i, 0, d},
#define VAROUT(n, v, d) {#n, BP_PORT_VAROUT, BP_VAR_##v, -1, 0, d},
#define VAROUT_SHARE(n, v, i, d) {#n, BP_PORT_VAROUT, BP_VAR_##v, i, 0, d},
#define VIEWS(n, v, i, d) {#n, BP_PORT_VIEWS, BP_VAR_##v, i, 0, d},
#include <ops/ops.def>

/* The macro for an attribute does not know its operator, so op_table_init computes the offsets: the
 * members have no gaps. */
#define OP(op, ins, outs, facts)
#define OPA(op, ins, outs, attrs, facts) static struct bp_attr op##_attr[] = {attrs{0}};
#define I64(n, v, w, d) {#n, BP_ATTR_I64, BP_ATTR_##w, 0, 1, 0, v, d},
#define F64(n, v, w, d) {#n, BP_ATTR_F64, BP_ATTR_##w, 0, 1, 0, v, d},
#define FLAG(n, v, w, d) {#n, BP_ATTR_FLAG, BP_ATTR_##w, 0, 1, 0, v, d},
#define DTYPE(n, v, w, d) {#n, BP_ATTR_DTYPE, BP_ATTR_##w, 0, 1, 0, v, d},
#define INTS(n, c, v, w, d) {#n, BP_ATTR_INTS, BP_ATTR_##w, 0, c, 0, v, d},
#define DIMS(n, w, d) {#n, BP_ATTR_DIMS, BP_ATTR_##w, 0, 1, 0, 0, d},
#include <ops/ops.def>

#define EACH_1(v) v
#define EACH_2(v) v, v
#define EACH_3(v) v, v, v
#define EACH_4(v) v, v, v, v
#define EACH_6(v) v, v, v, v, v, v
#define OP(op, ins, outs, facts)
#define OPA(op, ins, outs, attrs, facts) \
    static const struct bp_##op##_attrs op##_defaults = {.size = sizeof op##_defaults, attrs};
#define I64(n, v, w, d) .n = v,
#define F64(n, v, w, d) .n = v,
#define FLAG(n, v, w, d) .n = v,
#define DTYPE(n, v, w, d) .n = v,
#define INTS(n, c, v, w, d) .n = {EACH_##c(v)},
#define DIMS(n, w, d) .n = {NULL, 0},
#include <ops/ops.def>
#undef EACH_1
#undef EACH_2
#undef EACH_3
#undef EACH_4
#undef EACH_6

#define COUNT(list) (sizeof(list) / sizeof *(list) - 1)
#define PORTS(op) \
    .info.name = #op, .info.in = op##_in, .info.out = op##_out, .info.n_in = COUNT(op##_in), \
    .info.n_out = COUNT(op##_out)
#define OP(op, ins, outs, facts) [BP_ROW_##op] = {PORTS(op), facts},
#define OPA(op, ins, outs, attrs, facts) [BP_ROW_##op] = {PORTS(op), .info.attr = op##_attr, \
    .info.n_attr = COUNT(op##_attr), .info.attrs_size = sizeof op##_defaults, \
    .info.defaults = &op##_defaults, facts},
#define TYPES(v, mask) .info.types[BP_VAR_##v] = mask,
#define INFER(rule) .infer = bp_infer_##rule,
#define VALUES(rule) .values = bp_values_##rule,
#define GRAD(rule) .grad = bp_grad_##rule,
#define DECOMPOSE(rule) .decompose = bp_decompose_##rule,
#define DYNAMIC_EXTENT(axis) .info.bound_axis = axis, .bound = true,
#define LAYOUT_FROM(inputs) .keeps = inputs,
#define SAVES(bits) .saves = bits,
#define RANDOM(draws) .random = true,
#define ALIAS(names) .info.alias = names,
#define DOC(text) .info.doc = text
struct bp_opdef bp_opdef[BP_ROW_COUNT] = {
#include <ops/ops.def>
};
#undef PORTS
#undef COUNT

/* Open addressing over all names and aliases, at most half full. */
enum { SLOTS = 4096 };
static uint16_t slot[SLOTS]; /* row number + 1 */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t op_table_hash(const char *name, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)name[i]) * 16777619u;
    return h;
}

static void op_table_enter(const char *name, size_t n, uint16_t row)
{
    uint32_t at = op_table_hash(name, n) % SLOTS;

    while (slot[at]) at = (at + 1) % SLOTS;
    slot[at] = (uint16_t)(row + 1);
}

static void op_table_init(void)
{
    for (uint16_t row = 0; row < BP_ROW_COUNT; row++) {
        struct bp_opinfo *op = &bp_opdef[row].info;
        bp_opdef_derive(&bp_opdef[row], (struct bp_attr *)(uintptr_t)op->attr); /* writable */
        op_table_enter(op->name, strlen(op->name), row);
        for (const char *alias = op->alias; alias && *alias;) {
            size_t n = strcspn(alias, " ");
            op_table_enter(alias, n, row);
            alias += n + strspn(alias + n, " ");
        }
    }
}

void bp_opdefs_init(void)
{
    pthread_once(&once, op_table_init);
}

static bool has_name(const struct bp_opinfo *op, const char *name, size_t n)
{
    if (strlen(op->name) == n && !memcmp(op->name, name, n)) return true;
    for (const char *alias = op->alias; alias && *alias;) {
        size_t length = strcspn(alias, " ");
        if (length == n && !memcmp(alias, name, n)) return true;
        alias += length + strspn(alias + length, " ");
    }
    return false;
}

const struct bp_opdef *bp_opdef_find(const char *name)
{
    size_t n = strlen(name);

    bp_opdefs_init();
    for (uint32_t at = op_table_hash(name, n) % SLOTS; slot[at]; at = (at + 1) % SLOTS)
        if (has_name(&bp_opdef[slot[at] - 1].info, name, n)) return &bp_opdef[slot[at] - 1];
    return memchr(name, '.', n) ? bp_plugin_op_find(name) : NULL;
}

const struct bp_opinfo *bp_opinfo_find(const char *name)
{
    const struct bp_opdef *row = name ? bp_opdef_find(name) : NULL;

    return row ? &row->info : NULL;
}

uint32_t bp_opinfo_count(void)
{
    return BP_ROW_COUNT;
}

const struct bp_opinfo *bp_opinfo_at(uint32_t index)
{
    bp_opdefs_init();
    return index < BP_ROW_COUNT ? &bp_opdef[index].info : NULL;
}
