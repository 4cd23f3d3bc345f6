/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_pair.c: tests two devices at the same time: another device of the same plugin or, if it
 * has none, cpu:0. Tensors are copied between them, streams of one wait for the other, both work at
 * the same time, and a call that mixes their tensors is rejected with a message that names both. */
#include "suites.h"
#include "async_fixture.h"
#include <stdlib.h>
#include <string.h>

enum {
    N = 5000,
    ROUNDS = 1600 /* so that all sums are integers of at most 24 bits, exact in f32 */
};

/* Work on each device. Stream 0 of the device under test has the kind that the case states, the
 * other device's stream 0 the default kind. */
struct pair {
    struct work here, there;
    struct fixture fixture;
    struct check check;
    bool two;
    struct bp_tensor *x[2], *y[2]; /* of the device under test, of the other device */
};

static bool open_beside(struct check *c, uint32_t plugin, struct bp_device **out)
{
    const char *colon = strchr(bp_device_name(c->fixture->device), ':');
    uint32_t mine = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;

    return !bp_device_create_at(c->fixture->core, plugin, mine + 1, out) ||
           (mine && !bp_device_create_at(c->fixture->core, plugin, mine - 1, out));
}

/* Opens a neighbouring device of the plugin, or cpu:0 unless that is the device under test. */
static bool open_other(struct check *c, struct bp_device **out)
{
    struct bp_core *core = c->fixture->core;
    struct bp_plugin_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_core_plugins(core); i++)
        if (!bp_core_plugin(core, i, &info) && info.state == BP_PLUGIN_READY &&
            !strcmp(info.library, c->fixture->library) && open_beside(c, i, out))
            return true;
    if (bp_device_create(core, "cpu:0", out)) {
        check_skip(c, "there is no second device: %s", bp_error_message());
        return false;
    }
    if (*out != c->fixture->device) return true;
    check_skip(c, "there is no second device");
    return false;
}

static bool pair_numbers(struct work *w, struct bp_tensor **x, struct bp_tensor **y)
{
    return work_floats(w, WORK_HOST, N, x) && work_floats(w, WORK_HOST, N, y) &&
           work_put(w, 0, *x, 1, 0) && work_put(w, 0, *y, 2, 1) && work_sync(w, 0);
}

static bool pair_begin(struct pair *p, struct check *c, const int64_t *arg)
{
    *p = (struct pair){.fixture = *c->fixture, .check = {&p->fixture, c->result, c->id}};
    work_init(&p->here, c);
    p->fixture.device = NULL;
    if (!work_adds(c) || !open_other(c, &p->fixture.device)) return false;
    work_init(&p->there, &p->check);
    p->two = true;
    return check_ok(c, bp_device_get_properties(p->fixture.device, &p->fixture.properties),
                    "bp_device_get_properties of the other device") &&
           work_stream(&p->here, 0, arg[0]) && work_stream(&p->there, 0, 0) &&
           pair_numbers(&p->here, &p->x[0], &p->y[0]) &&
           pair_numbers(&p->there, &p->x[1], &p->y[1]);
}

static void pair_finish(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(p->x[i]);
        bp_tensor_destroy(p->y[i]);
    }
    if (p->two) work_finish(&p->there);
    work_finish(&p->here);
    bp_device_destroy(p->fixture.device);
}

static bool pair_copy(struct work *to, struct bp_tensor *dst, struct bp_tensor *src,
                      const char *what)
{
    return check_ok(to->c, bp_tensor_copy(to->stream[0], dst, src), what);
}

/* Copies to the other device and back, each time behind work of the source device that the host
 * does not wait for. The work on the device under test takes a long time. */
static void pair_moves(struct check *c, const int64_t *arg)
{
    struct bp_tensor *sum = NULL, *more = NULL;
    struct work_load load = {0};
    struct pair p;

    if (pair_begin(&p, c, arg) && work_load_init(&p.here, 0, &load) &&
        work_load_give(&p.here, 0, &load) && work_launch(&p.here, 0, p.x[0], p.y[0], &sum) &&
        pair_copy(&p.there, p.x[1], sum, "bp_tensor_copy to the other device") &&
        work_launch(&p.there, 0, p.x[1], p.y[1], &more) &&
        pair_copy(&p.here, p.x[0], more, "bp_tensor_copy from the other device") &&
        work_has(&p.there, 0, p.x[1], 3, 1, "what was copied to the other device"))
        work_has(&p.here, 0, p.x[0], 5, 2, "what was copied back");
    bp_tensor_destroy(sum);
    bp_tensor_destroy(more);
    work_load_finish(&load);
    pair_finish(&p);
}

static bool wait_for(struct work *w, struct work *of)
{
    return work_record(of, 0, 0) && check_ok(w->c, bp_stream_wait(w->stream[0], of->event[0]),
                                             "bp_stream_wait for an event of another device");
}

/* The devices wait for each other alternately, and each adds to a sum that is copied between
 * them. */
static void pair_waits(struct check *c, const int64_t *arg)
{
    enum {
        TURNS = 10
    };
    struct pair p;
    bool ok = pair_begin(&p, c, arg);

    for (int i = 0; ok && i < TURNS; i++) {
        struct work *from = i & 1 ? &p.there : &p.here, *to = i & 1 ? &p.here : &p.there;
        struct bp_tensor *sum = NULL;
        int f = i & 1;
        ok = work_launch(from, 0, p.x[f], p.y[f], &sum) && wait_for(to, from) &&
             pair_copy(to, p.x[!f], sum, "bp_tensor_copy between devices");
        bp_tensor_destroy(sum);
    }
    if (ok) work_has(&p.here, 0, p.x[0], 1 + 2 * TURNS, TURNS, "a sum that both added to");
    pair_finish(&p);
}

/* *out: whether launches on the device under test are still running after later work on the other
 * device was waited for. */
static bool pair_overtakes(struct pair *p, struct work_load *load, bool *out)
{
    struct work *here = &p->here, *there = &p->there;
    bool ok = work_sync(here, 0) && work_load_give(here, 0, load) &&
              work_put(there, 0, p->x[1], 4, 4) && work_sync(there, 0) &&
              check_ok(here->c, bp_device_synchronize(there->device), "bp_device_synchronize") &&
              work_has(there, 0, p->x[1], 4, 4, "work of the other device");

    *out = ok && bp_event_query(here->event[0]) == BP_ERR_NOT_READY;
    return ok;
}

/* Work on one device does not delay work on the other. */
static void at_once(struct check *c, const int64_t *arg)
{
    struct work_load load = {0};
    bool ok, seen = false;
    struct pair p;

    if (!work_is_observed(c, arg[0])) return;
    ok = pair_begin(&p, c, arg) && work_load_init(&p.here, 0, &load);
    for (int i = 0; ok && i < WORK_TRIES && !seen; i++) ok = pair_overtakes(&p, &load, &seen);
    if (ok && check_that(c, seen,
                         "work of the other device was done only when all of %d launches "
                         "on this one had ended, %d times",
                         WORK_LAUNCHES, WORK_TRIES))
        work_has(&p.here, 0, load.z, 0, 2, "the sum of ones");
    work_load_finish(&load);
    pair_finish(&p);
}

static void pair_mixed(struct check *c, const int64_t *arg)
{
    struct bp_tensor *sum = NULL;
    struct pair p;

    if (pair_begin(&p, c, arg)) {
        struct bp_tensor *x = p.x[0], *y = p.y[1];
        struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
        struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
        if (check_fails(c, bp_call_run(bp_stream_scope(p.here.stream[0]), &call, &sum, 1, NULL),
                        BP_ERR_INVALID, "add of tensors of two devices"))
            check_that(c,
                       !sum && strstr(bp_error_message(), bp_device_name(p.here.device)) &&
                           strstr(bp_error_message(), bp_device_name(p.fixture.device)),
                       "the message does not name both devices: %s", bp_error_message());
    }
    bp_tensor_destroy(sum);
    pair_finish(&p);
}

/* One thread for each device runs sums and copies on it; the threads begin each round at the same
 * time. */
struct side {
    struct work *w;
    pthread_barrier_t *start;
    struct bp_tensor *x, *y;
    struct check check;
    struct result result;
};

static void *pair_sums(void *arg)
{
    struct side *s = arg;
    struct bp_tensor *z = NULL;
    bool ok = true;

    for (int i = 0; i < ROUNDS; i++) { /* all rounds, because the other thread waits at the
                                          barrier */
        bp_tensor_destroy(z);
        z = NULL;
        pthread_barrier_wait(s->start);
        ok = ok && work_launch(s->w, 0, s->x, s->y, &z) &&
             pair_copy(s->w, s->x, z, "bp_tensor_copy");
    }
    if (ok) work_has(s->w, 0, s->x, 1 + 2 * ROUNDS, ROUNDS, "a thread's sum");
    bp_tensor_destroy(z);
    return NULL;
}

static void pair_threads(struct check *c, const int64_t *arg)
{
    pthread_barrier_t start;
    struct side side[2];
    struct pair p;
    pthread_t thread;

    pthread_barrier_init(&start, NULL, 2);
    if (pair_begin(&p, c, arg)) {
        struct work *w[2] = {&p.here, &p.there};
        for (int i = 0; i < 2; i++) {
            side[i] = (struct side){.w = w[i], .start = &start, .x = p.x[i], .y = p.y[i]};
            side[i].check = (struct check){w[i]->c->fixture, &side[i].result, c->id};
            w[i]->c = &side[i].check;
        }
        if (check_that(c, !pthread_create(&thread, NULL, pair_sums, &side[1]),
                       "a thread could not be started")) {
            pair_sums(&side[0]);
            pthread_join(thread, NULL);
        }
        for (int i = 0; i < 2; i++)
            check_that(c, side[i].result.outcome == OUTCOME_PASS, "%s: %s",
                       bp_device_name(w[i]->device), side[i].result.message);
        p.here.c = c;
        p.there.c = &p.check;
    }
    pthread_barrier_destroy(&start);
    pair_finish(&p);
}

const struct check_kinds suite_runtime_pair[] = {
    {"pair/moves", pair_moves, 1}, {"pair/waits", pair_waits, 1},     {"pair/at-once", at_once, 1},
    {"pair/mixed", pair_mixed, 1}, {"pair/threads", pair_threads, 1}, {NULL, NULL, 0},
};
