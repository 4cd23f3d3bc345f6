/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c: generates a random graph from a seed: motifs, then outputs. */
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each motif with its weight. */
static const struct {
    fuzz_motif *motif;
    uint32_t weight;
} motifs[] = {
    {fuzz_motif_chain, 12},    {fuzz_motif_diamond, 8}, {fuzz_motif_broadcast, 4},
    {fuzz_motif_identity, 4},  {fuzz_motif_twins, 5},   {fuzz_motif_select, 4},
    {fuzz_motif_casts, 5},     {fuzz_motif_view, 8},    {fuzz_motif_views, 6},
    {fuzz_motif_join, 5},      {fuzz_motif_split, 4},   {fuzz_motif_copies, 3},
    {fuzz_motif_index, 3},     {fuzz_motif_conv, 10},   {fuzz_motif_matmul, 9},
    {fuzz_motif_attention, 2}, {fuzz_motif_pool, 4},    {fuzz_motif_norm, 4},
    {fuzz_motif_softmax, 4},   {fuzz_motif_reduce, 6},  {fuzz_motif_update, 6},
    {fuzz_motif_random, 3},    {fuzz_motif_any, 10},    {fuzz_motif_fold, 5},
    {fuzz_motif_beside, 3},    {fuzz_motif_layout, 4}, {fuzz_motif_append, 4},
};
enum {
    MOTIFS = sizeof motifs / sizeof *motifs
};

static void generate_motif(struct fuzz_generator *m)
{
    uint32_t total = 0, n, i = 0;

    for (int k = 0; k < MOTIFS; k++) total += motifs[k].weight;
    n = fuzz_below(m, total);
    while (n >= motifs[i].weight) n -= motifs[i++].weight;
    motifs[i].motif(m);
}

/* A second reader of a value that the motif made, or an output of it. */
static void generate_mutation(struct fuzz_generator *m, uint32_t first)
{
    uint32_t made = m->recipe->n_value - first, v;

    if (!made) return;
    v = first + fuzz_below(m, made);
    if (fuzz_chance(m, 50)) {
        fuzz_output(m, v);
    } else if (fuzz_is_float(m->recipe->value[v].dtype)) {
        fuzz_activation(m, v);
    }
}

/* How often a result that nothing reads becomes an output: the numbers of a dead
 * random node must still be drawn. */
static uint32_t output_percent(const struct fuzz_recipe *r, uint32_t v)
{
    for (uint32_t n = 0; n < r->n_node; n++)
        for (uint32_t i = 0; i < r->node[n].n_out; i++)
            if (r->node[n].out[i] == v && r->node[n].op && r->node[n].op->flags & BP_OP_RANDOM)
                return 50;
    return 88;
}

/* Results that nothing reads become outputs, apart from a few, which are dead. */
static void generate_outputs(struct fuzz_generator *m)
{
    struct fuzz_recipe *r = m->recipe;

    fuzz_count_readers(r);
    for (uint32_t v = 0; v < r->n_value; v++)
        if (r->value[v].kind == FUZZ_RESULT && !r->value[v].readers && !r->value[v].is_output &&
            fuzz_chance(m, output_percent(r, v)))
            fuzz_output(m, v);
    if (fuzz_chance(m, 8)) fuzz_output(m, fuzz_below(m, r->n_value));   /* perhaps an input */
    if (fuzz_chance(m, 5) && r->n_output) fuzz_output(m, r->output[0]); /* one result twice */
    for (uint32_t v = r->n_value; v-- > 0 && !r->n_output;)
        if (r->value[v].kind == FUZZ_RESULT) fuzz_output(m, v);
}

static void generate_nodes(struct fuzz_generator *m)
{
    struct fuzz_recipe *r = m->recipe;
    bool gradient = fuzz_chance(m, 35) && !m->special;

    for (int tries = 0; tries < 200 && r->n_node < m->target; tries++) {
        uint32_t first = r->n_value;
        if (r->n_value > FUZZ_VALUES - 60 || r->n_output > FUZZ_OUTPUTS - 8) break;
        if (gradient && 2 * r->n_node > m->target) {
            gradient = false;
            fuzz_motif_gradient(m);
        } else {
            generate_motif(m);
            if (m->faults && fuzz_chance(m, 15)) fuzz_motif_fault(m);
        }
        if (fuzz_chance(m, 33)) generate_mutation(m, first);
    }
}

bool fuzz_generate(struct bp_core *core, uint64_t seed, const struct fuzz_style *style,
                   struct fuzz_recipe *recipe)
{
    struct fuzz_generator *m = calloc(1, sizeof *m);

    if (!m) abort();
    memset(recipe, 0, sizeof *recipe);
    recipe->seed = seed;
    m->recipe = recipe;
    m->random = fuzz_mix(seed);
    m->verbose = style->verbose;
    m->plain = style->plain;
    m->faults = style->faults;
    m->special = fuzz_chance(m, 40);
    m->target = 5 + fuzz_below(m, 1 + fuzz_below(m, style->nodes - 5));
    if (bp_graph_create(core, &m->graph)) {
        fprintf(stderr, "bp_graph_create: %s\n", bp_error_message());
        exit(2);
    }
    generate_nodes(m);
    generate_outputs(m);
    for (uint32_t v = 0; v < recipe->n_value; v++) bp_tensor_destroy(m->symbol[v]);
    bp_graph_destroy(m->graph);
    free(m);
    fuzz_find_traits(recipe);
    return recipe->n_node > 0 && recipe->n_output > 0;
}
