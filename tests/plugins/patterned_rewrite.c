/* SPDX-License-Identifier: Apache-2.0 */
/* patterned_rewrite.c: the rewrite of the test plugin `patterned`. BP_REWRITE: "process" lets
 * another process find the edits, another word is the name of a wrong result. */
#include "patterned.h"
#include "rewrite_good.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the graph to a file, which the other process reads. */
static enum bp_status rewrite_in_process(const struct bp_graph_data *graph,
                                         const struct bp_edits *edits)
{
    char path[] = "/tmp/rewrite.XXXXXX", command[1024];
    int fd = mkstemp(path);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w"), *from;
    enum bp_status status = BP_ERR_DEVICE;

    if (!to) return status;
    wire_put_graph(to, graph);
    fclose(to);
    snprintf(command, sizeof command, "'%s' < %s", REWRITER, path);
    from = popen(command, "r");
    if (from) status = wire_get_edits(from, edits);
    if (from && pclose(from)) status = BP_ERR_DEVICE;
    unlink(path);
    wire_free();
    return status;
}

enum bp_status patterned_rewrite(void *self, const struct bp_graph_data *graph,
                                 const struct bp_edits *edits)
{
    const char *word = getenv("BP_REWRITE");

    (void)self;
    if (!word) return rewrite_good(graph, edits);
    return strcmp(word, "process") ? rewrite_lie(word, edits) : rewrite_in_process(graph, edits);
}
