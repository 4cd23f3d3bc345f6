/* SPDX-License-Identifier: Apache-2.0 */
/* installed.c: finds the files that are installed with bp, relative to the directory of bp. */
#include "tools.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *bp_installed_path(const char *from_bindir)
{
    char self[PATH_MAX], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash, *joined, *real;

    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    joined = bp_text_format("%.*s/%s", slash ? (int)(slash - self) : 0, self, from_bindir);
    real = realpath(joined, path);
    if (!real) return joined;
    free(joined);
    return bp_text_format("%s", real);
}

char *bp_installed_pages(const char *text)
{
    char *folder = bp_installed_path(BP_DOCS);
    const char *end = strstr(text, "docs/");
    char *result;

    if (!end || access(folder, R_OK)) {
        free(folder);
        return bp_text_format("%s", text);
    }
    char *rest = bp_installed_pages(end + strlen("docs/"));
    result = bp_text_format("%.*s%s/%s", (int)(end - text), text, folder, rest);
    free(rest);
    free(folder);
    return result;
}
