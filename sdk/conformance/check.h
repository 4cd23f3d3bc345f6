/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: one case while it runs: where it runs, what it found. */
#ifndef BP_CONFORM_CHECK_H
#define BP_CONFORM_CHECK_H

#include <backplane/backplane.h>
#include <stdbool.h>

/* X(NAME, name, what it does to the run: 1 makes it fail) */
#define CONFORM_OUTCOMES(X) \
    X(PASS, pass, 0) \
    X(FAIL, fail, 1) \
    X(CRASH, crash, 1) \
    X(TIMEOUT, timeout, 1) \
    X(UNSUPPORTED, unsupported, 0) \
    X(SKIP, skip, 0) \
    X(XFAIL, xfail, 0) \
    X(XPASS, xpass, 1)

enum outcome {
#define X(NAME, name, bad) OUTCOME_##NAME,
    CONFORM_OUTCOMES(X)
#undef X
    OUTCOME_COUNT, /* also: has not run */
};

enum {
    CONFORM_MESSAGE = 1200,
    CONFORM_STEPS = 800,
    CONFORM_MISSING = 1200
};

/* What became of a case. */
struct result {
    enum outcome outcome;
    double seconds;
    double worst;  /* largest error, as a part of what is allowed; below 0: not measured */
    bool executed; /* the row of a kernel case was launched */
    bool refused;  /* the case failed because no row takes its configuration */
    char steps[CONFORM_STEPS]; /* rows that ran as what its operator is defined in, each once, one
                                  blank before each name and one behind all; "": none did */
    enum bp_status got; /* what a call answered by which the case failed; BP_OK: it was no call */
    char missing[CONFORM_MISSING]; /* names of what a model lacks, '\n' between them; "": nothing */
    char message[CONFORM_MESSAGE];
};

/* Where cases run. */
struct place {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream; /* for kernel cases */
    uint32_t plugin;          /* the device's, number in the core, if it was given by its path */
    const char *name;         /* of the device, as the user gave it */
    const char *library;      /* of its plugin */
    const char *manifest;     /* of its plugin, or "" */
    struct bp_device_properties properties;
    uint64_t seed;
    const char *dump; /* directory, or NULL */
    struct parts *parts; /* what cases without a row need (parts.h), as far as asked; or NULL */
    char *gone;       /* why there is no device any more, after a case that failed; or NULL */
    bool searched;    /* the core has looked for plugins: from here on errors are of this device */
};

struct check {
    struct place *place;
    struct result *result;
    const char *id;
};

/* Records the first thing found wrong. Each returns whether all was well:
 * if (!check_ok(c, bp_event_create(device, &event), "bp_event_create")) return; */
bool check_that(struct check *c, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool check_ok(struct check *c, enum bp_status status, const char *call);

/* call was to fail with expected, and with a message of its own. */
bool check_fails(struct check *c, enum bp_status status, enum bp_status expected, const char *call);

/* The case says nothing here, for a reason that lies outside the plugin, or in a property of the
 * device. */
void check_skip(struct check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_unsupported(struct check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A case of the suites plugin, runtime and memory. */
typedef void check_fn(struct check *c, const int64_t *arg);
struct check_case {
    const char *id; /* without the suite; a name with a number or dtype appended is made by lists */
    check_fn *run;
};

const char *outcome_name(enum outcome outcome);
bool outcome_is_bad(enum outcome outcome);

#endif
