/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_settings.c: warns of environment variables of collectives whose values are wrong. */
#include "ccl_settings.h"

#include "bootstrap/rendezvous.h"
#include "shm/peer_map.h"

#include <string.h>

static bool native_is_good(const char *text)
{
    return !strcmp(text, "0");
}

static bool timeout_is_good(const char *text)
{
    uint64_t ns;

    return bp_rendezvous_read_timeout(text, &ns);
}

static bool ways_are_good(const char *text)
{
    uint32_t mask;

    return bp_access_read(text, &mask);
}

void bp_ccl_check_settings(struct bp_core *core)
{
    static const struct {
        const char *name;
        bool (*is_good)(const char *text);
        const char *expected;
    } settings[] = {
        {"BP_CCL_TIMEOUT", timeout_is_good, "seconds, more than 0"},
        {"BP_CCL_NATIVE", native_is_good, "0"},
        {"BP_CCL_WAYS", ways_are_good, "map, vm or staged, or some of them separated by commas"},
    };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *text = bp_env_get(settings[i].name);
        if (!text || !*text || settings[i].is_good(text)) continue;
        bp_core_log(core, BP_LOG_WARN, "%s=%.40s: expected %s", settings[i].name, text,
                    settings[i].expected);
    }
}
