/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: keeps the names of a graph's values unique, with a hash table of the names in use, with
 * open addressing. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* An entry of the table; text: owned by its value, NULL: free. */
struct bp_name_entry {
    const char *text;
    uint64_t hash;
};

static uint64_t name_hash(const char *name)
{
    size_t n = strlen(name);
    uint64_t h = n, word;

    for (; n >= sizeof word; n -= sizeof word, name += sizeof word) {
        memcpy(&word, name, sizeof word);
        h = bp_signature_mix(h, word);
    }
    word = 0;
    memcpy(&word, name, n);
    return bp_signature_mix(h, word);
}

/* Returns the place of a name, or the free place where the name belongs. The table has one. */
static uint32_t name_place(const struct bp_graph *graph, const char *name, uint64_t hash)
{
    uint32_t mask = graph->room_name - 1, at = (uint32_t)hash & mask;

    while (graph->name[at].text &&
           (graph->name[at].hash != hash || strcmp(graph->name[at].text, name)))
        at = (at + 1) & mask;
    return at;
}

bool bp_graph_has_name(const struct bp_graph *graph, const char *name)
{
    return graph->n_name && graph->name[name_place(graph, name, name_hash(name))].text;
}

/* Makes room for one more name. At most half of the table is in use. */
static bool name_room(struct bp_graph *graph)
{
    struct bp_name_entry *old = graph->name;
    uint32_t n = graph->room_name, room = n ? 2 * n : 64;

    if (2 * graph->n_name < n) return true;
    graph->name = calloc(room, sizeof *graph->name);
    if (!graph->name) {
        graph->name = old;
        return false;
    }
    graph->room_name = room;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].text) graph->name[name_place(graph, old[i].text, old[i].hash)] = old[i];
    free(old);
    return true;
}

/* Frees the place of a name. Entries behind it move up if they were placed there only because that
 * place was in use. */
static void name_remove(struct bp_graph *graph, const char *name)
{
    uint32_t mask = graph->room_name - 1, at = name_place(graph, name, name_hash(name));

    graph->n_name--;
    for (uint32_t next = (at + 1) & mask; graph->name[next].text; next = (next + 1) & mask) {
        uint32_t wanted = (uint32_t)graph->name[next].hash & mask;
        if (((next - wanted) & mask) < ((next - at) & mask)) continue;
        graph->name[at] = graph->name[next];
        at = next;
    }
    graph->name[at].text = NULL;
}

void bp_graph_drop_name(struct bp_graph *graph, struct bp_value *v)
{
    if (!v->name) return;
    name_remove(graph, v->name);
    free(v->name);
    v->name = NULL;
}

enum bp_status bp_graph_give_name(struct bp_graph *graph, struct bp_value *v, const char *name)
{
    uint64_t hash = name_hash(name);
    char *own = strdup(name);

    if (!own || !name_room(graph)) {
        free(own);
        return bp_error(BP_ERR_MEMORY, "no memory for a name of a graph");
    }
    bp_graph_drop_name(graph, v);
    graph->name[name_place(graph, own, hash)] = (struct bp_name_entry){own, hash};
    graph->n_name++;
    v->name = own;
    return BP_OK;
}

void bp_graph_own_name(const struct bp_graph *graph, const char *what, uint32_t number,
                       char text[BP_GRAPH_NAME])
{
    size_t n = strnlen(what, 64);

    memcpy(text, what, n);
    text[n++] = '_';
    do {
        char digit[10];
        uint32_t k = sizeof digit, rest = number++;
        do digit[--k] = (char)('0' + rest % 10);
        while (rest /= 10);
        memcpy(text + n, digit + k, sizeof digit - k);
        text[n + sizeof digit - k] = 0;
    } while (bp_graph_has_name(graph, text));
}

/* The names in the table are owned by their values. */
void bp_graph_forget_names(struct bp_graph *graph)
{
    free(graph->name);
    graph->name = NULL;
    graph->n_name = graph->room_name = 0;
}
