/* SPDX-License-Identifier: Apache-2.0 */
/* new_plugin.h: declares what the parts of `bp new-plugin` share: the request of a user, and the
 * features of a plugin, by which the templates select their files and lines. */
#ifndef BP_NEW_PLUGIN_H
#define BP_NEW_PLUGIN_H

#include "tools.h"

/* X(NAME, word): the words of the templates' marks. */
#define NEW_FEATURES(X) \
    X(HANDLES, handles) /* memory has handles, and no addresses */ \
    X(GRAPH, graph)     /* an engine, and no kernels */ \
    X(ENGINE, engine) \
    X(KERNELS, kernels)   /* the portable kernels */ \
    X(CCL, ccl)           /* collectives */ \
    X(PROFILER, profiler) /* records of work, with times */ \
    X(ADDON, addon)       /* no device */

enum new_feature_number {
#define X(NAME, word) NEW_NUMBER_##NAME,
    NEW_FEATURES(X)
#undef X
};
enum new_feature {
#define X(NAME, word) NEW_##NAME = 1 << NEW_NUMBER_##NAME,
    NEW_FEATURES(X)
#undef X
};

enum {
    NEW_NAME_LENGTH = 31
};

struct new_request {
    const char *name, *sdk;
    char upper[NEW_NAME_LENGTH + 1];
    char *output; /* directory of the plugin */
    unsigned features;
    char *templates; /* directory of the templates */
    char *folder;    /* temporary directory of the copy */
    cJSON *files;    /* names of the files that were written */
};

/* Writes the plugin's files to a directory beside the final one, and renames it when all are
 * complete. After a failure, which it reports, nothing is left. */
enum bp_exit bp_new_plugin_write(struct new_request *r);

#endif
