/* SPDX-License-Identifier: Apache-2.0 */
/* mapped.c: which file an address is mapped from. Its name is asked for, not its device and inode:
 * on file systems with layers or subvolumes these are not the ones that stat gives. */
#include "loader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the name stands in a line "BEGIN-END RIGHTS OFFSET DEVICE INODE   NAME", if address is in
 * the line's range. */
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
