/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_twice.c: runs a kernel row on two streams from two threads at the same time: memory that a
 * plugin has only once, such as the workspace of a library's handle, would be written by both. On
 * asynchronous streams it also runs on two streams from one thread that does not wait between the
 * calls. A row with layouts of the plugin runs as two programs of one node. */
#include "case_run.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    CALLS = RUN_FILL, /* of each thread */
    /* A short call may end before the other thread or the other stream has begun, so one round may
     * miss a defect that the next one finds. A second round begins if the first one took less than
     * LONG_MS of processor time, a further one if all of them took less than ROUNDS_MS. */
    ROUNDS = 8,
    LONG_MS = 250,
    ROUNDS_MS = 50
};

struct side {
    struct fixture fixture; /* a copy of the case's, with its own stream and numbers */
    struct result result;
    struct check check;
    struct run run;
    bool ready;
    int calls;
    pthread_barrier_t *start;
    enum bp_status status;
    char message[CONFORM_MESSAGE]; /* of the first call that failed */
    struct bp_tensor *out[CALLS];
};

/* Compiles the program of a row with layouts. If the row declines, all calls do. */
static void side_compile(struct side *s)
{
    s->status = run_node_begin(&s->run);
    if (s->status) snprintf(s->message, sizeof s->message, "%s", bp_error_message());
    s->ready = s->result.outcome == OUTCOME_PASS;
}

static bool side_init(struct side *s, struct check *c, const struct kernel_case *made, int number)
{
    s->fixture = *c->fixture;
    s->fixture.seed += (uint64_t)number;
    s->fixture.stream = NULL;
    s->result = (struct result){.outcome = OUTCOME_PASS, .worst = -1};
    s->check = (struct check){&s->fixture, &s->result, c->id};
    s->ready = check_ok(&s->check, bp_stream_create(c->fixture->device, &s->fixture.stream),
                        "bp_stream_create") &&
               run_init(&s->run, &s->check, made);
    if (s->ready && made->in_program) side_compile(s);
    /* An input that is written over holds other numbers after the first call. */
    s->calls = s->ready && run_port(&s->run)->kind == BP_PORT_UPDATE ? 1 : CALLS;
    return s->ready;
}

static void side_finish(struct side *s)
{
    for (int i = 0; i < CALLS; i++) bp_tensor_destroy(s->out[i]);
    run_node_end(&s->run);
    if (s->run.made) run_finish(&s->run);
    bp_stream_destroy(s->fixture.stream);
}

static void *twice_work(void *arg)
{
    struct side *s = arg;

    pthread_barrier_wait(s->start);
    for (int i = 0; i < s->calls && !s->status; i++) s->status = case_call(&s->run, &s->out[i]);
    if (s->status) snprintf(s->message, sizeof s->message, "%s", bp_error_message());
    return NULL;
}

/* Runs both sides at the same time until they end. */
static bool run_both(struct check *c, struct side *side)
{
    pthread_barrier_t start;
    pthread_t thread;
    bool ok;

    pthread_barrier_init(&start, NULL, 2);
    side[0].start = side[1].start = &start;
    ok = check_that(c, !pthread_create(&thread, NULL, twice_work, &side[1]), "no second thread");
    if (ok) {
        twice_work(&side[0]);
        pthread_join(thread, NULL);
    }
    pthread_barrier_destroy(&start);
    return ok;
}

/* Compares the results of a side with the reference. A result whose bytes equal those of the first
 * one passes as that one did. */
static void twice_judge(struct side *s, const char *which)
{
    const size_t bytes = run_bytes(&s->run.expected);
    char text[CONFORM_MESSAGE];

    snprintf(text, sizeof text, "%.*s", 1000, s->message);
    check_that(&s->check, !s->status, "%s: expected BP_OK, got %s: %s", which,
               bp_status_name(s->status), text);
    snprintf(text, sizeof text, "%s: ", which);
    for (int i = 0; i < s->calls && s->result.outcome == OUTCOME_PASS; i++) {
        void *got = s->run.data[i > 0];
        if (run_take(&s->run, s->out[i], got) && (!i || memcmp(got, s->run.data[0], bytes)))
            run_judge(&s->run, got, text);
    }
}

static bool judge_both(struct check *c, struct side *side, const char *which)
{
    for (int i = 0; i < 2; i++) {
        twice_judge(&side[i], which);
        if (c->result->outcome == OUTCOME_PASS && side[i].result.outcome != OUTCOME_PASS)
            *c->result = side[i].result;
    }
    return c->result->outcome == OUTCOME_PASS;
}

static void prepare_outputs(struct side *s)
{
    for (int i = 0; i < CALLS; i++) bp_tensor_destroy(s->out[i]);
    memset(s->out, 0, sizeof s->out);
    run_fill_memory(&s->run, s->calls);
}

/* Whether streams do their work before a call returns. */
static bool is_inline(const struct side *s)
{
    return bp_stream_get_flags(s->fixture.stream) & BP_STREAM_INLINE;
}

/* Submits calls on both streams from one thread without waiting: a plugin must keep its state for
 * each launch separately. Skipped if an input is written over, because it holds other numbers after
 * the first part of the case. */
static void twice_pile(struct check *c, struct side *side)
{
    if (is_inline(&side[0]) || side[0].calls < CALLS) return;
    for (int i = 0; i < 2; i++) prepare_outputs(&side[i]);
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < 2; i++) {
            struct side *s = &side[i];
            if (s->status) continue;
            s->status = run_give(&s->run, &s->out[call]);
            if (s->status) snprintf(s->message, sizeof s->message, "%s", bp_error_message());
        }
    for (int i = 0; i < 2; i++)
        if (!side[i].status) side[i].status = bp_stream_synchronize(side[i].fixture.stream);
    judge_both(c, side, "one of 12 calls on two streams before anybody waits");
}

/* Processor time of the process. The time of a clock would leave fewer rounds on a busy machine,
 * where each round is more likely to miss a defect. */
static double twice_used_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Makes the calls of both sides at the same time, then without a wait between them, and judges all
 * results. Returns whether the row executed them and all were right. */
static bool twice_round(struct check *c, struct side *side, bool *out_executed)
{
    for (int i = 0; i < 2; i++) prepare_outputs(&side[i]);
    if (!run_both(c, side)) return false;
    if (!side[0].status && !side[1].status) *out_executed = true; /* also if results are wrong */
    if (kernel_is_refused(side[0].status) && kernel_is_refused(side[1].status)) return false;
    if (judge_both(c, side, "beside a call on another stream")) twice_pile(c, side);
    return c->result->outcome == OUTCOME_PASS;
}

/* Runs one case. Returns false if the row declines it. */
static bool run_one(struct check *c, const struct kernel_case *made)
{
    struct side side[2] = {0};
    bool ok = side_init(&side[0], c, made, 0) && side_init(&side[1], c, made, 1);
    bool executed = false, declined;
    double begin = twice_used_ms(), used = 0;

    for (int i = 0; i < 2; i++)
        if (c->result->outcome == OUTCOME_PASS && side[i].result.outcome != OUTCOME_PASS)
            *c->result = side[i].result;
    declined = ok;
    for (int round = 0; ok && round < ROUNDS; round++) {
        if (round && used >= (round == 1 ? LONG_MS : ROUNDS_MS)) break;
        ok = twice_round(c, side, &executed);
        if (side[0].calls < CALLS) break; /* inputs have been written over */
        used = twice_used_ms() - begin;
    }
    declined = declined && !executed && kernel_is_refused(side[0].status) &&
               kernel_is_refused(side[1].status);
    c->result->executed = executed;
    for (int i = 0; i < 2; i++) side_finish(&side[i]);
    return !declined;
}

void run_twice(struct check *c, const struct kernel_case *made)
{
    int n = 0;

    while (n < made->n_twice && !run_one(c, made->of_twice[n])) n++;
    if (n == made->n_twice) /* the row counts as not executed */
        check_skip(c, "the row declines each of its %d cases that may run on two streams", n);
}
