/* SPDX-License-Identifier: Apache-2.0 */
/* rewriter.c: reads a graph as text, and writes the edits of a rewrite: a process that has neither
 * the core nor its memory. */
#include "rewrite_good.h"

int main(void)
{
    struct bp_graph_data graph;
    int good;
    const struct bp_edits edits = {.size = sizeof edits, .ctx = stdout, .add = wire_put_edit};

    good = wire_get_graph(stdin, &graph) && !rewrite_good(&graph, &edits);
    wire_free();
    if (!good) return 1;
    puts("end");
    return fflush(stdout) != 0;
}
