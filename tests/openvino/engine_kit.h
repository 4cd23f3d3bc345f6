/* SPDX-License-Identifier: Apache-2.0 */
/* engine_kit.h: runs the engine of the openvino plugin by its table, without the core's compiler,
 * on graphs that are stated as text. BP_OPENVINO_LIBRARY names the library: OpenVINO's, or the
 * stand-in of this folder. */
#ifndef BP_TEST_ENGINE_KIT_H
#define BP_TEST_ENGINE_KIT_H

#include "../compile/graph_text.h"

#include <backplane/engine.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>

enum {
    KIT_VALUES = 128,
    KIT_NODES = 64
};

/* An instance of the plugin with a host that keeps the last message and counts memory. */
struct kit_plugin {
    struct bp_host host;
    const struct bp_plugin *plugin;
    const struct bp_engines *engine;
    void *self;
    char message[1024];
    int64_t allocations; /* that are not released */
    uint32_t flags;      /* of claims and groups: BP_ENGINE_FAST_MATH after kit_open */
};

/* A recorded graph as data. The recorded graph must outlive it. */
struct kit_graph {
    struct bp_graph_data data;
    struct bp_data_value value[KIT_VALUES];
    struct bp_data_node node[KIT_NODES];
    uint16_t at[2 * KIT_NODES][16];
    uint32_t in[KIT_VALUES], out[TEXT_OUTPUTS];
};

/* The result of claim. */
struct kit_claim {
    uint32_t group[KIT_NODES], n_group;
    const char *reason[KIT_NODES];
};

/* A compiled group. */
struct kit_compiled {
    struct bp_engine_compile options; /* set before kit_compile; graph is set by kit_compile */
    struct bp_engine_compiled result;
    uint16_t in_layout[KIT_VALUES], out_layout[TEXT_OUTPUTS];
    int32_t may_share[TEXT_OUTPUTS];
    struct bp_inferred out_type[TEXT_OUTPUTS];
};

void kit_open(struct kit_plugin *k);
/* Asserts that all memory was released. */
void kit_close(struct kit_plugin *k);

void kit_graph(const struct text_graph *g, struct kit_graph *to);
enum bp_status kit_claim(struct kit_plugin *k, const struct kit_graph *graph,
                         struct kit_claim *claim);
enum bp_status kit_compile(struct kit_plugin *k, const struct kit_graph *graph,
                           struct kit_compiled *c);
void kit_destroy(struct kit_plugin *k, struct kit_compiled *c);

/* Runs a compiled group once with the inputs of the text: out[i] gets the bytes of output i, which
 * the caller frees. */
enum bp_status kit_run(struct kit_plugin *k, const struct text_graph *g,
                       const struct kit_graph *graph, const struct kit_compiled *c, void *context,
                       void **out, uint32_t *fault);

/* Asserts that the engine claims the whole graph of the text, and that its outputs are those of a
 * run node by node. Each element may differ by `terms` roundings of f32, or of the output's dtype
 * if that is shorter, of numbers of magnitude 1 or its own. */
void kit_check(struct kit_plugin *k, struct text_graph *g, double terms);

#endif
