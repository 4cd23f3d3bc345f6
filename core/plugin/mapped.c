/* SPDX-License-Identifier: Apache-2.0 */
/* mapped.c: finds the file that is mapped at an address, by name. Device and inode are not used,
 * because file systems with layers or subvolumes report other values for them than stat. */
#include "loader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the name in a line "BEGIN-END RIGHTS OFFSET DEVICE INODE NAME" of /proc/self/maps if
 * address is in the line's range; otherwise NULL. */
static const char *maps_find_name(char *line, uintptr_t address)
{
    unsigned long long begin, end;
    int at = 0;

    if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %n", &begin, &end, &at) < 2 || !at) return NULL;
    if (address < begin || address >= end) return NULL;
    line[strcspn(line, "\n")] = 0;
    return line + at;
}

char *bp_mapped_file_find(const void *address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    const char *name = NULL;
    char *line = NULL, *copy;
    size_t size = 0;

    if (!maps) return NULL;
    while (!name && getline(&line, &size, maps) >= 0)
        name = maps_find_name(line, (uintptr_t)address);
    fclose(maps);
    copy = name && *name ? strdup(name) : NULL;
    free(line);
    return copy;
}
