/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: builds and prints the JSON output of commands, and reads members of objects. */
#include "tools.h"

#include <math.h>
#include <stdlib.h>

void bp_json_text(cJSON *object, const char *key, const char *text)
{
    char *clean = bp_text_clean(text ? text : "");

    cJSON_AddStringToObject(object, key, clean);
    free(clean);
}

void bp_json_dtypes(cJSON *object, const char *key, uint64_t mask)
{
    cJSON *names = cJSON_AddArrayToObject(object, key);

    for (uint32_t i = 0; i < 64; i++)
        if (mask >> i & 1) cJSON_AddItemToArray(names, cJSON_CreateString(bp_dtype_name(i)));
}

const char *bp_json_get(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

double bp_json_number(const cJSON *object, const char *key)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, key);

    return cJSON_IsNumber(number) && isfinite(number->valuedouble) ? number->valuedouble : NAN;
}

int bp_json_print(cJSON *json)
{
    char *text = json ? cJSON_Print(json) : NULL;

    cJSON_Delete(json);
    if (!text) {
        bp_complain("", "no memory for the JSON answer");
        return BP_EXIT_BROKEN;
    }
    puts(text);
    cJSON_free(text);
    return BP_EXIT_GOOD;
}
