/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: one case while it runs: the core, device and stream that it uses, and the result that it
 * records. */
#ifndef BP_CONFORM_CHECK_H
#define BP_CONFORM_CHECK_H

#include <backplane/backplane.h>
#include <stdbool.h>

/* X(NAME, name, 1 if this outcome makes the run fail) */
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
    OUTCOME_COUNT, /* also: the case has not run */
};

enum {
    CONFORM_MESSAGE = 1200,
    CONFORM_STEPS = 800,
    CONFORM_MISSING = 1200
};

/* The result of one case. */
struct result {
    enum outcome outcome;
    double seconds;
    /* Largest error divided by the allowed error. Negative: not measured. */
    double worst;
    bool executed; /* the kernel row of the case was launched */
    /* The case failed because no kernel row supports its configuration. */
    bool refused;
    /* Names of the kernel rows that ran as steps of the operator's decomposition, each once, with a
     * blank before each name and one behind the last. "": none ran. */
    char steps[CONFORM_STEPS];
    /* The status returned by the call because of which the case failed. BP_OK: a check failed that
     * was no call. */
    enum bp_status got;
    /* Names of the features that a model needs and that are missing, separated by '\n'. "":
     * none. */
    char missing[CONFORM_MISSING];
    char message[CONFORM_MESSAGE];
};

/* The fixture in which cases run. */
struct fixture {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream; /* for kernel cases */
    uint32_t plugin;          /* number of the device's plugin in the core, if the user gave a
                                 path */
    const char *name;         /* of the device, as the user gave it */
    const char *library;      /* path of the device's plugin */
    const char *manifest;     /* path of the plugin's manifest, or "" */
    struct bp_device_properties properties;
    uint64_t seed;
    const char *dump; /* directory, or NULL */
    /* Results cached for cases without a kernel row (parts.h). NULL until a case first needs
     * them. */
    struct parts *parts;
    /* Why the device could not be opened again after a failed case. NULL: the device is open. */
    char *gone;
    /* The core has finished its search for plugins, so later errors concern this device. */
    bool searched;
};

struct check {
    struct fixture *fixture;
    struct result *result;
    const char *id;
};

/* Records the first failure of the case. Each returns whether the check passed:
 * if (!check_ok(c, bp_event_create(device, &event), "bp_event_create")) return; */
bool check_that(struct check *c, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool check_ok(struct check *c, enum bp_status status, const char *call);

/* Checks that call failed with the status `expected` and set an error message. */
bool check_fails(struct check *c, enum bp_status status, enum bp_status expected, const char *call);

/* Ends the case without a verdict. check_skip: for a reason outside the plugin. check_unsupported:
 * because of a property of the device. */
void check_skip(struct check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_unsupported(struct check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A case of the suites plugin, runtime and memory. */
typedef void check_fn(struct check *c, const int64_t *arg);
struct check_case {
    /* Without the name of the suite. The list of cases appends a number or a dtype to some
     * names. */
    const char *id;
    check_fn *run;
};

const char *outcome_name(enum outcome outcome);
bool outcome_is_bad(enum outcome outcome);

#endif
