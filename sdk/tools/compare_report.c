/* SPDX-License-Identifier: Apache-2.0 */
/* compare_report.c: compares two reports of `bp report --json` by the reports that they hold. */
#include "compare_reports.h"

static const cJSON *report_part(const cJSON *json, const char *key)
{
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsObject(part) ? part : NULL;
}

int compare_report(struct compare *c, const cJSON *a, const cJSON *b, char *out_why, size_t size)
{
    const cJSON *conform[2] = {report_part(a, "conform"), report_part(b, "conform")};
    const cJSON *bench[2] = {report_part(a, "bench"), report_part(b, "bench")};
    int wrong;

    for (int i = 0; i < 2; i++) {
        if (conform[i]) continue;
        snprintf(out_why, size, "expected a report of `bp report --json`, with a key `conform`");
        return i + 1;
    }
    wrong = compare_conform(c, conform[0], conform[1], out_why, size);
    if (wrong) return wrong;
    if (bench[0] && bench[1]) return compare_bench(c, bench[0], bench[1], out_why, size);
    if (bench[0] || bench[1])
        compare_note(c, "only the %s report has measured figures", bench[0] ? "earlier" : "later");
    return 0;
}
