/* SPDX-License-Identifier: Apache-2.0 */
/* test_arch.c: tests which devices can run images for which targets, and how the name of an
 * architecture is found. TAP. */
#include "gpu/gpu.h"
#include <stdio.h>
#include <string.h>

static const struct fit {
    const char *arch, *targets;
    bool fits;
} fits[] = {
    {"sm_80", "80", true},
    {"sm_75", "80", false},
    {"sm_86", "80", true},
    {"sm_90", "80", false},
    {"sm_90", "80+ptx", true},
    {"sm_75", "80+ptx", false},
    {"sm_75", "80, 90, 90+ptx", false},
    {"sm_89", "80, 90, 90+ptx", true},
    {"sm_90", "80, 90, 90+ptx", true},
    {"sm_103", "80, 90, 90+ptx", true},
    {"sm_103", "80, 90", false},
    {"sm_103", "100", true},
    {"sm_120", "100", false},
    {"sm_90", "90a", true},
    {"sm_103", "90a+ptx", false},
    {"sm_110", "90a, 110", true},
    {"gfx90a", "gfx90a", true},
    {"gfx90a:sramecc+:xnack-", "gfx906, gfx90a, gfx1030", true},
    {"gfx90a:sramecc+:xnack-", "gfx906, gfx1030", false},
    {"gfx90a", "gfx90", false},
    {"gfx90a", "gfx90, gfx90ab", false},
    {"gfx103", "gfx1030", false},
    {"gfx1030", "gfx103", false},
    {"gfx906:sramecc+:xnack-", "gfx906:sramecc+:xnack-", true},
    {"gfx906:sramecc+:xnack-", "gfx906:xnack-", true},
    {"gfx906:sramecc+:xnack-", "gfx906:xnack+, gfx90a", false},
    {"gfx906:sramecc+:xnack-", "gfx906:sramecc-:xnack-", false},
    {"gfx906", "gfx906:xnack-", false},
    {"gfx1101", "gfx11-generic", true},
    {"", "gfx906", true},
    {"", "80", true},
};

static const struct text {
    const char *text;
    size_t size;
    const char *found;
} texts[] = {
#define TEXT(text, found) {text, sizeof text, found},
    TEXT("AMD Instinct MI210\0\0\1\2gfx90a:sramecc+:xnack-\0gfx906\0", "gfx90a:sramecc+:xnack-")
    TEXT("gfx1030", "gfx1030")
    TEXT("a gfx of none\0gfx\0gfx906 ", "gfx906")
    TEXT("Radeon\0\0\0", "")
    TEXT("gfx", "")
#undef TEXT
    {"gfx1030", 6, "gfx103"},
};

int main(void)
{
    int n = 0, failed = 0;

    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
        bool good = gpu_arch_fits(fits[i].arch, fits[i].targets) == fits[i].fits;
        failed += !good;
        printf("%s %d - '%s' with images for %s\n", good ? "ok" : "not ok", ++n, fits[i].arch,
               fits[i].targets);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char found[GPU_ARCH];
        bool good;
        gpu_arch_find(texts[i].text, texts[i].size, "gfx", found);
        good = !strcmp(found, texts[i].found);
        failed += !good;
        printf("%s %d - '%s' in a text of %zu bytes: '%s'\n", good ? "ok" : "not ok", ++n,
               texts[i].found, texts[i].size, found);
    }
    printf("1..%d\n", n);
    return failed != 0;
}
