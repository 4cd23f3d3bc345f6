/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h: a host that keeps the last message, and a harness that prints TAP, for tests of
 * sdk/kit. */
#ifndef BP_TEST_KIT_FIXTURE_H
#define BP_TEST_KIT_FIXTURE_H

#include <backplane/plugin.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last message of bp_fail or bp_log, and the level of the latter. */
static char kit_text[1100];
static uint32_t kit_level;
static bool kit_failed;

static inline void fixture_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    kit_level = level;
    snprintf(kit_text, sizeof kit_text, "%s", text);
}

static inline enum bp_status fixture_fail(void *ctx, uint32_t status, const char *text)
{
    (void)ctx;
    snprintf(kit_text, sizeof kit_text, "%s", text);
    return (enum bp_status)status;
}

static const struct bp_host kit_host = {.size = sizeof kit_host, .log = fixture_log,
                                        .fail = fixture_fail};

/* Reports a condition that does not hold. */
#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            printf("# %s:%d: ", __FILE__, __LINE__); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            kit_failed = true; \
        } \
    } while (0)

/* Checks the last message, and forgets it. */
static inline void kit_expect(const char *text)
{
    CHECK(!strcmp(kit_text, text), "the message is '%s', expected '%s'", kit_text, text);
    kit_text[0] = '\0';
}

struct kit_test {
    const char *name;
    void (*run)(void);
};

/* Runs the tests. Returns the exit status of the program. */
static inline int kit_run(const struct kit_test *test, int n)
{
    bool any = false;

    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        kit_failed = false;
        test[i].run();
        any |= kit_failed;
        printf("%s %d - %s\n", kit_failed ? "not ok" : "ok", i + 1, test[i].name);
    }
    return any;
}

#endif
