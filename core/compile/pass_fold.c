/* SPDX-License-Identifier: Apache-2.0 */
/* pass_fold.c: computes nodes whose inputs are all frozen constants (constant folding) on the
 * program's device. */
#include "passes.h"
#include "../call/kernel_layout.h"
#include "../plugin/engine_rows.h"
#include "folded.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* A result may have this many bytes more than the inputs: larger ones (Range, expanded masks) cost
 * more memory than their computation costs time. KEY_MAX: bytes of a key; constants with a longer
 * expression are not shared. */
enum {
    GROWTH_MAX = 65536,
    KEY_MAX = 65536
};

struct folding {
    struct bp_ir *ir;
    struct bp_stream *stream;
    struct bp_folded_key *key; /* of each value that was there when the pass began or was folded */
    bool only_conversions;     /* folds conversions to layouts of the plugin only */
};

/* ---- keys ---- */

static bool key_append(struct bp_folded_key *key, const void *bytes, size_t n)
{
    char *grown = key->n + n <= KEY_MAX ? realloc(key->bytes, key->n + n + 1) : NULL;

    if (!grown) {
        free(key->bytes);
        *key = (struct bp_folded_key){0};
        return false;
    }
    memcpy(grown + key->n, bytes, n);
    key->bytes = grown;
    key->n += n;
    return true;
}

/* A constant that is not folded is identified by its memory and its type. */
static void key_of_tensor(const struct bp_tensor *t, struct bp_folded_key *out_key)
{
    uint64_t words[4 + 2 * BP_RANK_MAX] = {t->buffer->id, t->offset, t->view.dtype, t->view.rank};
    size_t rank = t->view.rank;

    memcpy(words + 4, t->shape, rank * sizeof *t->shape);
    memcpy(words + 4 + rank, t->stride, rank * sizeof *t->stride);
    key_append(out_key, words, (4 + 2 * rank) * sizeof *words);
}

static bool key_of_attrs(const struct bp_node *node, struct bp_folded_key *key)
{
    const struct bp_opinfo *op = &node->row->info;

    for (uint32_t i = 0; node->attrs && i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        const char *field = (const char *)node->attrs + a->offset;
        struct bp_dims dims;
        if (a->kind != BP_ATTR_DIMS) {
            if (!key_append(key, field, 8u * a->count)) return false;
            continue;
        }
        memcpy(&dims, field, sizeof dims);
        if (!key_append(key, &dims.n, sizeof dims.n) ||
            (dims.n && !key_append(key, dims.at, (size_t)dims.n * sizeof *dims.at)))
            return false;
    }
    return true;
}

/* The key of a node's output: the operator, its attributes, and the keys of its inputs. */
static void key_of_node(const struct folding *f, const struct bp_node *node, uint32_t output,
                        struct bp_folded_key *out_key)
{
    const uint64_t words[] = {(uintptr_t)node->row, output, node->n_in, node->want,
                              f->ir->value[node->out[output]].type->view.layout};

    if (!key_append(out_key, words, sizeof words) || !key_of_attrs(node, out_key)) return;
    for (uint32_t i = 0; i < node->n_in; i++) {
        static const uint64_t absent = UINT64_MAX;
        const struct bp_folded_key *in = node->in[i] == BP_NO_VALUE
                                             ? NULL
                                             : &f->key[bp_ir_same(f->ir, node->in[i])];
        uint64_t n = in ? in->n : absent;
        if (in && !in->bytes) {
            free(out_key->bytes);
            *out_key = (struct bp_folded_key){0};
            return;
        }
        if (!key_append(out_key, &n, sizeof n) || (in && !key_append(out_key, in->bytes, in->n)))
            return;
    }
}

/* ---- folding ---- */

static uint64_t value_bytes(const struct bp_ir *ir, uint32_t v)
{
    const struct bp_view *view = &ir->value[v].type->view;

    return (uint64_t)view->count * (bp_dtype_bits(view->dtype) / 8);
}

/* Bytes of memory of a constant: fewer than those of its elements if axes were expanded. */
static uint64_t constant_bytes(const struct bp_tensor *t)
{
    uint64_t n = bp_dtype_bits(t->view.dtype) / 8;

    for (uint32_t a = 0; a < t->view.rank; a++)
        if (t->stride[a] || !t->shape[a]) n *= (uint64_t)t->shape[a];
    return n;
}

/* Whether a node converts a constant to a layout of the plugin. */
static bool is_conversion(const struct bp_ir *ir, const struct bp_node *node)
{
    return node->row == &bp_opdef[BP_ROW_assign] && node->out[0] != BP_NO_VALUE &&
           ir->value[node->out[0]].type->view.layout &&
           !ir->value[bp_ir_same(ir, node->in[0])].type->view.layout;
}

/* Whether the engine of a device without kernels knows the operator. It gets such nodes in a group,
 * and its compiler computes what is constant; here each node would be compiled on its own. */
static bool is_for_engine(const struct bp_ir *ir, const struct bp_node *node)
{
    const struct bp_kernel **row;
    uint32_t n;

    if (!ir->device->entry->graph_only) return false;
    row = bp_select_rows(ir->device, node->row, &n);
    for (uint32_t i = 0; i < n; i++)
        if (bp_engine_call_is(row[i])) return true;
    return false;
}

/* Conversions are folded whatever padding they add. */
static bool may_fold(const struct folding *f, const struct bp_node *node)
{
    const struct bp_ir *ir = f->ir;
    bool converts = is_conversion(ir, node);
    uint64_t in = 0, out = 0;

    if (!bp_ir_is_pure(node) || node->kernel) return false;
    if (is_for_engine(ir, node)) return false;
    if (!converts && (f->only_conversions || bp_ir_has_layouts(ir, node))) return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == BP_NO_VALUE) continue;
        if (!bp_ir_is_frozen(ir, bp_ir_same(ir, node->in[i]))) return false;
        in += constant_bytes(ir->value[bp_ir_same(ir, node->in[i])].constant);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == BP_NO_VALUE) continue;
        if (ir->value[ir->value[node->out[i]].root].returned ||
            !bp_ir_is_stable(ir, node->out[i]))
            return false;
        if (!node->row->is_view) out += value_bytes(ir, node->out[i]);
    }
    return converts || out <= in + GROWTH_MAX;
}

static bool node_call(const struct folding *f, const struct bp_node *node,
                         struct bp_tensor **out)
{
    const struct bp_opinfo *op = &node->row->info;
    struct bp_tensor *in[BP_FLAT_MAX];
    struct bp_arg arg[BP_PORT_MAX];
    uint8_t want[BP_FLAT_MAX];
    struct bp_call call = {
        .size = sizeof call, .op = op->name, .in = arg, .n_in = op->n_in, .attrs = node->attrs};

    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_NO_VALUE ? NULL
                                           : f->ir->value[bp_ir_same(f->ir, node->in[i])].constant;
    bp_node_args(node, in, arg);
    for (uint32_t i = 0; i < node->n_out; i++) {
        want[i] = node->out[i] != BP_NO_VALUE;
        out[i] = NULL;
    }
    return bp_call_run(&f->stream->scope, &call, out, node->n_out, want) == BP_OK;
}

static bool node_convert(const struct folding *f, const struct bp_node *node,
                         struct bp_tensor **out)
{
    struct bp_tensor *in = f->ir->value[bp_ir_same(f->ir, node->in[0])].constant;

    *out = NULL;
    return bp_layout_convert(f->stream, in, f->ir->value[node->out[0]].type->view.layout, out) ==
           BP_OK;
}

/* Computes a node's results. A failure is none of the compilation: the node stays, and a run
 * reports it. */
static bool node_compute(const struct folding *f, const struct bp_node *node,
                         struct bp_tensor **out)
{
    bool good = is_conversion(f->ir, node) ? node_convert(f, node, out) : node_call(f, node, out);

    if (!good) return false;
    if (f->ir->device->is_inline || bp_stream_drain(f->stream) == BP_OK) return true;
    for (uint32_t i = 0; i < node->n_out; i++) bp_tensor_destroy(out[i]);
    return false;
}

/* Makes output i of a node a constant, which programs with an equal expression share. */
static void fold_value(struct folding *f, const struct bp_node *node, uint32_t i,
                       struct bp_tensor *t)
{
    uint32_t v = node->out[i];
    struct bp_ir_value *value = &f->ir->value[v];

    bp_tensor_set_frozen(t);
    key_of_node(f, node, i, &f->key[v]);
    bp_folded_keep(f->stream->device, &f->key[v], t);
    value->kind = BP_VALUE_CONSTANT;
    bp_ir_set_constant(value, t);
    value->folded = true;
}

/* Computes the contents of constants again that were freed since another program computed them. */
static bool fill_kept(struct folding *f, const struct bp_node *node, struct bp_tensor *const *kept)
{
    struct bp_tensor *computed[BP_FLAT_MAX];
    bool good = true;

    if (!node_compute(f, node, computed)) return false;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (kept[i]) good = bp_folded_fill(kept[i], computed[i]) && good;
        bp_tensor_destroy(computed[i]);
    }
    return good;
}

/* Uses constants that another program has computed. false: not all are there. */
static bool find_kept(struct folding *f, const struct bp_node *node, struct bp_tensor **out)
{
    uint32_t found = 0, wanted = 0;
    bool any_empty = false;

    for (uint32_t i = 0; i < node->n_out; i++) {
        struct bp_folded_key key = {0};
        bool empty = false;
        out[i] = NULL;
        if (node->out[i] == BP_NO_VALUE) continue;
        wanted++;
        key_of_node(f, node, i, &key);
        out[i] = bp_folded_find(f->stream->device, &key, &empty);
        found += out[i] != NULL;
        any_empty = any_empty || empty;
        free(key.bytes);
    }
    if (wanted && found == wanted && (!any_empty || fill_kept(f, node, out))) return true;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (!out[i]) continue;
        bp_folded_release(out[i], false);
        bp_tensor_destroy(out[i]);
    }
    return false;
}

static void set_found(struct folding *f, const struct bp_node *node, struct bp_tensor **out)
{
    for (uint32_t i = 0; i < node->n_out; i++) {
        uint32_t v = node->out[i];
        if (v == BP_NO_VALUE) continue;
        key_of_node(f, node, i, &f->key[v]);
        f->ir->value[v].kind = BP_VALUE_CONSTANT;
        bp_ir_set_constant(&f->ir->value[v], out[i]);
        f->ir->value[v].folded = true;
    }
}

static void fold_node(struct folding *f, struct bp_compilation *c, uint32_t n)
{
    struct bp_tensor *out[BP_FLAT_MAX];
    const struct bp_node *node = &f->ir->node[n].call;

    if (find_kept(f, node, out)) {
        set_found(f, node, out);
    } else {
        if (!node_compute(f, node, out)) return;
        for (uint32_t i = 0; i < node->n_out; i++)
            if (node->out[i] != BP_NO_VALUE) fold_value(f, node, i, out[i]);
    }
    bp_ir_kill(f->ir, n);
    c->changes++;
}

/* Forgets constants that only folded nodes have read. */
static void drop_unread(struct bp_ir *ir)
{
    for (uint32_t v = 0; v < ir->n_value; v++) {
        struct bp_ir_value *value = &ir->value[v];
        if (value->constant && !value->uses) bp_ir_forget_constant(value);
    }
}

static enum bp_status fold_all(struct bp_compilation *c, bool only_conversions)
{
    struct bp_ir *ir = c->ir;
    struct folding f = {.ir = ir,
                        .key = calloc(ir->n_value + 1, sizeof *f.key),
                        .only_conversions = only_conversions};
    char *before = strdup(bp_error_message());
    enum bp_status status = f.key && before
                                ? bp_compile_stream(ir->device, &f.stream)
                                : bp_error(BP_ERR_MEMORY, "no host memory to compile a program");

    if (status == BP_OK) {
        for (uint32_t v = 0; v < ir->n_value; v++)
            if (bp_ir_is_frozen(ir, v)) key_of_tensor(ir->value[v].constant, &f.key[v]);
        for (uint32_t n = ir->first, next; n != BP_NO_VALUE; n = next) {
            next = ir->node[n].next;
            if (may_fold(&f, &ir->node[n].call)) fold_node(&f, c, n);
        }
        bp_stream_destroy(f.stream);
        bp_error_write("%s", before);
        drop_unread(ir);
    }
    for (uint32_t v = 0; f.key && v < ir->n_value; v++) free(f.key[v].bytes);
    free(f.key);
    free(before);
    return status;
}

enum bp_status bp_pass_fold(struct bp_compilation *c)
{
    return fold_all(c, false);
}

enum bp_status bp_fold_conversions(struct bp_compilation *c)
{
    return fold_all(c, true);
}
