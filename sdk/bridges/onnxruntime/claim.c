/* SPDX-License-Identifier: Apache-2.0 */
/* claim.c: chooses the nodes that the provider runs: those whose operator, attributes and types of
 * values the library and the device have. Nodes are claimed in groups, each of which becomes one
 * sub-graph. */
#include "ort.h"

#include <stdlib.h>
#include <string.h>

enum { NO_STAGE = -1 };

struct claim {
    struct ort_provider *ep;
    const struct ort_graph *graph;
    const struct ort_node **node; /* in an order in which they can run */
    size_t n;
    bool *claimed;                /* of each node */
    int32_t *stage;
    size_t *place;                /* the number in the order, by the node's id, plus 1 */
    size_t n_place;
    size_t n_claimed;
    bool is_inner;  /* the graph is a sub-graph */
    bool has_fused; /* nodes in sub-graphs of this graph's nodes are fused */
};

/* Marks a node as not claimed. */
static void claim_lack(void *ctx, size_t node, const char *text)
{
    struct claim *c = ctx;
    const char *name = "", *op = "";

    if (strstr(text, "operator " ORT_NAME ".") == text) c->has_fused = true;
    if (node >= c->n || !c->claimed[node]) return;
    c->claimed[node] = false;
    ort_forget(ort.node_name(c->node[node], &name));
    ort_forget(ort.node_operator(c->node[node], &op));
    ort_log(c->ep->logger, ORT_INFO, "Backplane: node %zu, %s (%s), is left to other providers: %s",
            node, name, op, text);
}

/* --- types of values --- */

/* Why a value cannot be on the device, or NULL. */
static struct ort_status *value_check(const struct claim *c, const struct ort_value_info *info,
                                      const char **out_why)
{
    const struct ort_tensor_type *tensor = NULL;
    const struct ort_type *type = NULL;
    int32_t kind = 0, element = 0;
    uint32_t dtype;
    size_t rank = 0;

    *out_why = NULL;
    if (!info) return NULL;
    TRY(ort.value_info_type(info, &type));
    if (type) TRY(ort.type_kind(type, &kind));
    if (kind != ORT_TYPE_TENSOR) {
        *out_why = "a value is no tensor, or of no known type";
        return NULL;
    }
    TRY(ort.type_tensor(type, &tensor));
    TRY(ort.tensor_type_element(tensor, &element));
    TRY(ort.tensor_type_rank(tensor, &rank));
    dtype = bridge_dtype_of_onnx(element);
    if (dtype == UINT32_MAX) *out_why = "a value is of an element type that the library lacks";
    else if (!(c->ep->offer->properties.dtypes >> dtype & 1))
        *out_why = "a value is of an element type that the device does not hold";
    else if (rank > BP_RANK_MAX) *out_why = "a value has more axes than tensors may have";
    return NULL;
}

enum ports { INPUTS, OUTPUTS, IMPLICIT, PORTS };

/* Returns a list of a node's values; the caller frees it. */
static struct ort_status *node_values(const struct ort_node *node, enum ports which,
                                      const struct ort_value_info ***out, size_t *out_n)
{
    struct ort_status *status = NULL;
    size_t n = 0;

    if (which == INPUTS) TRY(ort.node_n_input(node, &n));
    else if (which == OUTPUTS) TRY(ort.node_n_output(node, &n));
    else TRY(ort.node_n_implicit(node, &n));
    *out = calloc(n + 1, sizeof **out);
    if (!*out) return ort_no_memory();
    if (n && which == INPUTS) status = ort.node_input(node, *out, n);
    else if (n && which == OUTPUTS) status = ort.node_output(node, *out, n);
    else if (n) status = ort.node_implicit(node, *out, n);
    if (status) free(*out);
    else *out_n = n;
    return status;
}

static struct ort_status *node_check_types(const struct claim *c, const struct ort_node *node,
                                           const char **out_why)
{
    const struct ort_value_info **value;
    size_t n = 0;

    *out_why = NULL;
    TRY(ort.node_n_implicit(node, &n));
    if (n && ort_factory.peer < ORT_IMPLICIT) {
        *out_why = "this version of ONNX Runtime does not pass values from outside a sub-graph";
        return NULL;
    }
    for (int which = INPUTS; which < PORTS && !*out_why; which++) {
        struct ort_status *status = NULL;
        TRY(node_values(node, which, &value, &n));
        for (size_t i = 0; i < n && !status && !*out_why; i++)
            status = value_check(c, value[i], out_why);
        free(value);
        TRY(status);
    }
    return NULL;
}

/* --- nodes --- */

static struct ort_status *claim_supported(struct claim *c)
{
    struct ort_writing w = {.flags = ORT_WRITE_TYPES};
    struct ort_status *failed = ort_write_graph(&w, c->graph);
    enum bp_status status;
    const char *why;

    if (!failed) {
        status = bp_model_missing_nodes(w.model.at, w.model.n, claim_lack, c);
        if (status) failed = ort_failure(status);
    }
    ort_writing_finish(&w);
    for (size_t i = 0; i < c->n && !failed; i++) {
        if (!c->claimed[i]) continue;
        failed = node_check_types(c, c->node[i], &why);
        if (!failed && why) claim_lack(c, i, why);
    }
    return failed;
}

static void count_lack(void *ctx, size_t node, const char *text)
{
    (void)node;
    (void)text;
    ++*(int *)ctx;
}

/* Tests whether nodes of a node's sub-graphs may be fused. Other nodes with sub-graphs are
 * functions (SequenceMap), which ONNX Runtime inlines later: all versions up to 1.32 then refuse
 * the model because of the fused node ("No opset import for domain"). */
static struct ort_status *node_is_control(const struct ort_node *node, bool *out)
{
    static const char *const control[] = {"If", "Loop", "Scan"};
    const char *op = "", *domain = "";

    *out = false;
    TRY(ort.node_operator(node, &op));
    TRY(ort.node_domain(node, &domain));
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        *out |= !*domain && !strcmp(op, control[i]);
    return NULL;
}

/* Tests whether the nodes of a sub-graph have to be left alone: because the provider will claim the
 * node that the sub-graph belongs to, with the sub-graph, or because ONNX Runtime cannot fuse them
 * (old versions lose constants from outside of the sub-graph), or has no place for them in a model
 * of compiled nodes. ONNX Runtime calls the provider for the sub-graph first. */
static struct ort_status *claim_parent(struct claim *c, bool *out)
{
    struct ort_writing w = {.flags = ORT_WRITE_TYPES};
    const struct ort_node *parent = NULL;
    struct ort_status *failed;
    bool is_control = false;
    const char *why;
    int lacks = 0;

    *out = false;
    TRY(ort.graph_parent(c->graph, &parent));
    if (!parent) return NULL;
    c->is_inner = true;
    TRY(node_is_control(parent, &is_control));
    if (!is_control || ort_factory.peer < ORT_IMPLICIT || c->ep->options.context_enable) {
        *out = true;
        return NULL;
    }
    TRY(node_check_types(c, parent, &why));
    if (why) return NULL;
    failed = ort_write_alone(&w, c->graph, parent);
    if (!failed && bp_model_missing_nodes(w.model.at, w.model.n, count_lack, &lacks)) lacks++;
    ort_writing_finish(&w);
    *out = !failed && !lacks;
    return failed;
}

/* --- groups --- */

static struct ort_status *claim_places(struct claim *c)
{
    size_t id = 0;

    for (size_t i = 0; i < c->n; i++) {
        TRY(ort.node_id(c->node[i], &id));
        if (id >= c->n_place) c->n_place = id + 1;
    }
    c->place = calloc(c->n_place + 1, sizeof *c->place);
    if (!c->place) return ort_no_memory();
    for (size_t i = 0; i < c->n; i++) {
        TRY(ort.node_id(c->node[i], &id));
        c->place[id] = i + 1;
    }
    return NULL;
}

/* The largest stage that the values before a node demand of it. A claimed node has the stage of
 * the claimed nodes before it; behind a node that is not claimed it has a later one. So no path
 * leaves a stage and comes back to it. */
static struct ort_status *stage_behind(const struct claim *c, size_t at, int32_t *stage)
{
    for (int which = INPUTS; which < PORTS; which++) {
        const struct ort_value_info **value;
        struct ort_status *status = NULL;
        size_t n, id = 0, index;
        if (which == OUTPUTS) continue;
        TRY(node_values(c->node[at], which, &value, &n));
        for (size_t i = 0; i < n && !status; i++) {
            const struct ort_node *from = NULL;
            size_t before;
            int32_t least;
            if (!value[i]) continue;
            ort_forget(ort.value_info_producer(value[i], &from, &index)); /* or it is an input */
            if (!from) continue;
            status = ort.node_id(from, &id);
            before = !status && id < c->n_place ? c->place[id] : 0;
            if (!before || before - 1 >= at) continue;
            least = c->stage[before - 1] + (c->claimed[at] && !c->claimed[before - 1]);
            if (least > *stage) *stage = least;
        }
        free(value);
        TRY(status);
    }
    return NULL;
}

static struct ort_status *claim_group(struct claim *c, int32_t stage, struct ort_support *support)
{
    /* The values of constants stay in ONNX Runtime's memory if the device reads them there. In a
     * sub-graph they may be constants of a graph around it, which other nodes use. */
    const struct ort_fusion_options options = {
        ORT_SINCE, !bridge_memory_is_host(c->ep->offer->memory) && !c->is_inner};
    const struct ort_node **group = calloc(c->n + 1, sizeof *group);
    struct ort_status *status = NULL;
    size_t n = 0;

    if (!group) return ort_no_memory();
    for (size_t i = 0; i < c->n; i++)
        if (c->claimed[i] && c->stage[i] == stage) group[n++] = c->node[i];
    if (n) status = ort.support_add(support, group, n, &options);
    c->n_claimed += n;
    free(group);
    return status;
}

/* Claims each EPContext node of this provider alone. Other nodes of such a model are claimed as
 * usual. */
static struct ort_status *claim_contexts(struct claim *c, struct ort_support *support)
{
    const struct ort_fusion_options options = {ORT_SINCE, true};

    for (size_t i = 0; i < c->n; i++) {
        bool ours;
        TRY(ort_context_is_ours(c->node[i], &ours));
        if (!ours) continue;
        TRY(ort.support_add(support, &c->node[i], 1, &options));
        c->n_claimed++;
    }
    return NULL;
}

static struct ort_status *claim_groups(struct claim *c, struct ort_support *support)
{
    int32_t last = NO_STAGE;

    TRY(claim_places(c));
    for (size_t i = 0; i < c->n; i++) {
        c->stage[i] = c->claimed[i] ? 0 : NO_STAGE;
        TRY(stage_behind(c, i, &c->stage[i]));
        if (c->claimed[i] && c->stage[i] > last) last = c->stage[i];
    }
    for (int32_t stage = 0; stage <= last; stage++) TRY(claim_group(c, stage, support));
    return NULL;
}

/* Version 1.23 does not report that a graph is a sub-graph. It loses constants from outside of it,
 * and gives equal names to fused nodes inside and outside. */
static struct ort_status *claim_old(const struct claim *c, bool *out_none)
{
    const struct ort_value_info **value;
    size_t n;

    *out_none = c->has_fused;
    for (size_t at = 0; at < c->n && !*out_none; at++) {
        struct ort_status *status = NULL;
        TRY(node_values(c->node[at], INPUTS, &value, &n));
        for (size_t i = 0; i < n && !status && !*out_none; i++)
            if (value[i]) status = ort.value_info_is_outer(value[i], out_none);
        free(value);
        TRY(status);
    }
    return NULL;
}

static struct ort_status *claim_nodes(struct claim *c, struct ort_support *support)
{
    bool of_parent, none = false;

    c->node = calloc(c->n + 1, sizeof *c->node);
    c->claimed = calloc(c->n + 1, sizeof *c->claimed);
    c->stage = calloc(c->n + 1, sizeof *c->stage);
    if (!c->node || !c->claimed || !c->stage) return ort_no_memory();
    if (c->n) TRY(ort.graph_node(c->graph, c->node, c->n));
    TRY(claim_parent(c, &of_parent));
    if (of_parent) return NULL;
    memset(c->claimed, 1, c->n * sizeof *c->claimed);
    TRY(claim_supported(c));
    if (ort_factory.peer < ORT_PARENT) TRY(claim_old(c, &none));
    TRY(claim_contexts(c, support));
    if (!none) TRY(claim_groups(c, support));
    ort_log(c->ep->logger, ORT_INFO, "Backplane: %s runs %zu of %zu nodes", c->ep->offer->name,
            c->n_claimed, c->n);
    return NULL;
}

struct ort_status *ort_claim(struct ort_provider *ep, const struct ort_graph *graph,
                             struct ort_support *support)
{
    struct claim c = {.ep = ep, .graph = graph};
    struct ort_status *status;

    TRY(ort.graph_n_node(graph, &c.n));
    status = claim_nodes(&c, support);
    free(c.node);
    free(c.claimed);
    free(c.stage);
    free(c.place);
    return status;
}
