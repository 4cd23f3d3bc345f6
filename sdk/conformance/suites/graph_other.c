/* SPDX-License-Identifier: Apache-2.0 */
/* graph_other.c: tests what an engine does beside compiling one program: groups in files, with
 * bytes that are damaged, other weights, other extents, and runs on several streams. */
#include "engaged.h"
#include "suites.h"

#include <backplane/graph.h>
#include <backplane/program.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DAMAGES = 16,
    STREAMS = 3,
    STREAM_RUNS = 12,
    BUCKETS = 4
};

/* ---- files ---- */

/* Compiles a network, saves the program in a new file, and destroys it. false: the case has
 * ended. */
static bool saved_make(struct check *c, int64_t network, char *path, uint32_t *out_groups)
{
    struct engaged e;
    enum bp_status status = BP_OK;
    bool good = engaged_begin(&e, c, network) && engaged_check_groups(&e);
    int file = good ? mkstemp(path) : -1;

    if (good && check_that(c, file >= 0, "no file in /tmp")) {
        close(file);
        status = bp_program_save(e.program, path);
        if (status == BP_ERR_UNSUPPORTED)
            check_unsupported(c, "the program is not saved: %s", bp_error_message());
        good = check_ok(c, status, "bp_program_save");
    } else good = false;
    *out_groups = e.groups;
    engaged_finish(&e);
    return good;
}

/* Makes the program of a network from a file. */
static bool saved_load(struct engaged *e, struct check *c, int64_t network, const char *path)
{
    *e = (struct engaged){.program = NULL};
    return network_record(&e->n, c, (uint32_t)network) &&
           check_ok(c, bp_program_create(e->n.graph, c->fixture->device, &e->program),
                    "bp_program_create") &&
           check_ok(c, bp_program_load(e->program, path), "bp_program_load") &&
           engaged_check_groups(e);
}

/* graph/saved/NETWORK: a program of a file has the same groups, and right results. */
void engine_saved(struct check *c, const int64_t *arg)
{
    char path[] = "/tmp/bp-conform-program-XXXXXX";
    struct engaged e = {.program = NULL};
    uint32_t groups;

    if (saved_make(c, arg[0], path, &groups) && saved_load(&e, c, arg[0], path) &&
        check_that(c, e.groups == groups, "%u groups, and %u in the file", groups, e.groups) &&
        engaged_run(&e, 1, "a program of a file"))
        engaged_run(&e, 2, "its second run");
    engaged_finish(&e);
    unlink(path);
}

/* graph/damaged/NETWORK: an engine notices that the bytes of its group were cut or changed, so that
 * the group is compiled again. */
void engine_damaged(struct check *c, const int64_t *arg)
{
    const char *before = getenv("BP_VALIDATE");
    char path[] = "/tmp/bp-conform-program-XXXXXX", *kept = before ? strdup(before) : NULL;
    uint32_t groups;
    bool good;

    if (!arg[1]) {
        check_skip(c, "the engine saves nothing");
        free(kept);
        return;
    }
    good = saved_make(c, arg[0], path, &groups);
    setenv("BP_VALIDATE", "blobs", 1);
    for (uint32_t i = 0; good && i < DAMAGES; i++) {
        struct engaged e;
        good = saved_load(&e, c, arg[0], path) &&
               check_that(c, e.groups == groups, "%u groups, and %u in the file", groups,
                          e.groups) &&
               engaged_run(&e, i, "a program of a file with damaged bytes");
        engaged_finish(&e);
    }
    if (kept) setenv("BP_VALIDATE", kept, 1);
    else unsetenv("BP_VALIDATE");
    free(kept);
    unlink(path);
}

/* ---- weights ---- */

/* graph/weights/NETWORK: a program like another one has results of its own weights, also when the
 * other one, which keeps its own, is gone. */
void engine_weights(struct check *c, const int64_t *arg)
{
    struct engaged a, b = {.program = NULL}, d = {.program = NULL};

    if (engaged_begin(&a, c, arg[0]) && engaged_check_groups(&a) &&
        engaged_begin_as(&b, c, arg[0], 0, 1, &a) && engaged_check_groups(&b) &&
        check_that(c, a.groups == b.groups, "%u groups, and %u with other weights", a.groups,
                   b.groups) &&
        engaged_run(&b, 1, "with other weights") &&
        engaged_run(&a, 2, "with the weights before") &&
        engaged_begin_as(&d, c, arg[0], 0, 2, &b)) {
        engaged_finish(&b);
        b = (struct engaged){.program = NULL};
        if (engaged_run(&d, 3, "like a program that is gone")) engaged_run(&a, 4, "at last");
    }
    if (d.n.c) engaged_finish(&d);
    if (b.n.c) engaged_finish(&b);
    engaged_finish(&a);
}

/* ---- streams ---- */

/* One run that has been submitted. */
struct flight {
    struct bp_tensor *out[NETWORK_OUTPUTS];
    uint32_t stream;
};

static bool flights_check(struct engaged *e, struct bp_stream *const *stream,
                          const struct flight *flight, const struct network_values *want)
{
    struct network_values got;

    for (uint32_t i = 0; i < STREAM_RUNS; i++) {
        uint32_t s = flight[i].stream;
        if (!network_read(&e->n, stream[s], flight[i].out, &got) ||
            !network_agree(&e->n, &got, &want[s], "a run beside those of other streams"))
            return false;
    }
    return true;
}

/* graph/streams/NETWORK: runs that one thread submits to several streams do not disturb each
 * other. */
void engine_streams(struct check *c, const int64_t *arg)
{
    static struct network_values want[STREAMS];
    struct bp_stream *stream[STREAMS] = {NULL};
    struct bp_tensor *x[STREAMS] = {NULL};
    struct flight flight[STREAM_RUNS];
    struct engaged e;
    bool good = engaged_begin(&e, c, arg[0]);

    memset(flight, 0, sizeof flight);
    for (uint32_t s = 0; good && s < STREAMS; s++)
        good = check_ok(c, bp_stream_create(c->fixture->device, &stream[s]), "bp_stream_create") &&
               network_expected(&e.n, s, &want[s]) && network_input(&e.n, stream[s], s, &x[s]);
    for (uint32_t i = 0; good && i < STREAM_RUNS; i++) {
        flight[i].stream = i % STREAMS;
        good = network_start(&e.n, e.program, stream[i % STREAMS], x[i % STREAMS], flight[i].out);
    }
    if (good) flights_check(&e, stream, flight, want);
    for (uint32_t i = 0; i < STREAM_RUNS; i++)
        for (uint32_t o = 0; o < NETWORK_OUTPUTS; o++) bp_tensor_destroy(flight[i].out[o]);
    for (uint32_t s = 0; s < STREAMS; s++) {
        bp_tensor_destroy(x[s]);
        bp_stream_destroy(stream[s]);
    }
    engaged_finish(&e);
}

/* ---- other extents ---- */

static const int64_t bucket_rows[BUCKETS] = {1, 4, 2, 3};

/* Runs the program of three rows that a template of the other programs gives; those with a group
 * that an engine compiled have none. */
static bool bucket_derive(const struct engaged *e)
{
    struct bp_program *samples[3] = {e[1].program, e[2].program, e[3].program};
    struct bp_template *template = NULL;
    struct engaged made = {.n = e[3].n};
    enum bp_status status = bp_template_create(samples, bucket_rows + 1, 3, &template);
    bool good;

    if (status == BP_ERR_UNSUPPORTED) return true;
    made.n.graph = NULL;
    good = check_ok(made.n.c, status, "bp_template_create") &&
           check_ok(made.n.c, bp_template_program(template, 3, &made.n.graph, &made.program),
                    "bp_template_program") &&
           engaged_run(&made, 9, "a program of a template");
    bp_program_destroy(made.program);
    bp_graph_destroy(made.n.graph);
    bp_template_destroy(template);
    return good;
}

/* graph/buckets/NETWORK: programs of one network for several first extents, as an app has them that
 * rounds extents up, exist at once. */
void engine_buckets(struct check *c, const int64_t *arg)
{
    struct engaged *e = calloc(BUCKETS, sizeof *e);
    bool good = check_that(c, e != NULL, "no memory");

    for (uint32_t i = 0; good && i < BUCKETS; i++)
        good = engaged_begin_as(&e[i], c, arg[0], bucket_rows[i], 0, NULL) &&
               engaged_check_groups(&e[i]) && engaged_run(&e[i], i, "a run");
    for (uint32_t i = BUCKETS; good && i-- > 0;)
        good = engaged_run(&e[i], i + 4, "a run after those of other extents");
    if (good) bucket_derive(e);
    for (uint32_t i = 0; e && i < BUCKETS; i++)
        if (e[i].n.c) engaged_finish(&e[i]);
    free(e);
}
