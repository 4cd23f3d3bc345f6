/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c: finds the operators into which the core decomposes a case, and looks for kernel rows of
 * the device for them. */
#include "parts.h"
#include "suites/suites.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A usable kernel row, with those of its dtypes that the device can hold. */
struct row {
    const struct bp_opinfo *op;
    uint64_t types[BP_VAR_COUNT];
};

/* A step of a decomposition for which the device has a kernel row. */
struct part {
    const struct bp_opinfo *op;
    uint32_t dtype; /* of variable T */
};

struct verdict {
    uint64_t question; /* hash of the properties of the case (question_of); 0: the slot is empty */
    struct part *part;
    size_t n;
    /* The first step for which the device has no kernel row. op NULL: it has one for each step. */
    struct part lacks;
};

struct parts {
    struct row *row; /* sorted by the address of the operator */
    size_t n_row;
    struct verdict *verdict; /* a hash table of `room` slots; room is a power of two */
    size_t n_verdict, room;
};

static int compare_ops(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    return (x->op > y->op) - (x->op < y->op);
}

/* Returns the dtypes with which calls reach a row that has `types` for a type variable. The core
 * converts indices between i64 and i32. */
static uint64_t row_reached(uint64_t of_operator, uint64_t types, int var)
{
    const uint64_t both = BP_M(I64) | BP_M(I32);

    if (var == BP_VAR_T || of_operator & ~both || !(types & BP_M(I32))) return types;
    return (types | BP_M(I64)) & of_operator;
}

static void find_rows(struct parts *parts, struct bp_device *device)
{
    struct bp_device_properties held = {.size = sizeof held};
    uint32_t n = bp_device_kernels(device);

    parts->row = calloc(n + 1, sizeof *parts->row);
    if (!parts->row) abort();
    if (bp_device_get_properties(device, &held)) return;
    for (uint32_t i = 0; i < n; i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        struct row *row = &parts->row[parts->n_row];
        if (bp_device_kernel(device, i, &info) || *info.reason) continue;
        row->op = bp_opinfo_find(info.op);
        if (!row->op) continue;
        for (int v = 0; v < BP_VAR_COUNT; v++)
            row->types[v] = row_reached(row->op->types[v], info.types[v] & held.dtypes, v) &
                            held.dtypes;
        parts->n_row++;
    }
    qsort(parts->row, parts->n_row, sizeof *parts->row, compare_ops);
}

static struct parts *parts_of(struct fixture *fixture)
{
    struct parts *parts = fixture->parts;

    if (parts) return parts;
    parts = calloc(1, sizeof *parts);
    if (!parts) abort();
    parts->room = 1024;
    parts->verdict = calloc(parts->room, sizeof *parts->verdict);
    if (!parts->verdict) abort();
    find_rows(parts, fixture->device);
    fixture->parts = parts;
    return parts;
}

void parts_destroy(struct parts *parts)
{
    if (!parts) return;
    for (size_t i = 0; i < parts->room; i++) free(parts->verdict[i].part);
    free(parts->verdict);
    free(parts->row);
    free(parts);
}

/* Whether a kernel row supports the dtypes of all type variables of the step. */
static bool has_row(const struct parts *parts, const struct bp_part *part)
{
    size_t low = 0, high = parts->n_row;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (parts->row[middle].op < part->op) low = middle + 1;
        else high = middle;
    }
    for (; low < parts->n_row && parts->row[low].op == part->op; low++) {
        bool fits = true;
        for (int v = 0; v < BP_VAR_COUNT; v++)
            if (part->bound >> v & 1) fits &= parts->row[low].types[v] >> part->dtype[v] & 1;
        if (fits) return true;
    }
    return false;
}

struct look {
    const struct parts *parts;
    struct verdict *verdict;
    bool all; /* also look at the steps behind the first missing one */
};

static void add_part(struct verdict *a, const struct part *part)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->part[i].op == part->op && a->part[i].dtype == part->dtype) return;
    a->part = realloc(a->part, (a->n + 1) * sizeof *a->part);
    if (!a->part) abort();
    a->part[a->n++] = *part;
}

/* Called for each step. Returns true to decompose a step without a kernel row further. */
static bool look_at(void *ctx, const struct bp_part *part)
{
    struct look *look = ctx;
    struct part seen = {part->op, part->dtype[BP_VAR_T]};

    if (look->verdict->lacks.op && !look->all) return false;
    if (part->op->flags & BP_OP_VIEW) return false;
    if (has_row(look->parts, part)) {
        add_part(look->verdict, &seen);
        return false;
    }
    if (part->op->flags & BP_OP_EXPAND) return true;
    if (!strcmp(part->op->name, "assign")) return false; /* the core copies without a kernel */
    if (!look->verdict->lacks.op) look->verdict->lacks = seen;
    return false;
}

/* Fills the arguments of the ports with the case's tensors; a variadic port gets all the remaining
 * ones. Attributes that can also be given as tensors stay in the attribute struct. */
static void fill_ports(const struct bp_opinfo *op, const struct kernel_case *made,
                       struct bp_tensor *const *value, struct bp_arg *arg)
{
    int at = 0;

    for (uint32_t p = 0; p < op->n_in; p++) {
        int n = op->in[p].kind == BP_PORT_VAR ? made->n_in - at : at < made->n_in;
        if (op->in[p].kind == BP_PORT_HOST) continue;
        arg[p] = (struct bp_arg){value + at, (size_t)(n && value[at] ? n : 0)};
        at += n;
    }
}

/* Lets the core decompose the case. A call that the core rejects here is rejected again when the
 * case runs, and the case then fails. */
static void parts_decompose(struct fixture *fixture, const struct bp_opinfo *op,
                            const struct kernel_case *made, struct verdict *verdict)
{
    struct look look = {fixture->parts, verdict, made->real};
    struct bp_tensor *value[CASE_PORTS + 1] = {NULL};
    struct bp_arg arg[CASE_PORTS] = {{NULL, 0}};
    struct bp_call call = {.size = sizeof call, .op = op->name, .in = arg, .n_in = op->n_in,
                           .attrs = made->attrs.size ? &made->attrs : NULL};
    enum bp_status status = BP_OK;
    struct bp_graph *graph;

    if (bp_graph_create(fixture->core, &graph)) return;
    for (int i = 0; i < made->n_in && status == BP_OK; i++) {
        const struct kernel_input *in = &made->in[i];
        if (in->present)
            status = bp_graph_input(graph, NULL, in->dtype, (uint32_t)in->rank, in->shape,
                                    &value[i]);
    }
    fill_ports(op, made, value, arg);
    if (status == BP_OK)
        status = bp_graph_decompose(graph, &call, NULL, (size_t)(made->n_out ? made->n_out : 1),
                                    look_at, &look);
    for (int i = 0; i < made->n_in; i++) bp_tensor_destroy(value[i]);
    bp_graph_destroy(graph);
}

/* FNV-1a over words of 8 bytes. */
static uint64_t hash_words(uint64_t hash, const void *at, size_t bytes)
{
    uint64_t word;

    for (size_t i = 0; i < bytes; i += sizeof word) {
        word = 0;
        memcpy(&word, (const char *)at + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        hash = (hash ^ word) * 0x100000001b3;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint64_t hash_number(uint64_t hash, int64_t number)
{
    return hash_words(hash, &number, sizeof number);
}

/* Hashes the contents of lists instead of their addresses: a list lies in the case, at another
 * address in each copy. */
static uint64_t hash_attrs(uint64_t hash, const struct bp_opinfo *op,
                           const struct kernel_case *made)
{
    unsigned char attrs[sizeof made->attrs];

    memcpy(attrs, &made->attrs, op->attrs_size);
    for (uint32_t i = 0; i < op->n_attr; i++) {
        struct bp_dims dims;
        if (op->attr[i].kind != BP_ATTR_DIMS) continue;
        memcpy(&dims, attrs + op->attr[i].offset, sizeof dims);
        hash = hash_number(hash, dims.n);
        hash = hash_words(hash, dims.at, (size_t)dims.n * sizeof *dims.at);
        memset(attrs + op->attr[i].offset, 0, sizeof dims);
    }
    return hash_words(hash, attrs, op->attrs_size);
}

/* The hash of the properties that decide on the result; cases with equal hashes share one result.
 * Attributes and ranks count, and whether there are elements. Extents count only for the few cases
 * of real size, because decomposing each of the other cases would take longer than all other work
 * on the list. */
static uint64_t question_of(const struct bp_opinfo *op, const struct kernel_case *made)
{
    uint64_t hash = hash_words(0xcbf29ce484222325, &op, sizeof op);

    hash = hash_number(hash, made->n_in | made->n_out << 8 | made->real << 16);
    for (int i = 0; i < made->n_in; i++) {
        const struct kernel_input *in = &made->in[i];
        hash = hash_number(hash, in->present ? (int64_t)in->dtype : -1);
        if (!in->present) continue;
        hash = hash_number(hash, in->rank);
        if (made->real)
            hash = hash_words(hash, in->shape, (size_t)in->rank * sizeof *in->shape);
    }
    hash = hash_number(hash, kernel_case_has_elements(made));
    if (op->attrs_size) hash = hash_attrs(hash, op, made);
    return hash ? hash : 1;
}

static struct verdict *parts_find(struct verdict *table, size_t room, uint64_t question)
{
    size_t at = (size_t)question & (room - 1);

    while (table[at].question && table[at].question != question) at = (at + 1) & (room - 1);
    return &table[at];
}

static void parts_grow(struct parts *parts)
{
    size_t room = 2 * parts->room;
    struct verdict *table = calloc(room, sizeof *table);

    if (!table) abort();
    for (size_t i = 0; i < parts->room; i++)
        if (parts->verdict[i].question)
            *parts_find(table, room, parts->verdict[i].question) = parts->verdict[i];
    free(parts->verdict);
    parts->verdict = table;
    parts->room = room;
}

static const struct verdict *verdict_of(struct fixture *fixture, const struct bp_opinfo *op,
                                        const struct kernel_case *made)
{
    struct parts *parts = parts_of(fixture);
    uint64_t question = question_of(op, made);
    struct verdict *verdict = parts_find(parts->verdict, parts->room, question);

    if (verdict->question) return verdict;
    if (2 * ++parts->n_verdict > parts->room) {
        parts_grow(parts);
        verdict = parts_find(parts->verdict, parts->room, question);
    }
    verdict->question = question;
    parts_decompose(fixture, op, made, verdict);
    return verdict;
}

static bool parts_report(struct part lacks, char *text, size_t size)
{
    if (lacks.op && text)
        snprintf(text, size, "it needs %s for %s, for which the device has no row", lacks.op->name,
                 bp_dtype_name(lacks.dtype));
    return lacks.op != NULL;
}

bool parts_lack(struct fixture *fixture, const struct kernel_case *made, char *text, size_t size)
{
    const struct bp_opinfo *op = bp_opinfo_find(made->op->name);
    struct part lacks = {NULL, 0};

    if (made->row || op->flags & BP_OP_VIEW) return false;
    if (op->flags & BP_OP_EXPAND) lacks = verdict_of(fixture, op, made)->lacks;
    return parts_report(lacks, text, size);
}

/* Makes inputs of a graph like the values that the node reads, and the arguments of its ports. */
static enum bp_status node_inputs(struct bp_graph *scratch, struct bp_graph *graph,
                                  const struct bp_node_info *node, const struct bp_opinfo *op,
                                  struct bp_tensor **value, struct bp_arg *arg)
{
    uint32_t at = 0, single = 0;

    for (uint32_t i = 0; i < node->n_in; i++) {
        struct bp_value_info v = {.size = sizeof v};
        enum bp_status status;
        if (node->in[i] == UINT32_MAX) continue;
        status = bp_graph_value(graph, node->in[i], &v);
        if (status == BP_OK)
            status = bp_graph_input(scratch, NULL, v.dtype, v.rank, v.shape, &value[i]);
        if (status) return status;
    }
    for (uint32_t p = 0; p < op->n_in; p++)
        single += op->in[p].kind != BP_PORT_VAR && op->in[p].kind != BP_PORT_HOST;
    for (uint32_t p = 0; p < op->n_in; p++) {
        bool many = op->in[p].kind == BP_PORT_VAR;
        uint32_t n = many ? node->n_in - single : at < node->n_in;
        if (op->in[p].kind == BP_PORT_HOST) continue;
        arg[p] = (struct bp_arg){value + at, many ? n : n && value[at]};
        at += n;
    }
    return BP_OK;
}

bool parts_lack_node(struct fixture *fixture, struct bp_graph *graph,
                     const struct bp_node_info *node, char *text, size_t size)
{
    const struct bp_opinfo *op = bp_opinfo_find(node->op);
    struct bp_tensor **value = calloc(node->n_in + 1, sizeof *value);
    struct bp_arg arg[CASE_PORTS] = {{NULL, 0}};
    struct bp_call call = {.size = sizeof call, .op = node->op, .in = arg, .n_in = op->n_in,
                           .attrs = node->attrs};
    struct verdict verdict = {0};
    struct look look = {parts_of(fixture), &verdict, false};
    struct bp_graph *scratch = NULL;

    if (!value) abort();
    if (bp_graph_create(fixture->core, &scratch) == BP_OK &&
        node_inputs(scratch, graph, node, op, value, arg) == BP_OK)
        bp_graph_decompose(scratch, &call, NULL, node->n_out, look_at, &look);
    for (uint32_t i = 0; i < node->n_in; i++) bp_tensor_destroy(value[i]);
    bp_graph_destroy(scratch);
    free(value);
    free(verdict.part);
    return parts_report(verdict.lacks, text, size);
}

bool parts_have(struct fixture *fixture, const struct kernel_case *made, const char *op,
                uint64_t dtypes)
{
    const struct bp_opinfo *of = bp_opinfo_find(made->op->name), *part = bp_opinfo_find(op);
    const struct verdict *verdict = verdict_of(fixture, of, made);

    for (size_t i = 0; i < verdict->n; i++)
        if (verdict->part[i].op == part && dtypes >> verdict->part[i].dtype & 1) return true;
    return false;
}
