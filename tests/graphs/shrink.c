/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.c: makes a failing graph smaller: drops nodes, whose results become inputs, and outputs,
 * as long as the graph still fails in the same way. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 1500
};

struct shrinker {
    struct fuzz_place *place;
    struct fuzz_recipe *recipe;
    struct fuzz_report *report; /* of the smallest graph so far that fails */
    enum fuzz_fault fault;
    uint32_t tries;
};

static bool still_fails(struct shrinker *s)
{
    struct fuzz_report report;

    s->tries++;
    fuzz_count_readers(s->recipe);
    fuzz_check_somewhere(s->place, s->recipe, &report);
    if (report.fault != s->fault) return false;
    *s->report = report;
    return true;
}

static void node_drop(struct fuzz_recipe *r, struct fuzz_node *node, bool drop)
{
    node->dropped = drop;
    for (uint32_t i = 0; i < node->n_out; i++)
        r->value[node->out[i]].kind = drop ? FUZZ_INPUT : FUZZ_RESULT;
}

static bool shrink_nodes(struct shrinker *s, uint32_t at_once)
{
    struct fuzz_recipe *r = s->recipe;
    bool any = false;

    for (uint32_t end = r->n_node; end > 0; end = end > at_once ? end - at_once : 0) {
        uint32_t first = end > at_once ? end - at_once : 0;
        bool was[FUZZ_NODES], is_new = false;
        if (s->tries >= TRIES) break;
        for (uint32_t n = first; n < end; n++) {
            was[n] = r->node[n].dropped;
            is_new = is_new || !was[n];
            node_drop(r, &r->node[n], true);
        }
        if (is_new && still_fails(s)) {
            any = true;
            continue;
        }
        for (uint32_t n = first; n < end; n++) node_drop(r, &r->node[n], was[n]);
    }
    return any;
}

static bool shrink_outputs(struct shrinker *s)
{
    struct fuzz_recipe *r = s->recipe;
    bool any = false;

    for (uint32_t o = r->n_output; o-- > 0 && s->tries < TRIES;) {
        uint32_t output[FUZZ_OUTPUTS], n = r->n_output;
        memcpy(output, r->output, sizeof output);
        memmove(r->output + o, r->output + o + 1, (n - o - 1) * sizeof *output);
        r->n_output--;
        if (still_fails(s)) {
            any = true;
            continue;
        }
        memcpy(r->output, output, sizeof output);
        r->n_output = n;
    }
    return any;
}

void fuzz_shrink(struct fuzz_place *place, struct fuzz_recipe *recipe,
                 struct fuzz_report *report)
{
    struct shrinker s = {place, recipe, report, report->fault, 0};
    bool any = true;

    for (uint32_t n = 16; n > 1; n /= 2) shrink_nodes(&s, n);
    while (any && s.tries < TRIES) {
        any = shrink_outputs(&s);
        any = shrink_nodes(&s, 1) || any;
    }
    fuzz_count_readers(recipe);
}
