/* SPDX-License-Identifier: Apache-2.0 */
/* run_fallbacks.c: reports the calls of `bp run` for which the device had no kernel: by operator,
 * how and where they ran instead, and why. */
#include "run_model.h"
#include <stdlib.h>

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
#define X(NAME, number, word, text) \
    case number: return #word;
        BP_FALLBACKS(X)
#undef X
    default: return "unknown";
    }
}

static void fallback_row(struct bp_table *table, const struct bp_fallback_info *info)
{
    char *calls = bp_text_format("%llu", (unsigned long long)info->calls);
    char *bytes = bp_text_format("%llu", (unsigned long long)info->bytes);
    char *time = bp_text_format("%.3f", 1e-6 * (double)info->nanoseconds);

    bp_table_row(table, (const char *[]){info->op, kind_name(info->kind), info->where, calls, bytes,
                                         time}, info->why);
    free(calls);
    free(bytes);
    free(time);
}

static void fallback_json(cJSON *list, const struct bp_fallback_info *info)
{
    cJSON *one = cJSON_CreateObject();

    bp_json_text(one, "operator", info->op);
    bp_json_text(one, "kind", kind_name(info->kind));
    bp_json_text(one, "where", info->where);
    cJSON_AddNumberToObject(one, "calls", (double)info->calls);
    cJSON_AddNumberToObject(one, "bytes", (double)info->bytes);
    cJSON_AddNumberToObject(one, "ms", 1e-6 * (double)info->nanoseconds);
    bp_json_text(one, "why", info->why);
    cJSON_AddItemToArray(list, one);
}

void run_fallbacks(struct run_model *r, cJSON *json)
{
    static const char *const head[] = {"OPERATOR", "KIND", "WHERE", "CALLS", "BYTES", "MS"};
    uint32_t n = bp_device_fallbacks(r->device);
    cJSON *list = json ? cJSON_AddArrayToObject(json, "fallbacks") : NULL;
    struct bp_table table;

    bp_table_init(&table, 6, head);
    for (uint32_t i = 0; i < n; i++) {
        struct bp_fallback_info info = {.size = sizeof info};
        if (bp_device_fallback(r->device, i, &info)) continue;
        if (json) fallback_json(list, &info);
        else fallback_row(&table, &info);
    }
    if (!json && n) {
        printf("calls of load and runs for which %s has no kernel, with the reason below:\n",
               r->device_name);
        bp_table_print(&table, 0);
    }
    bp_table_finish(&table);
}
