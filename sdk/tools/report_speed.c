/* SPDX-License-Identifier: Apache-2.0 */
/* report_speed.c: the sections of `bp report` with the rows of the benchmark, beside the cpu, and
 * with the differences from an earlier run. */
#include "device_report.h"

#include <math.h>
#include <report/escape.h>
#include <string.h>

/* The row of this name and number of threads in a report, or NULL. */
static const cJSON *speed_find(const cJSON *bench, const cJSON *like)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(bench, "results"))
    {
        if (!strcmp(bp_json_get(row, "name"), bp_json_get(like, "name")) &&
            !strcmp(bp_json_get(row, "unit"), bp_json_get(like, "unit")) &&
            bp_json_number(row, "threads") == bp_json_number(like, "threads"))
            return row;
    }
    return NULL;
}

static void speed_cell(FILE *file, const char *format, double number)
    __attribute__((format(printf, 2, 0)));
static void speed_cell(FILE *file, const char *format, double number)
{
    fprintf(file, "<td>");
    if (isfinite(number)) fprintf(file, format, number);
    fprintf(file, "</td>");
}

/* How many times as fast as the cpu the device is. NaN: the row has no such number, as a difference
 * of two times may be 0 or less. */
static double speed_times(const cJSON *row, const cJSON *cpu)
{
    double here = bp_json_number(row, "value"), there = cpu ? bp_json_number(cpu, "value") : NAN;

    if (!(here > 0) || !(there > 0)) return NAN;
    return strcmp(bp_json_get(row, "unit"), "ns") ? here / there : there / here;
}

/* The same row was measured in a process of one thread: the difference is the library's, not the
 * device's. */
bool device_is_beside(const cJSON *row)
{
    return strstr(bp_json_get(row, "name"), " beside a thread") != NULL;
}

/* The number by which the times of a row are divided, so that all are short; sets the unit. */
static double speed_scale(const cJSON *row, const char **out_unit)
{
    static const struct {
        double least, scale;
        const char *unit;
    } units[] = {{1e9, 1e9, "s"}, {1e7, 1e6, "ms"}, {1e4, 1e3, "us"}};

    double most = fmax(bp_json_number(row, "value"), bp_json_number(row, "high"));

    *out_unit = bp_json_get(row, "unit");
    if (strcmp(*out_unit, "ns")) return 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!(most >= units[i].least)) continue;
        *out_unit = units[i].unit;
        return units[i].scale;
    }
    return 1;
}

static void speed_row(const struct device_report *d, const cJSON *row, FILE *file)
{
    const cJSON *cpu = d->cpu ? speed_find(d->cpu, row) : NULL;
    const char *unit;
    double times = speed_times(row, cpu), scale = speed_scale(row, &unit);

    fprintf(file, "<tr><th class=\"words\">");
    escape(file, bp_json_get(row, "name"));
    fprintf(file, "</th>");
    speed_cell(file, "%.4g", bp_json_number(row, "value") / scale);
    fprintf(file, "<td>");
    escape(file, unit);
    fprintf(file, "</td><td>%.4g to %.4g</td>", bp_json_number(row, "low") / scale,
            bp_json_number(row, "high") / scale);
    speed_cell(file, "%.3f", bp_json_number(row, "ratio"));
    fprintf(file, "<td class=\"words\">");
    escape(file, bp_json_get(row, "reference"));
    fprintf(file, "</td>");
    if (d->cpu) {
        speed_cell(file, "%.4g", cpu ? bp_json_number(cpu, "value") / scale : NAN);
        fprintf(file, "<td class=\"%s\">", times >= 1 ? "good" : "");
        if (isfinite(times)) fprintf(file, "%.3g", times);
        fprintf(file, "</td>");
    }
    fprintf(file, "</tr>\n");
}

static void speed_missing(const char *why, FILE *file)
{
    if (!why) return;
    fprintf(file, "<p>");
    escape(file, why);
    fprintf(file, "</p>\n");
}

/* The differences that `bp compare` would list. */
static void speed_since(const struct device_report *d, FILE *file)
{
    const struct compare *c = &d->since;

    if (!d->last) return;
    fprintf(file, "<h2>Since the last run</h2>\n<p class=\"soft\">By the rules of bp compare: a "
                  "measured figure differs if the spreads of the two runs have no common point and "
                  "the medians differ by more than 5 %%.</p>\n<p>");
    for (int i = 0; i < COMPARE_COUNT; i++)
        fprintf(file, "%zu %s, ", c->count[i], compare_title[i]);
    fprintf(file, "%zu without a difference</p>\n", c->same);
    for (size_t i = 0; i < c->n_note; i++) speed_missing(c->note[i], file);
    for (int change = 0; change <= COMPARE_IMPROVEMENT; change++) {
        if (!c->count[change]) continue;
        fprintf(file, "<details%s><summary>%zu %s</summary><ul>\n",
                change == COMPARE_REGRESSION ? " open" : "", c->count[change],
                compare_title[change]);
        compare_items_html(c, (enum compare_change)change, file);
        fprintf(file, "</ul></details>\n");
    }
}

void device_speed_html(const struct device_report *d, FILE *file)
{
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(d->bench, "results"), *row;

    speed_since(d, file);
    fprintf(file, "<h2>Speed</h2>\n");
    speed_missing(d->bench_missing, file);
    speed_missing(d->cpu_missing, file);
    if (!cJSON_GetArraySize(results)) {
        fprintf(file, "<p>No row was measured.</p>\n");
        return;
    }
    fprintf(
        file,
        "<p class=\"soft\">Medians of bp bench, and the middle half. Ratio: the time over that "
        "of the reference, 1 is as fast, more is slower.%s docs/bench.md explains the rows.</p>\n"
        "<div class=\"scroll\"><table><thead><tr><th>row</th><th>median</th><th>unit</th>"
        "<th>middle half</th><th>ratio</th><th>reference</th>%s</tr></thead><tbody>\n",
        d->cpu ? " At the right the plugin cpu on this machine, and how many times as fast as it "
                 "the device is."
               : "",
        d->cpu ? "<th>cpu</th><th>times as fast</th>" : "");
    cJSON_ArrayForEach(row, results)
    {
        if (!device_is_beside(row)) speed_row(d, row, file);
    }
    fprintf(file, "</tbody></table></div>\n");
}
