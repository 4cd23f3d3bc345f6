/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: measures the time that a process needs before its first call on the cpu device: to find
 * the plugin, and to check, load and open it. Fails if a vendor's library was opened meanwhile.
 *
 *   load   prints microseconds for the core and the device, and whether such a library is mapped */
#include <backplane/backplane.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double load_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

int main(void)
{
    static const char *const vendors[] = {"libdnnl", "libopenblas", "libmkl"};
    double begin = load_now(), core_made, device_made;
    struct bp_core *core;
    struct bp_device *device;
    char line[512];
    int found = 0;

    if (bp_core_create(NULL, &core)) return 1;
    core_made = load_now();
    if (bp_device_create(core, "cpu:0", &device)) return 1;
    device_made = load_now();
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        for (int i = 0; i < 3; i++) found += strstr(line, vendors[i]) != NULL;
    if (maps) fclose(maps);
    printf("core %.0f us, device %.0f us, vendor libraries mapped: %s\n", core_made - begin,
           device_made - core_made, found ? "yes" : "no");
    bp_device_destroy(device);
    bp_core_destroy(core);
    return found != 0;
}
