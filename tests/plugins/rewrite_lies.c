/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite_lies.c: results of a rewrite that are wrong, each in one way. They are about the graph
 * exp(neg(x)), whose values are 0 (x), 1 and 2, and whose nodes are 0 and 1. */
#include "patterned.h"

#include <stdlib.h>
#include <string.h>

#define NONE BP_DATA_NONE
#define NUMBERS(...) \
    (const uint32_t[]) \
    { \
        __VA_ARGS__ \
    }
#define COUNT(...) (sizeof(NUMBERS(__VA_ARGS__)) / sizeof(uint32_t))
#define READS(...) .in = NUMBERS(__VA_ARGS__), .n_in = COUNT(__VA_ARGS__)
#define MAKES(...) .out = NUMBERS(__VA_ARGS__), .n_out = COUNT(__VA_ARGS__)
#define KILL(...) \
    .size = sizeof(struct bp_edit), .kill = NUMBERS(__VA_ARGS__), .n_kill = COUNT(__VA_ARGS__)
#define SAME(...) .same = NUMBERS(__VA_ARGS__), .n_same = COUNT(__VA_ARGS__) / 2
#define NEW(...) \
    .node = (const struct bp_edit_node[]){__VA_ARGS__}, \
    .n_node = sizeof((const struct bp_edit_node[]){__VA_ARGS__}) / sizeof(struct bp_edit_node), \
    .node_stride = sizeof(struct bp_edit_node)

static const struct lie {
    const char *name;
    struct bp_edit edit[2];
} lies[] = {
    {"size", {{.size = 8}}},
    {"node", {{KILL(7), SAME(2, 0)}}},
    {"none", {{.size = sizeof(struct bp_edit), SAME(2, 0)}}},
    {"null", {{.size = sizeof(struct bp_edit), .n_kill = 1}}},
    {"twice", {{KILL(0, 0)}}},
    {"two", {{KILL(1), NEW({.op = "exp", READS(1), MAKES(2)})}, {KILL(1), SAME(2, 1)}}},
    {"reads", {{KILL(1), NEW({.op = "exp", READS(9), MAKES(2)})}}},
    {"early", {{KILL(1), .n_between = 1, NEW({.op = "exp", READS(3), MAKES(2)})}}},
    {"computes", {{KILL(1), NEW({.op = "exp", READS(1), MAKES(9)})}}},
    {"between",
     {{KILL(1), .n_between = 1,
       NEW({.op = "exp", READS(1), MAKES(3)}, {.op = "exp", READS(1), MAKES(3)})}}},
    {"many", {{KILL(1), .n_between = 1 << 20, SAME(2, 1)}}},
    {"dtype", {{KILL(1), NEW({.op = "isnan", READS(1), MAKES(2)})}}},
    {"shape", {{KILL(1), NEW({.op = "sum", READS(1), MAKES(2)})}}},
    {"op", {{KILL(1), NEW({.op = "shine", READS(1), MAKES(2)})}}},
    {"unnamed", {{KILL(1), NEW({.op = NULL, READS(1), MAKES(2)})}}},
    {"random", {{KILL(1), NEW({.op = "dropout", READS(1), MAKES(2, NONE)})}}},
    {"ports", {{KILL(1), NEW({.op = "exp", READS(1), MAKES(2, NONE)})}}},
    {"inputs", {{KILL(1), NEW({.op = "exp", READS(1, 1), MAKES(2)})}}},
    {"stride", {{KILL(1), .node = (const void *)lies, .n_node = 1, .node_stride = 12}}},
    {"foreign",
     {{KILL(1), NEW({.op = "exp", READS(1), MAKES(2)}, {.op = "neg", READS(0), MAKES(1)})}}},
    {"input", {{KILL(1), NEW({.op = "exp", READS(1), MAKES(0)})}}},
    {"again",
     {{KILL(1), NEW({.op = "exp", READS(1), MAKES(2)}, {.op = "exp", READS(1), MAKES(2)})}}},
    {"left", {{KILL(0)}}},
    {"output", {{KILL(1)}}},
    {"circle", {{KILL(0), SAME(1, 2)}, {KILL(1), NEW({.op = "exp", READS(1), MAKES(2)})}}},
    {"mutual", {{KILL(0), SAME(1, 2)}, {KILL(1), SAME(2, 1)}}},
    {"cycle", {{KILL(0), NEW({.op = "sub", READS(2, 0), MAKES(1)})}}},
    {"view", {{KILL(1), SAME(2, 0)}}},
    {"nothing", {{KILL(1), SAME(2, NONE)}}},
    {"kernel", {{KILL(1), NEW({.op = "patterned.pair", READS(1), MAKES(NONE, 2)})}}},
    {"half", {{KILL(1), NEW({.op = "exp", READS(1), MAKES(2)})}, {KILL(0)}}},
    {"endless", {{KILL(1), NEW({.op = "exp", READS(1), MAKES(2)})}}},
    /* Right, but not equal: neg(x), node 0, is computed from what follows an update. */
    {"pull", {{KILL(0), NEW({.op = "sub", READS(5, 0), MAKES(1)})}}},
    /* About neg(u), where u is updated before or after; and about nodes that stay. */
    {"updated", {{KILL(1), NEW({.op = "abs", READS(0), MAKES(2)})}}},
    {"must", {{KILL(0), SAME(1, 0)}}},
};

enum bp_status rewrite_lie(const char *name, const struct bp_edits *edits)
{
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        if (strcmp(lies[i].name, name)) continue;
        edits->add(edits->ctx, &lies[i].edit[0]);
        if (lies[i].edit[1].size) edits->add(edits->ctx, &lies[i].edit[1]);
        return BP_OK; /* although an edit may have been refused */
    }
    return strcmp(name, "fails") ? BP_OK : BP_ERR_DEVICE;
}
