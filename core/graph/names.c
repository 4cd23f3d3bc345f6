/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: keeps the names of a graph's values unique, with a tree of the names in use. */
#include "graph.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

bool bp_graph_has_name(const struct bp_graph *graph, const char *name)
{
    return tfind(name, &graph->names, by_text) != NULL;
}

void bp_graph_drop_name(struct bp_graph *graph, struct bp_value *v)
{
    if (graph->core && v->name) tdelete(v->name, &graph->names, by_text);
    free(v->name);
    v->name = NULL;
}

enum bp_status bp_graph_give_name(struct bp_graph *graph, struct bp_value *v, const char *name)
{
    char *own = strdup(name);

    if (!own || (graph->core && !tsearch(own, &graph->names, by_text))) {
        free(own);
        return bp_error(BP_ERR_MEMORY, "no memory for a name of a graph");
    }
    bp_graph_drop_name(graph, v);
    v->name = own;
    return BP_OK;
}

/* A name in the tree is owned by its value, so the tree frees none. */
static void name_keep(void *name)
{
    (void)name;
}

void bp_graph_forget_names(struct bp_graph *graph)
{
    tdestroy(graph->names, name_keep);
    graph->names = NULL;
}
