/* SPDX-License-Identifier: Apache-2.0 */
/* engined_claim.c: claims the nodes that some row of the cpu plugin runs, with the values of the
 * graph as views. */
#include "engined.h"

#include <stdlib.h>
#include <string.h>

/* Strides in a layout of enum bp_engine_layout. */
static void strides_fill(uint32_t rank, const int64_t *shape, bool last, int64_t *stride)
{
    int64_t step = 1;

    for (uint32_t k = 0; k < rank; k++) {
        uint32_t axis = rank - 1 - k;
        if (last) axis = !k ? 1 : k + 1 < rank ? rank - k : 0;
        stride[axis] = step;
        step *= shape[axis] ? shape[axis] : 1;
    }
}

void engined_views_fill(const struct bp_graph_data *graph, struct engined_views *to)
{
    to->view = calloc(graph->n_value + 1, sizeof *to->view);
    to->extent = calloc(16 * graph->n_value + 1, sizeof *to->extent);
    if (!to->view || !to->extent) abort();
    for (uint32_t v = 0; v < graph->n_value; v++) {
        const struct bp_data_value *value = engined_value(graph, v);
        int64_t *shape = to->extent + 16 * v, count = 1;
        bool border = value->flags & (BP_DATA_INPUT | BP_DATA_OUTPUT);
        bool last = border && value->rank == 4 && engined_has("last");
        for (uint32_t a = 0; a < value->rank; a++) count *= shape[a] = value->shape[a];
        strides_fill(value->rank, shape, last, shape + 8);
        to->view[v] = (struct bp_view){.shape = shape, .stride = shape + 8, .count = count,
                                       .dtype = (uint8_t)value->dtype,
                                       .rank = (uint8_t)value->rank,
                                       .flags = last ? BP_VIEW_STRIDED : 0};
    }
}

void engined_views_free(struct engined_views *views)
{
    free(views->view);
    free(views->extent);
}

/* Whether BP_ENGINED has the word KEY=VALUE. */
static bool is_word(const char *key, const char *value)
{
    const char *word = engined_word(key);
    size_t n = strlen(value);

    return word && !strncmp(word, value, n) && (!word[n] || word[n] == ' ');
}

void engined_claim_all(const struct bp_graph_data *graph, struct bp_claim *out)
{
    long n_group = engined_word("claim") ? strtol(engined_word("claim"), NULL, 10) : 1;
    double score = engined_word("score") ? strtod(engined_word("score"), NULL) : 2;
    const struct bp_kernel *row;
    struct engined_views views;

    if (engined_has("claim=each")) n_group = (long)graph->n_node;
    if (n_group < 1) n_group = 1;
    engined_views_fill(graph, &views);
    for (uint32_t n = 0; n < graph->n_node; n++) {
        const struct bp_data_node *node = engined_data_node(graph, n);
        bool good = !(node->flags & ~(engined_has("updates") ? (uint32_t)BP_DATA_UPDATE : 0));
        if (is_word("refuse", node->op)) {
            out->reason[n] = "it is refused";
            continue;
        }
        if (engined_has("claim=greedy") || engined_has("claim=each")) {
            out->group[n] = engined_has("claim=each") ? n + 1 : 1;
            continue;
        }
        if (engined_word("only") && strncmp(engined_word("only"), node->op, strlen(node->op)) != 0)
            good = false;
        if (good && engined_find(graph, n, views.view, graph->device, 1, &row, NULL))
            out->group[n] = n_group == 1 ? 1 : (uint32_t)((n * 7919u / 3) % n_group) + 1;
        else out->reason[n] = "no row of the cpu runs it";
    }
    engined_views_free(&views);
    for (long g = 0; g < n_group && (size_t)g < graph->n_node; g++) out->score[g] = score;
    out->n_group = (uint32_t)n_group < graph->n_node ? (uint32_t)n_group : (uint32_t)graph->n_node;
    for (uint32_t n = 0; n < graph->n_node; n++)
        if (out->group[n] > out->n_group) out->group[n] = out->n_group;
}
