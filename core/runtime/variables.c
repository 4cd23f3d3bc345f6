/* SPDX-License-Identifier: Apache-2.0 */
/* variables.c: warns about environment variables whose names are misspelt, which nothing reads. */
#include "../base/base.h"
#include "runtime.h"

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Names of up to NAME characters are compared; a misspelt name differs from a known one in at most
 * CHANGES characters. */
enum { NAME = 40, CHANGES = 2 };

/* The variables that the library reads. Plugins have others, whose names are not known here. */
static const char *const known[] = {
    "BP_ALLOW", "BP_BLOCK", "BP_CCL_NATIVE", "BP_CCL_TABLE", "BP_CCL_TIMEOUT", "BP_CCL_WAYS",
    "BP_DUMP_PASSES", "BP_ENGINE_TIMEOUT", "BP_FALLBACK", "BP_KERNELS", "BP_LOG", "BP_MEM_LIMIT",
    "BP_PASSES", "BP_PLUGINS", "BP_PLUGIN_PATH", "BP_PROFILE", "BP_PROFILE_FLAGS",
    "BP_PROGRAM_CACHE", "BP_RANK", "BP_SEED", "BP_STORE", "BP_STORE_HOST", "BP_STREAMS",
    "BP_SYNC", "BP_THREADS", "BP_VALIDATE", "BP_WAIT_TIMEOUT", "BP_WORLD_SIZE",
};
enum { KNOWN = sizeof known / sizeof *known };

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of characters to insert, remove, replace or exchange with their neighbour to turn a,
 * of n characters, into b: the restricted Damerau-Levenshtein distance. */
static size_t name_distance(const char *a, size_t n, const char *b)
{
    size_t rows[3][NAME + 1], m = strlen(b);

    for (size_t k = 0; k <= m; k++) rows[0][k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            row[k] = least_of(above[k - 1] + (a[i - 1] != b[k - 1]),
                              1 + least_of(above[k], row[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = least_of(row[k], two_above[k - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* The known variable that a name of n characters probably means; NULL for a known name and for a
 * name that resembles none. */
static const char *meant_by(const char *name, size_t n)
{
    const char *best = NULL;
    size_t least = CHANGES + 1;

    for (int i = 0; i < KNOWN; i++) {
        size_t distance = name_distance(name, n, known[i]);
        if (!distance) return NULL;
        if (distance < least) least = distance, best = known[i];
    }
    return best;
}

void bp_core_check_variables(struct bp_core *core)
{
    if (getauxval(AT_SECURE)) return;
    for (char **v = environ; v && *v; v++) {
        size_t n = strcspn(*v, "=");
        const char *meant = NULL;
        if (!strncmp(*v, "BP_", 3) && n <= NAME) meant = meant_by(*v, n);
        if (meant)
            bp_core_log(core, BP_LOG_WARN, "%.*s: no variable has this name; %s was probably meant",
                        (int)n, *v, meant);
    }
}
