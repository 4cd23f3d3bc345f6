/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.c: runs cases of the suite ccl: starts their ranks as threads or child processes, and
 * combines the results of the ranks into the result of the case. */
#include "ccl.h"
#include "../conform.h"
#include "child.h"
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 8, VICTIM = 1 };

static ccl_program_fn *const programs[] = {
#define X(NAME, function) [CCL_PROGRAM_##NAME] = function,
    CCL_PROGRAMS(X)
#undef X
};

void ccl_pack(const struct ccl_case *k, int64_t *arg)
{
    arg[0] = (int64_t)(k->program | (uint64_t)k->call << 8 | (uint64_t)k->dtype << 16 |
                       (uint64_t)k->reduction << 24 | (uint64_t)k->ranks << 32 |
                       (uint64_t)k->root << 40 | (uint64_t)k->flags << 48);
    arg[1] = k->n;
}

struct ccl_case ccl_unpack(const int64_t *arg)
{
    uint64_t x = (uint64_t)arg[0];

    return (struct ccl_case){x & 255,       x >> 8 & 255,  x >> 16 & 255, x >> 24 & 255,
                             x >> 32 & 255, x >> 40 & 255, x >> 48 & 255, arg[1]};
}

bool ccl_join(struct ccl_rank *r, int which, uint32_t rank, uint32_t size)
{
    enum bp_status status = r->k.flags & CCL_ASYNC
                                ? bp_stream_create_with(r->device, BP_STREAM_ASYNC, &r->stream)
                                : bp_stream_create(r->device, &r->stream);

    r->rank = rank;
    r->size = size;
    return check_ok(&r->check, status, "bp_stream_create") &&
           check_ok(&r->check, bp_comm_create(r->device, &r->id[which], rank, size, &r->comm),
                    "bp_comm_create");
}

void ccl_part(struct ccl_rank *r)
{
    if (r->comm && r->result.outcome == OUTCOME_FAIL) bp_comm_abort(r->comm);
    bp_comm_destroy(r->comm);
    bp_stream_destroy(r->stream);
    r->comm = NULL;
    r->stream = NULL;
}

enum bp_status ccl_done(struct ccl_rank *r, enum bp_status status)
{
    return status ? status : bp_stream_synchronize(r->stream);
}

/* A rank while it runs. */
struct running {
    struct ccl_rank r;
    struct check *c;
    const int64_t *arg;
    pthread_t thread;
    bool begun, child, reported;
};

static void ccl_take_line(void *ctx, const char *line)
{
    struct running *t = ctx;
    int at = 0, outcome;

    if (sscanf(line, "%d %" SCNx64 " %n", &outcome, &t->r.hash, &at) < 2 || !at) return;
    t->r.result.outcome = (enum outcome)outcome;
    snprintf(t->r.result.message, sizeof t->r.result.message, "%s", line + at);
    t->reported = true;
}

/* The rank that a case kills must end by SIGKILL; all other processes must have reported a result
 * and exit with 0. */
static void judge_child(struct running *t, const struct bp_child_result *result)
{
    bool dies = t->r.k.program == CCL_PROGRAM_DEATH && t->r.rank == VICTIM;
    char how[200];

    bp_child_describe(result, how, sizeof how);
    if (dies && result->end == BP_CHILD_SIGNALLED && result->code == SIGKILL) return;
    if (dies) check_that(&t->r.check, false, "the rank that was to be killed ended with %s", how);
    else
        check_that(&t->r.check, t->reported && result->end == BP_CHILD_EXITED && !result->code,
                   "the process of rank %u: %s: %.600s", t->r.rank, how, result->output);
}

static void run_child(struct running *t)
{
    const struct fixture *fixture = t->c->fixture;
    char seed[24], arg[2][24], rank[16], ids[2 * sizeof t->r.id[0].text + 2];
    const char *argv[] = {"/proc/self/exe", "conform", CONFORM_CHILD, "", "rank", fixture->name,
                          fixture->library, fixture->manifest, seed, arg[0], arg[1], rank, t->c->id,
                          ids, NULL};
    /* A short timeout is needed only in the case in which a rank never comes. */
    static const char *const hurry[] = {"BP_CCL_TIMEOUT=0.7", NULL};
    struct bp_child child = {.argv = argv, .timeout_ns = UINT64_C(50000000000),
                             .env = t->r.k.program == CCL_PROGRAM_ABSENT ? hurry : NULL,
                             .report = ccl_take_line, .ctx = t};
    struct bp_child_result result;

    snprintf(seed, sizeof seed, "%" PRIu64, fixture->seed);
    for (int i = 0; i < 2; i++) snprintf(arg[i], sizeof arg[i], "%" PRId64, t->arg[i]);
    snprintf(rank, sizeof rank, "%u", t->r.rank);
    snprintf(ids, sizeof ids, "%s %s", t->r.id[0].text, t->r.id[1].text);
    bp_child_run(&child, &result);
    judge_child(t, &result);
    bp_child_finish(&result);
}

static void *run_rank(void *arg)
{
    struct running *t = arg;

    if (t->child) {
        run_child(t);
        return NULL;
    }
    programs[t->r.k.program](&t->r);
    ccl_part(&t->r);
    return NULL;
}

/* Whether the device supports the dtype, and, for mixed ranks, whether another device cpu:0
 * exists. */
static bool ccl_prepare(struct check *c, const struct ccl_case *k, struct bp_device **out_other)
{
    *out_other = NULL;
    if (!(c->fixture->properties.dtypes >> k->dtype & 1)) {
        check_unsupported(c, "the device has no %s", bp_dtype_name(k->dtype));
        return false;
    }
    if (!(k->flags & CCL_MIXED)) return true;
    if (bp_device_create(c->fixture->core, "cpu:0", out_other)) {
        check_skip(c, "there is no cpu:0 to be the other ranks': %s", bp_error_message());
        return false;
    }
    if (*out_other != c->fixture->device) return true;
    check_skip(c, "this is cpu:0 itself");
    bp_device_destroy(*out_other);
    return false;
}

/* Whether a rank's failure is only the consequence of another rank's failure: that rank is lost or
 * does not come. The cause explains more, so take_results prefers it. */
static bool is_echo(const struct result *result)
{
    return result->got == BP_ERR_PEER || result->got == BP_ERR_TIMEOUT;
}

static void take_results(struct check *c, const struct running *t, uint32_t n)
{
    const struct running *cause = NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (t[i].r.result.worst > c->result->worst) c->result->worst = t[i].r.result.worst;
        if (t[i].r.result.outcome != OUTCOME_FAIL) continue;
        if (!cause || is_echo(&cause->r.result)) cause = &t[i];
    }
    if (cause) check_that(c, false, "%s", cause->r.result.message);
    for (uint32_t i = 1; i < n && !cause; i++)
        if (t[i].begun)
            check_that(c, t[i].r.hash == t[0].r.hash,
                       "rank %u has other bits than rank 0 where all have the same", i);
}

void ccl_case_run(struct check *c, const int64_t *arg)
{
    struct ccl_case k = ccl_unpack(arg);
    struct running t[RANKS] = {0};
    struct bp_device *other;
    struct bp_comm_id id[2];

    if (!ccl_prepare(c, &k, &other)) return;
    for (int i = 0; i < 2; i++)
        if (!check_ok(c, bp_comm_id_create(&id[i]), "bp_comm_id_create")) return;
    for (uint32_t i = 0; i < k.ranks; i++) {
        bool victim = k.program == CCL_PROGRAM_DEATH && i == VICTIM;
        t[i] = (struct running){.c = c, .arg = arg};
        t[i].child = k.flags & CCL_PROCESSES || victim;
        t[i].r = (struct ccl_rank){.k = k, .rank = i, .size = k.ranks, .id = {id[0], id[1]},
                                   .device = other && i & 1 ? other : c->fixture->device};
        t[i].r.check = (struct check){c->fixture, &t[i].r.result, c->id};
        t[i].r.result.worst = -1;
        if (k.program == CCL_PROGRAM_ABSENT && i == k.ranks - 1) continue;
        t[i].begun = check_that(c, !pthread_create(&t[i].thread, NULL, run_rank, &t[i]),
                                "a thread could not be started");
    }
    for (uint32_t i = 0; i < k.ranks; i++)
        if (t[i].begun) pthread_join(t[i].thread, NULL);
    for (uint32_t i = 0; i < k.ranks; i++)
        if (k.program == CCL_PROGRAM_DEATH && i == VICTIM) t[i].begun = false;
    take_results(c, t, k.ranks);
    bp_device_destroy(other);
}

/* Words: SEED ARG0 ARG1 RANK ID IDS. conform_child has read SEED already. */
int ccl_child(struct fixture *fixture, char **words)
{
    int64_t arg[2] = {strtoll(words[1], NULL, 10), strtoll(words[2], NULL, 10)};
    struct ccl_rank r = {.k = ccl_unpack(arg), .device = fixture->device};
    const char *second = strchr(words[5], ' ');

    r.rank = (uint32_t)strtoul(words[3], NULL, 10);
    r.size = r.k.ranks;
    r.check = (struct check){fixture, &r.result, words[4]};
    if (!second || r.k.program >= sizeof programs / sizeof *programs) return 2;
    snprintf(r.id[0].text, sizeof r.id[0].text, "%.*s", (int)(second - words[5]), words[5]);
    snprintf(r.id[1].text, sizeof r.id[1].text, "%s", second + 1);
    programs[r.k.program](&r);
    ccl_part(&r);
    for (char *at = r.result.message; *at; at++)
        if (*at == '\n') *at = ' ';
    dprintf(BP_CHILD_REPORT, "%d %" PRIx64 " %s\n", (int)r.result.outcome, r.hash,
            r.result.message);
    return 0;
}
