/* SPDX-License-Identifier: Apache-2.0 */
/* features.c: compares the features of this processor, by their names in /proc/cpuinfo, with a
 * manifest. A library that needs a missing feature must not even be opened, because its
 * constructors could trap. */
#include "loader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the line of flags of the first processor, or NULL. It begins with "flags" on x86, with
 * "Features" on arm. */
static char *flags_line(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;

    if (!file) return NULL;
    while (!found && getline(&line, &size, file) >= 0)
        found = !strncmp(line, "flags", 5) || !strncmp(line, "Features", 8);
    fclose(file);
    if (found) return line;
    free(line);
    return NULL;
}

static bool has_word(const char *line, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = line; (at = strstr(at, word)); at += length) {
        bool starts = at != line && strchr(" \t:", at[-1]);
        if (starts && strchr(" \t\n", at[length])) return true;
    }
    return false;
}

const char *bp_features_find_missing(const struct bp_manifest *manifest)
{
    const char *missing = NULL;
    char *line;

    if (!manifest->n_cpu_features) return NULL;
    line = flags_line();
    for (uint32_t i = 0; i < manifest->n_cpu_features && !missing; i++)
        if (!line || !has_word(line, manifest->cpu_features[i]))
            missing = manifest->cpu_features[i];
    free(line);
    return missing;
}
