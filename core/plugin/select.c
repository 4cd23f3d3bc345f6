/* SPDX-License-Identifier: Apache-2.0 */
/* select.c: selects plugins by name with a list of globs. "a*,b,!c" selects the names that match
 * one of the globs without '!' (all names if there is none) and none of the globs with '!', in any
 * order. */
#include "loader.h"
#include <fnmatch.h>
#include <string.h>

/* Copies the next word of a list, without spaces around it; false at the end of the list. Empty
 * words are skipped. */
static bool match_next(const char **list, char out[64])
{
    while (*list && **list) {
        size_t length;
        const char *word;

        *list += strspn(*list, ", \t");
        word = *list;
        length = strcspn(word, ",");
        *list += length;
        while (length && strchr(" \t", word[length - 1])) length--;
        if (!length) continue;
        if (length > 63) length = 63; /* longer than any name, so it matches none, cut or not */
        memcpy(out, word, length);
        out[length] = 0;
        return true;
    }
    return false;
}

bool bp_select_match(const char *globs, const char *name)
{
    char word[64];
    bool any = true, match = false;

    while (match_next(&globs, word)) {
        if (word[0] == '!') {
            if (!fnmatch(word + 1, name, 0)) return false;
            continue;
        }
        any = false;
        if (!fnmatch(word, name, 0)) match = true;
    }
    return any || match;
}

bool bp_select_glob(const char *globs, size_t index, char out[64])
{
    while (match_next(&globs, out))
        if (out[0] != '!' && !index--) return true;
    return false;
}
