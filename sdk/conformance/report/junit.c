/* SPDX-License-Identifier: Apache-2.0 */
/* junit.c: writes the report as JUnit XML, for continuous integration: one test suite for each
 * suite, one test case for each case. */
#include "escape.h"
#include "report.h"

static void print_case(const struct report_case *c, FILE *file)
{
    const char *element = NULL;

    fprintf(file, "    <testcase classname=\"%s\" name=\"", suite_name(c->suite));
    escape(file, c->id);
    fprintf(file, "\" time=\"%.6f\"", c->seconds);
    switch (c->outcome) {
    case OUTCOME_PASS: break;
    case OUTCOME_FAIL:
    case OUTCOME_XPASS: element = "failure"; break;
    case OUTCOME_UNSUPPORTED:
    case OUTCOME_SKIP:
    case OUTCOME_XFAIL: element = "skipped"; break;
    default: element = "error"; break;
    }
    if (!element) {
        fprintf(file, "/>\n");
        return;
    }
    fprintf(file, ">\n      <%s message=\"%s: ", element, outcome_name(c->outcome));
    escape(file, c->message);
    fprintf(file, "\"/>\n    </testcase>\n");
}

static size_t junit_count(const struct report *r, int suite, enum outcome a, enum outcome b,
                          enum outcome c)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        enum outcome o = r->at[i].outcome;
        n += r->at[i].selected && (suite < 0 || (int)r->at[i].suite == suite) &&
             (o == a || o == b || o == c);
    }
    return n;
}

static void print_counts(const struct report *r, int suite, FILE *file)
{
    size_t tests = 0, expired = suite < 0 ? r->n_expired : 0;

    for (size_t i = 0; i < r->n; i++)
        tests += r->at[i].selected && (suite < 0 || (int)r->at[i].suite == suite);
    tests += expired;
    fprintf(file, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\"", tests,
            junit_count(r, suite, OUTCOME_FAIL, OUTCOME_XPASS, OUTCOME_XPASS) + expired,
            junit_count(r, suite, OUTCOME_CRASH, OUTCOME_TIMEOUT, OUTCOME_COUNT),
            junit_count(r, suite, OUTCOME_SKIP, OUTCOME_UNSUPPORTED, OUTCOME_XFAIL));
}

/* A property of each suite, because readers of JUnit know no properties of the whole run. */
static void print_note(const struct report *r, FILE *file)
{
    if (!r->options->note) return;
    fprintf(file, "    <properties>\n      <property name=\"note\" value=\"");
    escape(file, r->options->note);
    fprintf(file, "\"/>\n    </properties>\n");
}

/* Expectations that are out of date, as failures of a suite of their own. */
static void print_expired(const struct report *r, FILE *file)
{
    if (!r->n_expired) return;
    fprintf(file, "  <testsuite name=\"expectations\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
                  "skipped=\"0\">\n", r->n_expired, r->n_expired);
    for (size_t i = 0; i < r->n_expired; i++) {
        fprintf(file, "    <testcase classname=\"expectations\" name=\"");
        escape(file, r->expired[i]);
        fprintf(file, "\">\n      <failure message=\"its date has passed\"/>\n    </testcase>\n");
    }
    fprintf(file, "  </testsuite>\n");
}

void report_junit(const struct report *r, FILE *file)
{
    fprintf(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"bp %s ",
            r->options->command);
    escape(file, r->device);
    fprintf(file, "\"");
    print_counts(r, -1, file);
    fprintf(file, " time=\"%.3f\">\n", r->seconds);
    for (int s = 0; s < SUITE_COUNT; s++) {
        fprintf(file, "  <testsuite name=\"%s\"", suite_name((enum suite)s));
        print_counts(r, s, file);
        fprintf(file, ">\n");
        print_note(r, file);
        for (size_t i = 0; i < r->n; i++)
            if (r->at[i].selected && (int)r->at[i].suite == s) print_case(&r->at[i], file);
        fprintf(file, "  </testsuite>\n");
    }
    print_expired(r, file);
    fprintf(file, "</testsuites>\n");
}
