/* SPDX-License-Identifier: Apache-2.0 */
/* expect.c: reads the vendor's file of expectations and applies it to the results of cases. */
#include "expect.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum outcome expected_outcome(const char *word)
{
    static const enum outcome allowed[] = {OUTCOME_XFAIL, OUTCOME_UNSUPPORTED, OUTCOME_SKIP};

    for (int i = 0; i < 3; i++)
        if (!strcmp(word, outcome_name(allowed[i]))) return allowed[i];
    return OUTCOME_COUNT;
}

/* The file may be any file: replaces bytes that a terminal would take for more than letters. */
static void make_printable(char *text)
{
    for (; text && *text; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~') *text = '?';
}

/* Reads "until=2026-12-31" and the blanks behind it. False: there is no such day. */
static bool read_until(char **rest, char until[12])
{
    const char *text = *rest + 6;
    size_t n = strcspn(text, " \t\r\n");
    struct tm day = {0}, same;
    int used = 0;

    if (n != 10 ||
        sscanf(text, "%4d-%2d-%2d%n", &day.tm_year, &day.tm_mon, &day.tm_mday, &used) != 3 ||
        used != 10 || strspn(text, "0123456789-") < 10 || day.tm_year < 1970)
        return false;
    day.tm_year -= 1900;
    day.tm_mon--;
    same = day;
    if (timegm(&same) < 0 || same.tm_mon != day.tm_mon || same.tm_mday != day.tm_mday) return false;
    memcpy(until, text, n);
    until[n] = 0;
    *rest += 6 + n;
    *rest += strspn(*rest, " \t");
    return true;
}

/* Reads one line. Returns false and writes a message if the line is wrong. */
static bool read_line(struct expectations *e, char *line, const char *path, int number)
{
    char *rest = NULL, *pattern = strtok_r(line, " \t\r\n", &rest);
    char *word = pattern ? strtok_r(NULL, " \t\r\n", &rest) : NULL;
    struct expectation *made;
    enum outcome outcome;
    char until[12] = "";

    if (!pattern || *pattern == '#') return true;
    outcome = expected_outcome(word ? word : "");
    if (outcome == OUTCOME_COUNT) {
        make_printable(word);
        fprintf(
            stderr,
            "%s:%d: expected PATTERN xfail|unsupported|skip REASON, got '%s' after the pattern\n",
            path, number, word ? word : "");
        return false;
    }
    rest += strspn(rest, " \t");
    if (!strncmp(rest, "until=", 6) && !read_until(&rest, until)) {
        rest[strcspn(rest, " \t\r\n")] = 0;
        make_printable(rest);
        fprintf(stderr, "%s:%d: expected until=YYYY-MM-DD with a day that exists, got '%.40s'\n",
                path, number, rest);
        return false;
    }
    rest[strcspn(rest, "\r\n")] = 0;
    if (!*rest) {
        fprintf(stderr, "%s:%d: %s %s has no reason: write why, and where it is worked on\n", path,
                number, pattern, word);
        return false;
    }
    e->at = realloc(e->at, (e->n + 1) * sizeof *e->at);
    if (!e->at) abort();
    made = &e->at[e->n++];
    *made = (struct expectation){strdup(pattern), strdup(rest), outcome, number, "",
                                 false,           false,        false};
    memcpy(made->until, until, sizeof until);
    return true;
}

bool expectations_init(struct expectations *e, const char *path, const char *command)
{
    enum {
        WRONG_LINES = 10
    }; /* further lines are not read */
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    int wrong = 0;
    bool ok;

    *e = (struct expectations){0};
    if (!file) {
        fprintf(stderr, "bp %s: --expect %s: %s\n", command, path, strerror(errno));
        return false;
    }
    for (int number = 1; wrong < WRONG_LINES && getline(&line, &size, file) >= 0; number++)
        wrong += !read_line(e, line, path, number);
    ok = !wrong;
    if (wrong == WRONG_LINES)
        fprintf(stderr, "bp %s: %s: it has %d wrong lines or more: is it a file of expectations?\n",
                command, path, wrong);
    if (ferror(file)) {
        fprintf(stderr, "bp %s: --expect %s: %s\n", command, path, strerror(errno));
        ok = false;
    }
    free(line);
    fclose(file);
    return ok;
}

void expectations_finish(struct expectations *e)
{
    for (size_t i = 0; i < e->n; i++) {
        free(e->at[i].pattern);
        free(e->at[i].reason);
    }
    free(e->at);
    *e = (struct expectations){0};
}

bool expectations_check(struct expectations *e, const struct report *report, const char *path)
{
    bool ok = true;

    for (size_t i = 0; i < e->n; i++) {
        for (size_t c = 0; c < report->n && !e->at[i].used; c++)
            e->at[i].used = !fnmatch(e->at[i].pattern, report->at[c].id, FNM_NOESCAPE);
        if (e->at[i].used) continue;
        fprintf(stderr, "%s:%d: %s fits no case; `--list` prints all\n", path, e->at[i].line,
                e->at[i].pattern);
        ok = false;
    }
    return ok;
}

struct expectation *expectation_of(const struct expectations *e, const char *id)
{
    for (size_t i = 0; i < e->n; i++)
        if (!fnmatch(e->at[i].pattern, id, FNM_NOESCAPE)) return &e->at[i];
    return NULL;
}

void expectations_judge(struct expectations *e, struct report *report, const char *path)
{
    char today[12];
    time_t now = time(NULL);
    struct tm day;

    strftime(today, sizeof today, "%Y-%m-%d", gmtime_r(&now, &day));
    for (size_t i = 0; i < e->n; i++) {
        struct expectation *one = &e->at[i];
        for (size_t c = 0; c < report->n && !one->met; c++)
            one->met = report->at[c].selected && !report->at[c].fixed &&
                       !fnmatch(one->pattern, report->at[c].id, FNM_NOESCAPE);
        if (one->met && !one->applied)
            fprintf(stderr, "%s:%d: %s %s is not used: no case of this run needs it; remove it\n",
                    path, one->line, one->pattern, outcome_name(one->outcome));
        if (!*one->until || strcmp(today, one->until) <= 0) continue;
        report->expired = realloc(report->expired,
                                  (report->n_expired + 1) * sizeof *report->expired);
        if (!report->expired ||
            asprintf(&report->expired[report->n_expired++],
                     "%s:%d: %s %s was to hold until %s: repair the cause and remove the entry, or "
                     "set a new date: %s",
                     path, one->line, one->pattern, outcome_name(one->outcome), one->until,
                     one->reason) < 0)
            abort();
    }
}

static void expect_set(struct report_case *c, enum outcome outcome, const char *before,
                       const char *reason)
{
    char *message = NULL;

    if (asprintf(&message, "%s%s%s%s", before, reason, *c->message ? "; " : "", c->message) < 0)
        abort();
    free(c->message);
    c->message = message;
    c->outcome = outcome;
    c->expected = true;
}

void expectation_apply(struct expectation *e, struct report_case *c)
{
    bool bad = outcome_is_bad(c->outcome);

    if (c->outcome == OUTCOME_COUNT) return;
    if (e->outcome == OUTCOME_XFAIL && bad)
        expect_set(c, OUTCOME_XFAIL, "as expected: ", e->reason);
    else if (e->outcome == OUTCOME_UNSUPPORTED && c->refused)
        expect_set(c, OUTCOME_UNSUPPORTED, "", e->reason);
    else if (c->outcome == OUTCOME_PASS)
        expect_set(c, OUTCOME_XPASS,
                   "it passes, but was expected not to; remove the expectation: ", e->reason);
    e->applied |= c->expected;
}
