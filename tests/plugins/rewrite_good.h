/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite_good.h: declares a rewrite that is right, and graphs and edits as text, by which it runs
 * in another process. */
#ifndef BP_TEST_REWRITE_GOOD_H
#define BP_TEST_REWRITE_GOOD_H

#include <backplane/passes.h>

#include <stdio.h>

/* Removes pairs of neg, and replaces sub(x, neg(y)) by add(x, y), and scale(scale(x; f); g) by
 * scale(x; f g). */
enum bp_status rewrite_good(const struct bp_graph_data *graph, const struct bp_edits *edits);

/* Writes a graph, and reads one: the lists of graph are there until wire_free. 0: the text is no
 * graph. */
void wire_put_graph(FILE *to, const struct bp_graph_data *graph);
int wire_get_graph(FILE *from, struct bp_graph_data *graph);

/* Writes an edit: add of struct bp_edits, with a FILE as ctx. wire_get_edits: reads edits and adds
 * each. */
enum bp_status wire_put_edit(void *to, const struct bp_edit *edit);
enum bp_status wire_get_edits(FILE *from, const struct bp_edits *edits);

/* Frees all that this thread has read. */
void wire_free(void);

#endif
