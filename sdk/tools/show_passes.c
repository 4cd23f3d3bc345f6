/* SPDX-License-Identifier: Apache-2.0 */
/* show_passes.c: `bp passes`: lists the passes of the compiler of programs. */
#include "tools.h"

int bp_cmd_passes(int argc, char **argv)
{
    static const char *const headings[] = {"PASS", "WHAT IT DOES"};
    struct bp_pass_info info = {.size = sizeof info};
    bool as_json = false;
    const struct bp_option options[] = {
        {"json", 0, BP_OPTION_FLAG, NULL, "print JSON", &as_json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "passes",
        .about = "Lists the passes of the compiler of programs, in the order in which they run. "
                 "BP_PASSES=-NAME,-NAME leaves passes out, BP_PASSES=none all of them; "
                 "`bp program` shows what each does with a model.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, NULL);
    cJSON *list = cJSON_CreateArray();
    struct bp_table table;

    if (status != BP_OPTIONS_GOOD) {
        cJSON_Delete(list);
        return status;
    }
    bp_table_init(&table, 2, headings);
    for (uint32_t i = 0; !bp_pass_get(i, &info); i++) {
        cJSON *pass = cJSON_CreateObject();
        bp_json_text(pass, "name", info.name);
        bp_json_text(pass, "doc", info.doc);
        cJSON_AddItemToArray(list, pass);
        bp_table_row(&table, (const char *const[]){info.name, info.doc}, NULL);
    }
    if (!as_json) bp_table_print(&table, 0);
    bp_table_finish(&table);
    if (as_json) return bp_json_print(list);
    cJSON_Delete(list);
    return BP_EXIT_GOOD;
}
