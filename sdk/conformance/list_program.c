/* SPDX-License-Identifier: Apache-2.0 */
/* list_program.c: adds the cases of the suites pass and graph: those of the patterns and of the
 * engine of the device's plugin. */
#include "list_make.h"
#include "suites/networks.h"
#include "suites/suites.h"

#include <backplane/engine.h>
#include <backplane/plugin.h>
#include <backplane/program.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds a line for a suite that has no cases. */
static void add_reason(struct list *list, enum suite suite, const char *why)
{
    struct listed *l;

    if (!list->wanted || !list->wanted->suites) return; /* the suite was not named */
    l = list_add(list, suite);
    snprintf(l->id, sizeof l->id, "%s/none", suite_name(suite));
    l->outcome = OUTCOME_SKIP;
    l->message = strdup(why);
    if (!l->message) abort();
}

static void add_pass(struct list *list, const char *what, check_fn *run, uint32_t index,
                     const char *name)
{
    struct listed *l;
    char id[CASE_ID];
    uint64_t hash;

    snprintf(id, sizeof id, "pass/%s@%s", what, name);
    hash = list_number_id(list, id); /* two patterns may have one name */
    l = list_add(list, SUITE_PASS);
    l->hash = hash;
    memcpy(l->id, id, sizeof l->id);
    l->run = run;
    l->arg[0] = index;
}

/* Passes of the plugin have names with a dot; those of its add-ons begin with another name. */
static bool is_own(const struct fixture *f, const char *name)
{
    const char *dot = strchr(name, '.');
    struct bp_plugin_info info = {.size = sizeof info};

    for (uint32_t i = 0; dot && !bp_core_plugin(f->core, i, &info); i++)
        if (info.library && !strcmp(info.library, f->library))
            return strlen(info.name) == (size_t)(dot - name) &&
                   !strncmp(info.name, name, (size_t)(dot - name));
    return false;
}

void list_add_passes(struct list *list)
{
    struct bp_pass_info info = {.size = sizeof info};
    size_t before;

    if (!list_unit_begin(list, SUITE_PASS, NULL)) return;
    before = list->n;
    for (uint32_t i = 0; !bp_device_pass(list->fixture->device, i, &info); i++) {
        if (!is_own(list->fixture, info.name)) continue;
        if (!strcmp(strchr(info.name, '.'), ".rewrite")) {
            add_pass(list, "rewrite", pass_rewrite, i, info.name);
            continue;
        }
        add_pass(list, "fires", pass_fires, i, info.name);
        add_pass(list, "values", pass_values, i, info.name);
        add_pass(list, "order", pass_order, i, info.name);
        add_pass(list, "near", pass_near, i, info.name);
    }
    if (list->n == before) add_reason(list, SUITE_PASS, "the plugin has no patterns");
}

/* The engine of the device's plugin, or NULL. */
static const struct bp_engines *engine_of(const struct fixture *f)
{
    void *library = dlopen(f->library, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "bp_plugin_get") : NULL;
    const struct bp_plugin *(*get)(void);
    const struct bp_plugin *plugin;

    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast for this */
    plugin = get ? get() : NULL;
    return plugin && plugin->size > offsetof(struct bp_plugin, engines) ? plugin->engines : NULL;
}

static bool updates_memory(const struct bp_engines *engine)
{
    return engine->size > offsetof(struct bp_engines, flags) && engine->flags & BP_ENGINE_UPDATES;
}

void list_add_networks(struct list *list)
{
    static const struct check_case cases[] = {
        {"claims", engine_claims},   {"results", engine_results},
        {"inputs", engine_inputs},   {"twice", engine_twice},
        {"threads", engine_threads}, {"deadline", engine_deadline},
        {"leaks", engine_leaks},     {"saved", engine_saved},
        {"damaged", engine_damaged}, {"weights", engine_weights},
        {"streams", engine_streams}, {"buckets", engine_buckets},
        {NULL, NULL}};
    const struct bp_engines *engine;

    if (!list_unit_begin(list, SUITE_GRAPH, NULL)) return;
    engine = engine_of(list->fixture);
    if (!engine) {
        add_reason(list, SUITE_GRAPH, "the plugin has no engine");
        return;
    }
    for (const struct check_case *one = cases; one->id; one++)
        for (uint32_t i = 0; i < NETWORKS; i++) {
            struct listed *l = list_add(list, SUITE_GRAPH);
            snprintf(l->id, sizeof l->id, "graph/%s/%s", one->id, network_name(i));
            l->run = one->run;
            l->arg[0] = i;
            l->arg[1] = engine->size > offsetof(struct bp_engines, save) && engine->save;
        }
    for (uint32_t i = 0; updates_memory(engine) && engine_state_name(i); i++) {
        struct listed *l = list_add(list, SUITE_GRAPH);
        snprintf(l->id, sizeof l->id, "graph/state/%s", engine_state_name(i));
        l->run = engine_state;
        l->arg[0] = i;
    }
}
