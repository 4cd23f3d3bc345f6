/* SPDX-License-Identifier: Apache-2.0 */
/* arch.c: decides by the names of architectures whether a device can run a compiled image. It calls
 * no driver. */
#include "gpu.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Compiled code runs on devices of the same generation that are not older ("90"), on exactly one
 * architecture ("90a"), or, as PTX, on all devices that are not older ("90+ptx"). */
static bool fits_number(unsigned long arch, const char *target)
{
    char *end;
    unsigned long number = strtoul(target, &end, 10);

    if (*end == 'a') return arch == number;
    if (*end == '+') return arch >= number;
    return arch >= number && arch / 10 == number / 10;
}

/* "gfx90a" runs on "gfx90a:sramecc+:xnack-". If the target names a feature, the device must have
 * the feature in the same state. Code for several architectures ("gfx9-generic") is accepted here;
 * the driver decides. */
static bool fits_name(const char *arch, const char *target, size_t length)
{
    size_t base = strcspn(arch, ":");
    char feature[GPU_ARCH];

    if (memmem(target, length, "-generic", 8)) return true;
    if (length < base || strncmp(arch, target, base) != 0) return false;
    for (target += base, length -= base; length; target += base, length -= base) {
        if (*target != ':') return false;
        base = 1 + strcspn(target + 1, ":,");
        snprintf(feature, sizeof feature, "%.*s", (int)base, target);
        if (!strstr(arch, feature)) return false;
    }
    return true;
}

bool gpu_arch_fits(const char *arch, const char *targets)
{
    const char *digits = arch + strcspn(arch, "_");
    bool fits = !*arch;

    while (*targets && !fits) {
        size_t length = strcspn(targets, ",");
        fits = isdigit((unsigned char)*targets)
                   ? *digits && fits_number(strtoul(digits + 1, NULL, 10), targets)
                   : fits_name(arch, targets, length);
        targets += length;
        targets += strspn(targets, ", ");
    }
    return fits;
}

void gpu_arch_find(const char *text, size_t size, const char *prefix, char out[GPU_ARCH])
{
    size_t length = strlen(prefix), n = 0;

    for (size_t i = 0; i + length < size; i++) {
        if (memcmp(text + i, prefix, length) != 0 || !isxdigit((unsigned char)text[i + length]))
            continue;
        while (i + n < size && n < GPU_ARCH - 1 &&
               (isalnum((unsigned char)text[i + n]) || (text[i + n] && strchr(":+-", text[i + n]))))
            n++;
        memcpy(out, text + i, n);
        break;
    }
    out[n] = '\0';
}
