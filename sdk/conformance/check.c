/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: records the first failure of a case, or the reason why a case has no verdict. */
#include "check.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void check_record(struct check *c, enum outcome outcome, const char *format, va_list args)
{
    if (c->result->outcome == OUTCOME_FAIL)
        return; /* keep the first failure: later ones are often its consequences */
    c->result->outcome = outcome;
    vsnprintf(c->result->message, sizeof c->result->message, format, args);
}

bool check_that(struct check *c, bool ok, const char *format, ...)
{
    va_list args;

    if (ok) return true;
    va_start(args, format);
    check_record(c, OUTCOME_FAIL, format, args);
    va_end(args);
    return false;
}

/* Stores the wrong status of a call, if it belongs to the first failure of the case. */
static bool note_status(struct check *c, bool ok, enum bp_status status)
{
    if (!ok && c->result->outcome != OUTCOME_FAIL) c->result->got = status;
    return ok;
}

bool check_ok(struct check *c, enum bp_status status, const char *call)
{
    return check_that(c, note_status(c, status == BP_OK, status),
                      "%s: expected BP_OK, got %s: %s", call, bp_status_name(status),
                      bp_error_message());
}

bool check_fails(struct check *c, enum bp_status status, enum bp_status expected, const char *call)
{
    return check_that(c, note_status(c, status == expected, status),
                      "%s: expected %s, got %s%s%s", call,
                      bp_status_name(expected), bp_status_name(status), status ? ": " : "",
                      status ? bp_error_message() : "") &&
           check_that(c, *bp_error_message(), "%s: failed with %s and an empty message", call,
                      bp_status_name(status));
}

void check_skip(struct check *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    check_record(c, OUTCOME_SKIP, format, args);
    va_end(args);
}

void check_unsupported(struct check *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    check_record(c, OUTCOME_UNSUPPORTED, format, args);
    va_end(args);
}

static const struct {
    const char *name;
    bool bad;
} outcomes[] = {
#define X(NAME, name, bad) [OUTCOME_##NAME] = {#name, bad},
    CONFORM_OUTCOMES(X)
#undef X
};

const char *outcome_name(enum outcome outcome)
{
    return outcome < OUTCOME_COUNT ? outcomes[outcome].name : "not run";
}

bool outcome_is_bad(enum outcome outcome)
{
    return outcome >= OUTCOME_COUNT || outcomes[outcome].bad;
}
