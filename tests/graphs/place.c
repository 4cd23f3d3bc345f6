/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: opens the device on which graphs run, and checks graphs in processes of their own. */
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LIMIT = 30
}; /* seconds for a process */

static _Noreturn void place_fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(2);
}

/* Stream 2 is asynchronous; there is none where the others are. */
static enum bp_status place_stream(const struct fuzz_place *place, int at, struct bp_stream **out)
{
    return at == 2 ? bp_stream_create_with(place->device, BP_STREAM_ASYNC, out)
                   : bp_stream_create(place->device, out);
}

static void place_streams(struct fuzz_place *place)
{
    for (int i = 0; i < 3; i++) {
        if (i == 2 && bp_stream_get_flags(place->stream[0]) != BP_STREAM_INLINE) return;
        if (place_stream(place, i, &place->stream[i])) place_fail("stream");
    }
}

bool fuzz_open(struct fuzz_place *place)
{
    enum bp_status status;

    if (bp_core_create(NULL, &place->core)) place_fail("core");
    if (place->apart) return true; /* each process opens its own */
    status = bp_device_create(place->core, place->name, &place->device);
    if (status == BP_ERR_ABSENT || status == BP_ERR_NOT_FOUND) return false;
    if (status) place_fail(place->name);
    if (bp_generator_create(0, &place->generator)) place_fail("generator");
    place_streams(place);
    return true;
}

bool fuzz_repair(struct fuzz_place *place, int at)
{
    struct bp_stream *stream;

    if (bp_stream_check_calls(place->stream[at]) == BP_OK) return true;
    if (place_stream(place, at, &stream)) return false;
    bp_stream_destroy(place->stream[at]);
    place->stream[at] = stream;
    return bp_stream_check_calls(stream) == BP_OK;
}

void fuzz_close(struct fuzz_place *place)
{
    for (int i = 0; i < 3; i++) bp_stream_destroy(place->stream[i]);
    bp_generator_destroy(place->generator);
    bp_device_destroy(place->device);
    bp_core_destroy(place->core);
}

/* The process: opens the device anew, because handles do not survive a fork. */
static _Noreturn void place_child(const struct fuzz_place *place, const struct fuzz_recipe *recipe,
                                  int to)
{
    struct fuzz_place own = {
        .name = place->name, .bitwise = place->bitwise, .threads = place->threads};
    struct fuzz_report *report = calloc(1, sizeof *report);

    alarm(LIMIT);
    if (!report || !fuzz_open(&own)) _exit(2);
    fuzz_check(&own, recipe, report);
    _exit(write(to, report, sizeof *report) != (ssize_t)sizeof *report);
}

static void place_check_apart(const struct fuzz_place *place, const struct fuzz_recipe *recipe,
                              struct fuzz_report *report)
{
    size_t got = 0;
    ssize_t n = 1;
    int pipes[2], status;
    pid_t child;

    fflush(stdout);
    if (pipe(pipes) || (child = fork()) < 0) abort();
    if (!child) place_child(place, recipe, pipes[1]);
    close(pipes[1]);
    while (got < sizeof *report && n > 0) {
        n = read(pipes[0], (char *)report + got, sizeof *report - got);
        if (n > 0) got += (size_t)n;
    }
    close(pipes[0]);
    waitpid(child, &status, 0);
    if (got == sizeof *report) return;
    memset(report, 0, sizeof *report);
    report->fault = FUZZ_CRASH;
    if (WIFSIGNALED(status))
        snprintf(report->message, sizeof report->message, "the process died of signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(report->message, sizeof report->message, "the process ended with status %d",
                 status);
}

void fuzz_check_somewhere(struct fuzz_place *place, const struct fuzz_recipe *recipe,
                          struct fuzz_report *report)
{
    if (place->apart) place_check_apart(place, recipe, report);
    else fuzz_check(place, recipe, report);
}
