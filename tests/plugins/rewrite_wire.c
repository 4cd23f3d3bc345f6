/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite_wire.c: writes graphs and edits as lines of numbers and names, and reads them. */
#include "rewrite_good.h"

#include <backplane/attrs.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 1 << 20,
    WORD = 128,
    RANK = 8
};

/* Memory of all that this thread has read, until wire_free. */
struct kept {
    struct kept *next;
    max_align_t bytes[];
};
static _Thread_local struct kept *kept;

static void *kept_calloc(size_t n, size_t size)
{
    struct kept *block = calloc(1, sizeof *block + n * size);

    if (!block) return NULL;
    block->next = kept;
    kept = block;
    return block->bytes;
}

void wire_free(void)
{
    while (kept) {
        struct kept *next = kept->next;
        free(kept);
        kept = next;
    }
}

static void put_list(FILE *to, const uint32_t *list, uint32_t n)
{
    fprintf(to, " %" PRIu32, n);
    for (uint32_t i = 0; i < n; i++) fprintf(to, " %" PRIu32, list[i]);
}

/* Returns a new list; NULL: there is none. */
static uint32_t *get_list(FILE *from, uint32_t *out_n)
{
    uint32_t *list;

    if (fscanf(from, "%" SCNu32, out_n) != 1 || *out_n > MOST) return NULL;
    list = kept_calloc(*out_n + 1u, sizeof *list);
    for (uint32_t i = 0; list && i < *out_n; i++)
        if (fscanf(from, "%" SCNu32, &list[i]) != 1) return NULL;
    return list;
}

/* ---- graphs ---- */

static void put_value(FILE *to, const struct bp_data_value *v)
{
    fprintf(to, "value %u %u %u %u", v->dtype, v->flags, v->node, v->output);
    fprintf(to, " %u", v->rank);
    for (uint32_t i = 0; i < v->rank; i++) fprintf(to, " %" PRId64, v->shape[i]);
    fputc('\n', to);
}

/* Numbers among the attributes, by their names. */
static void put_node(FILE *to, const struct bp_data_node *node)
{
    uint32_t n = 0;

    fprintf(to, "node %s %u", node->op, node->flags);
    put_list(to, node->in, node->n_in);
    put_list(to, node->out, node->n_out);
    for (uint32_t i = 0; i < node->info->n_attr; i++) n += node->info->attr[i].kind == BP_ATTR_F64;
    fprintf(to, " %u", n);
    for (uint32_t i = 0; i < node->info->n_attr; i++) {
        double number;
        if (node->info->attr[i].kind != BP_ATTR_F64) continue;
        memcpy(&number, (const char *)node->attrs + node->info->attr[i].offset, sizeof number);
        fprintf(to, " %s %a", node->info->attr[i].name, number);
    }
    fputc('\n', to);
}

void wire_put_graph(FILE *to, const struct bp_graph_data *g)
{
    fprintf(to, "graph %zu %zu\n", g->n_value, g->n_node);
    for (size_t v = 0; v < g->n_value; v++)
        put_value(to, BP_ROW(struct bp_data_value, g->value, g->value_stride, v));
    for (size_t n = 0; n < g->n_node; n++)
        put_node(to, BP_ROW(struct bp_data_node, g->node, g->node_stride, n));
    put_list(to, g->out, g->n_out);
    fputc('\n', to);
}

static int get_value(FILE *from, struct bp_data_value *v)
{
    int64_t *shape = kept_calloc(RANK, sizeof *shape);

    if (!shape ||
        fscanf(from, " value %u %u %u %u %u", &v->dtype, &v->flags, &v->node, &v->output,
               &v->rank) != 5 ||
        v->rank > RANK)
        return 0;
    v->shape = shape;
    for (uint32_t i = 0; i < v->rank; i++)
        if (fscanf(from, "%" SCNd64, &shape[i]) != 1) return 0;
    return 1;
}

static int get_node(FILE *from, struct bp_data_node *node)
{
    char *op = kept_calloc(1, WORD);
    struct bp_opinfo *info = kept_calloc(1, sizeof *info);
    struct bp_attr *attr;
    double *number;
    uint32_t n;

    if (!op || !info || fscanf(from, " node %127s %u", op, &node->flags) != 2) return 0;
    node->op = info->name = op;
    node->in = get_list(from, &node->n_in);
    node->out = get_list(from, &node->n_out);
    if (!node->in || !node->out || fscanf(from, "%u", &n) != 1 || n > 16) return 0;
    attr = kept_calloc(n + 1u, sizeof *attr);
    number = kept_calloc(n + 1u, sizeof *number);
    for (uint32_t i = 0; attr && number && i < n; i++) {
        char *name = kept_calloc(1, WORD);
        if (!name || fscanf(from, "%127s %la", name, &number[i]) != 2) return 0;
        attr[i] = (struct bp_attr){.name = name,
                                   .kind = BP_ATTR_F64,
                                   .count = 1,
                                   .offset = (uint32_t)(i * sizeof *number)};
    }
    info->attr = attr;
    info->n_attr = n;
    node->info = info;
    node->attrs = number;
    return attr && number;
}

int wire_get_graph(FILE *from, struct bp_graph_data *g)
{
    struct bp_data_value *value;
    struct bp_data_node *node;

    *g = (struct bp_graph_data){
        .size = sizeof *g, .value_stride = sizeof *value, .node_stride = sizeof *node};
    if (fscanf(from, "graph %zu %zu", &g->n_value, &g->n_node) != 2 || g->n_value > MOST ||
        g->n_node > MOST)
        return 0;
    value = kept_calloc(g->n_value + 1, sizeof *value);
    node = kept_calloc(g->n_node + 1, sizeof *node);
    for (size_t v = 0; v < g->n_value; v++)
        if (!value || !get_value(from, &value[v])) return 0;
    for (size_t n = 0; n < g->n_node; n++)
        if (!node || !get_node(from, &node[n])) return 0;
    g->value = value;
    g->node = node;
    g->out = get_list(from, &g->n_out);
    return g->out != NULL;
}

/* ---- edits ---- */

enum bp_status wire_put_edit(void *to, const struct bp_edit *edit)
{
    fprintf(to, "edit %u", edit->n_between);
    put_list(to, edit->kill, edit->n_kill);
    put_list(to, edit->same, 2 * edit->n_same);
    fprintf(to, " %u\n", edit->n_node);
    for (uint32_t i = 0; i < edit->n_node; i++) {
        const struct bp_edit_node *node = BP_ROW(struct bp_edit_node, edit->node, edit->node_stride,
                                                 i);
        fprintf(to, "%s %a", node->op,
                node->attrs ? ((const struct bp_scale_attrs *)node->attrs)->factor : 0);
        put_list(to, node->in, node->n_in);
        put_list(to, node->out, node->n_out);
        fputc('\n', to);
    }
    return BP_OK;
}

static enum bp_status get_edit(FILE *from, const struct bp_edits *edits)
{
    struct bp_edit_node node[4] = {{0}};
    struct bp_scale_attrs scale[4];
    char op[4][WORD];
    struct bp_edit edit = {.size = sizeof edit, .node = node, .node_stride = sizeof *node};

    if (fscanf(from, "%u", &edit.n_between) != 1) return BP_ERR_DEVICE;
    edit.kill = get_list(from, &edit.n_kill);
    edit.same = get_list(from, &edit.n_same);
    edit.n_same /= 2;
    if (!edit.kill || !edit.same || fscanf(from, "%u", &edit.n_node) != 1 || edit.n_node > 4)
        return BP_ERR_DEVICE;
    for (uint32_t i = 0; i < edit.n_node; i++) {
        scale[i] = (struct bp_scale_attrs){.size = sizeof *scale};
        if (fscanf(from, "%127s %la", op[i], &scale[i].factor) != 2) return BP_ERR_DEVICE;
        node[i].op = op[i];
        node[i].attrs = strcmp(op[i], "scale") ? NULL : &scale[i];
        node[i].in = get_list(from, &node[i].n_in);
        node[i].out = get_list(from, &node[i].n_out);
        if (!node[i].in || !node[i].out) return BP_ERR_DEVICE;
    }
    return edits->add(edits->ctx, &edit);
}

enum bp_status wire_get_edits(FILE *from, const struct bp_edits *edits)
{
    char word[8];
    enum bp_status status = BP_OK;

    while (!status && fscanf(from, "%7s", word) == 1 && !strcmp(word, "edit"))
        status = get_edit(from, edits);
    return status ? status : !strcmp(word, "end") ? BP_OK : BP_ERR_DEVICE;
}
