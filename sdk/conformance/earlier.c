/* SPDX-License-Identifier: Apache-2.0 */
/* earlier.c: reads the JSON report of an earlier run, compares a run with it, and divides cases by
 * their times. */
#include "earlier.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

cJSON *earlier_parse(const char *path, char *out_why, size_t size)
{
    enum {
        LARGEST = 1 << 30
    };
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t used = 0, room = 0, got;
    cJSON *json = NULL;

    if (!file) {
        snprintf(out_why, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    do {
        room = room ? 2 * room : 1 << 16;
        text = realloc(text, room);
        if (!text) abort();
        got = fread(text + used, 1, room - used - 1, file);
        used += got;
    } while (used == room - 1 && room < LARGEST);
    text[used] = 0;
    if (ferror(file)) snprintf(out_why, size, "%s: %s", path, strerror(errno));
    else if (!(json = cJSON_ParseWithLengthOpts(text, used + 1, NULL, true)))
        snprintf(out_why, size,
                 "%s: expected a JSON report, got %s; was the file cut off, or is it another kind "
                 "of file?",
                 path, used ? "text that does not end as JSON" : "an empty file");
    else if (!cJSON_IsObject(json)) {
        snprintf(out_why, size, "%s: expected a JSON report, got JSON that is no object", path);
        cJSON_Delete(json);
        json = NULL;
    }
    fclose(file);
    free(text);
    return json;
}

/* A text of an object; NULL if there is none of this key. */
static const char *earlier_text(const cJSON *json, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
}

static int earlier_order(const void *a, const void *b)
{
    return strcmp(((const struct earlier_case *)a)->id, ((const struct earlier_case *)b)->id);
}

/* Takes one case. False: a member of it is missing or of another type. */
static bool earlier_take(struct earlier *e, const cJSON *from)
{
    const char *id = earlier_text(from, "id");
    const char *word = earlier_text(from, "outcome");
    const char *message = earlier_text(from, "message");
    const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(from, "seconds");
    struct earlier_case *c = &e->at[e->n];
    int outcome = 0;

    if (!id || !word || !cJSON_IsNumber(seconds) || !(seconds->valuedouble >= 0)) return false;
    while (outcome < OUTCOME_COUNT && strcmp(word, outcome_name((enum outcome)outcome))) outcome++;
    *c = (struct earlier_case){strdup(id), strdup(message ? message : ""), (enum outcome)outcome,
                               seconds->valuedouble};
    if (!c->id || !c->message) abort();
    e->n++;
    return outcome < OUTCOME_COUNT || !strcmp(word, outcome_name(OUTCOME_COUNT));
}

static bool earlier_refuse(struct earlier *e, char *out_why, size_t size, const char *why)
{
    snprintf(out_why, size, "%s", why);
    earlier_finish(e);
    return false;
}

bool earlier_init(struct earlier *e, const cJSON *json, char *out_why, size_t size)
{
    const char *device = earlier_text(json, "device");
    const char *level = earlier_text(json, "level");
    const cJSON *cases = cJSON_GetObjectItemCaseSensitive(json, "cases"), *one;
    const char *kind = earlier_text(json, "report");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(json, "format");
    const cJSON *seed = cJSON_GetObjectItemCaseSensitive(json, "seed");

    *e = (struct earlier){0};
    if (!device || !level || !cJSON_IsArray(cases) || !cJSON_IsNumber(seed))
        return earlier_refuse(e, out_why, size,
                              "expected a report of `bp conform --json`, with device, level, seed "
                              "and cases");
    /* Reports of versions before the key `format` have this form too. */
    if ((kind && strcmp(kind, "conform")) ||
        (format && (!cJSON_IsNumber(format) || format->valueint != REPORT_FORMAT)))
        return earlier_refuse(e, out_why, size,
                              "expected a conformance report of format 1; another version of bp "
                              "wrote it, or another command");
    e->device = strdup(device);
    e->level = strdup(level);
    e->seed = seed->valuedouble;
    e->at = calloc((size_t)cJSON_GetArraySize(cases) + 1, sizeof *e->at);
    if (!e->device || !e->level || !e->at) abort();
    cJSON_ArrayForEach(one, cases) if (!earlier_take(e, one)) return earlier_refuse(
        e, out_why, size,
        "a case has no id, no seconds, or an outcome that this version does not know");
    qsort(e->at, e->n, sizeof *e->at, earlier_order);
    for (size_t i = 1; i < e->n; i++)
        if (!strcmp(e->at[i - 1].id, e->at[i].id))
            return earlier_refuse(e, out_why, size, "two cases have the same id");
    return true;
}

bool earlier_read(struct earlier *e, const char *path, char *out_why, size_t size)
{
    cJSON *json = earlier_parse(path, out_why, size);
    char why[200];
    bool good;

    *e = (struct earlier){0};
    if (!json) return false;
    good = earlier_init(e, json, why, sizeof why);
    if (!good) snprintf(out_why, size, "%s: %s", path, why);
    cJSON_Delete(json);
    return good;
}

void earlier_finish(struct earlier *e)
{
    for (size_t i = 0; i < e->n; i++) {
        free(e->at[i].id);
        free(e->at[i].message);
    }
    free(e->at);
    free(e->device);
    free(e->level);
    *e = (struct earlier){0};
}

const struct earlier_case *earlier_find(const struct earlier *e, const char *id)
{
    struct earlier_case key = {.id = (char *)(uintptr_t)id};

    return e->n ? bsearch(&key, e->at, e->n, sizeof key, earlier_order) : NULL;
}

bool earlier_failed(const struct earlier_case *c)
{
    return c->outcome != OUTCOME_COUNT &&
           (outcome_is_bad(c->outcome) || c->outcome == OUTCOME_XFAIL);
}

void earlier_apply(const struct earlier *e, struct report *report)
{
    report->compared = true;
    for (size_t i = 0; i < report->n; i++) {
        struct report_case *c = &report->at[i];
        const struct earlier_case *before = c->selected ? earlier_find(e, c->id) : NULL;
        char *message;
        if (!before || !earlier_failed(before)) continue;
        c->repaired = c->outcome == OUTCOME_PASS;
        if (c->outcome == OUTCOME_COUNT || !outcome_is_bad(c->outcome)) continue;
        if (asprintf(&message, "known, in the baseline %s: %s", outcome_name(before->outcome),
                     c->message) < 0)
            abort();
        free(c->message);
        c->message = message;
        c->outcome = OUTCOME_XFAIL;
        c->expected = c->known = true;
    }
}

/* A selected case, for the division into parts. */
struct timed {
    size_t at;
    double seconds;
};

static int timed_order(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The mean time of the cases of each suite that the earlier run had. */
static void suite_means(const struct earlier *e, const struct report *r, double mean[SUITE_COUNT])
{
    size_t count[SUITE_COUNT] = {0}, all = 0;
    double sum = 0;

    memset(mean, 0, SUITE_COUNT * sizeof *mean);
    for (size_t i = 0; i < r->n; i++) {
        const struct earlier_case *c = r->at[i].selected ? earlier_find(e, r->at[i].id) : NULL;
        if (!c) continue;
        mean[r->at[i].suite] += c->seconds;
        count[r->at[i].suite]++;
        sum += c->seconds;
        all++;
    }
    for (int s = 0; s < SUITE_COUNT; s++)
        mean[s] = count[s] ? mean[s] / (double)count[s] : all ? sum / (double)all : 1;
}

size_t earlier_shard(const struct earlier *e, struct report *r, uint32_t shard, uint32_t shards)
{
    struct timed *timed = calloc(r->n + 1, sizeof *timed);
    double mean[SUITE_COUNT], *load;
    size_t n = 0, parts, kept = 0;

    suite_means(e, r, mean);
    for (size_t i = 0; timed && i < r->n; i++) {
        const struct earlier_case *c = r->at[i].selected ? earlier_find(e, r->at[i].id) : NULL;
        if (!r->at[i].selected) continue;
        /* A case takes some time even if its report says 0: parts of such cases become equal. */
        timed[n++] = (struct timed){i, 1e-6 + (c ? c->seconds : mean[r->at[i].suite])};
    }
    parts = shards < n ? shards : n; /* parts behind these are empty */
    load = calloc(parts + 1, sizeof *load);
    if (!timed || !load) abort();
    qsort(timed, n, sizeof *timed, timed_order);
    for (size_t i = 0; i < n; i++) {
        size_t least = 0;
        for (size_t p = 1; p < parts; p++)
            if (load[p] < load[least]) least = p;
        load[least] += timed[i].seconds;
        r->at[timed[i].at].selected = least == shard - 1;
        kept += least == shard - 1;
    }
    free(timed);
    free(load);
    return kept;
}
