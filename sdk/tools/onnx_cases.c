/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_cases.c: finds ONNX's test models and runs them as conformance cases. */
#include "onnx_cases.h"
#include "tools.h"

#include <backplane/model.h>
#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *cases_own(char *text)
{
    if (!text) abort();
    return text;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void cases_add(struct onnx_cases *cases, const char *id)
{
    cases->id = realloc(cases->id, (cases->n + 1) * sizeof *cases->id);
    if (!cases->id) abort();
    cases->id[cases->n++] = cases_own(strdup(id));
}

static const char *id_of(void *ctx, size_t index)
{
    const struct onnx_cases *cases = ctx;

    return index < cases->n ? cases->id[index] : NULL;
}

char *onnx_cases_model(const struct onnx_cases *cases, size_t index)
{
    return bp_text_format("%s/%s/model.onnx", cases->folder, cases->id[index]);
}

char *onnx_data_file(const char *folder, const char *what, uint32_t i)
{
    char *path = bp_text_format("%s/%s_%u.pb", folder, what, i);

    if (!access(path, R_OK)) return path;
    free(path);
    return NULL;
}

/* The path of a file in data set `set` of a case, as onnx_data_file. */
static char *data_file(const struct onnx_cases *cases, size_t index, int set, const char *what,
                       uint32_t i)
{
    char *folder = bp_text_format("%s/%s/test_data_set_%d", cases->folder, cases->id[index], set);
    char *path = onnx_data_file(folder, what, i);

    free(folder);
    return path;
}

/* Continues the hash of Fowler, Noll and Vo with the contents of a file. Frees path. */
static uint64_t add_file(uint64_t sum, char *path)
{
    FILE *file = fopen(path, "rb");

    for (int c; file && (c = getc(file)) != EOF;) sum = (sum ^ (uint64_t)c) * 0x100000001b3;
    if (file) fclose(file);
    free(path);
    return sum;
}

uint64_t onnx_cases_sum(const struct onnx_cases *cases, size_t index)
{
    static const char *const kind[] = {"input", "output"};
    uint64_t sum = add_file(0xcbf29ce484222325, onnx_cases_model(cases, index));

    for (int set = 0, files = 1; files; set++) {
        files = 0;
        for (int k = 0; k < 2; k++) {
            char *path;
            for (uint32_t i = 0; (path = data_file(cases, index, set, kind[k], i)); i++, files++)
                sum = add_file(sum, path);
        }
    }
    return sum;
}

struct data_set {
    struct bp_model_value *in, *out, *expected;
    uint32_t n_in, n_out;
};

static bool read_values(struct check *c, const struct onnx_cases *cases, size_t index, int set,
                        struct bp_model *model, struct data_set *d)
{
    bool ok = true;

    for (uint32_t i = 0; ok && i < d->n_in + d->n_out; i++) {
        bool in = i < d->n_in;
        uint32_t at = in ? i : i - d->n_in;
        struct bp_model_port port = {.size = sizeof port};
        char *path = data_file(cases, index, set, in ? "input" : "output", at);
        ok = check_ok(c, in ? bp_model_input(model, at, &port) : bp_model_output(model, at, &port),
                      "port") &&
             (check_that(c, path || port.kind == BP_MODEL_OPTIONAL, "data set %d has no %s %u", set,
                         in ? "input" : "output", at));
        if (ok && path)
            ok = check_ok(c, bp_model_value_load(model, &port, path,
                                                 in ? &d->in[at] : &d->expected[at]), path);
        free(path);
    }
    return ok;
}

static bool compare_values(struct check *c, const struct data_set *d,
                           const struct onnx_tolerance *tolerance)
{
    bool ok = true;

    for (uint32_t i = 0; ok && i < d->n_out; i++) {
        char what[48];
        ok = check_that(c, d->out[i].kind == d->expected[i].kind && d->out[i].n == d->expected[i].n,
                        "output %u has kind %u and %zu tensors, expected %u and %zu", i,
                        d->out[i].kind, d->out[i].n, d->expected[i].kind, d->expected[i].n);
        for (size_t k = 0; ok && k < d->out[i].n; k++) {
            snprintf(what, sizeof what, d->out[i].n > 1 ? "output %u, element %zu" : "output %u",
                     i, k);
            ok = onnx_compare(c, c->fixture->stream, d->out[i].at[k], d->expected[i].at[k],
                              tolerance, what);
        }
    }
    return ok;
}

/* Adds a name to the missing features of the model, unless it is there already. */
static void add_missing(struct result *result, const char *name, size_t length)
{
    size_t used = strlen(result->missing);

    for (const char *at = result->missing; *at; at += *at == '\n') {
        size_t n = strcspn(at, "\n");
        if (n == length && !strncmp(at, name, n)) return;
        at += n;
    }
    if (!length || used + length + 2 > sizeof result->missing) return;
    snprintf(result->missing + used, sizeof result->missing - used, "%s%.*s", used ? "\n" : "",
             (int)length, name);
}

size_t onnx_missing_name(const char *line, size_t *out_begin)
{
    static const char *const ends[] = {" of opset ", ": ", " [", ", "};
    size_t n = strcspn(line, "\n"), length = n;

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = memmem(line, n, ends[i], strlen(ends[i]));
        if (end && (size_t)(end - line) < length) length = (size_t)(end - line);
    }
    *out_begin = n > 9 && !strncmp(line, "operator ", 9) ? 9 : 0;
    return length;
}

/* Adds the names in lines in the form of bp_model_missing. */
static void add_lines(struct result *result, const char *text)
{
    for (const char *line = text; *line; line += *line == '\n') {
        size_t n = strcspn(line, "\n"), begin, end = onnx_missing_name(line, &begin);
        if (n != 3 || strncmp(line, "...", 3)) /* "..." stands for lines that did not fit */
            add_missing(result, line + begin, end - begin);
        line += n;
    }
}

/* Checks the status of a call. A missing feature makes a model unsupported; a kernel that exists
 * but declines the call or fails does not. Names the operator whose kernel is missing, because the
 * summary of the run counts these. */
static bool is_there(struct check *c, enum bp_status status, const char *call)
{
    struct bp_error_info info = {.size = sizeof info};
    bool known = bp_error_get_info(&info) == BP_OK;
    bool missing = status == BP_ERR_NO_KERNEL && known && !info.rows;
    bool refused = status == BP_ERR_UNSUPPORTED && known && !*info.kernel;
    char kernel[80];

    if (!missing && !refused) return check_ok(c, status, call);
    snprintf(kernel, sizeof kernel, "kernel of %s", missing ? info.op : "");
    if (missing) add_missing(c->result, kernel, strlen(kernel));
    else add_lines(c->result, bp_error_message());
    check_unsupported(c, "missing: %s%s%s%s", missing ? "kernel of " : "", missing ? info.op : "",
                      missing ? ": " : "", bp_error_message());
    c->result->refused = true;
    return false;
}

static bool run_set(struct check *c, const struct onnx_cases *cases, size_t index, int set,
                    struct bp_model *model, const struct onnx_tolerance *tolerance)
{
    struct data_set d = {.n_in = bp_model_inputs(model), .n_out = bp_model_outputs(model)};
    bool ok;

    d.in = calloc(d.n_in + 2 * d.n_out + 1, sizeof *d.in);
    if (!d.in) abort();
    d.out = d.in + d.n_in;
    d.expected = d.out + d.n_out;
    ok = read_values(c, cases, index, set, model, &d) &&
         is_there(c, bp_model_run_values(model, c->fixture->stream, d.in, d.n_in, d.out, d.n_out),
                  "bp_model_run_values") &&
         check_ok(c, bp_stream_synchronize(c->fixture->stream), "bp_stream_synchronize") &&
         compare_values(c, &d, tolerance);
    for (uint32_t i = 0; i < d.n_in + 2 * d.n_out; i++) bp_model_value_finish(&d.in[i]);
    free(d.in);
    return ok;
}

/* Whether the results of the model's operator are random, so that only dtype and shape can be
 * compared. With a ratio of zero, dropout drops no elements. The names are those of the suite's
 * models; each has one operator. */
static bool is_random(const char *id)
{
    return strstr(id, "bernoulli") ||
           (strstr(id, "training_dropout") && !strstr(id, "zero_ratio"));
}

static void run_case(void *ctx, size_t index, struct check *c)
{
    const struct onnx_cases *cases = ctx;
    struct onnx_tolerance tolerance = {1e-3, 1e-7, is_random(cases->id[index])};
    /* Some of the suite's data do not have the shapes that the models declare. */
    const struct bp_model_options options = {.size = sizeof options, .any_shape = 1};
    char *path = onnx_cases_model(cases, index), missing[CONFORM_MESSAGE - 16] = "";
    struct bp_model *model;
    bool ok;
    int sets = 0;

    ok = check_ok(c, bp_model_missing(path, missing, sizeof missing), "bp_model_missing");
    if (ok && *missing) check_unsupported(c, "missing: %s", missing);
    if (ok) add_lines(c->result, missing);
    if (ok && !*missing &&
        is_there(c, bp_model_load(c->fixture->device, path, &options, &model), "bp_model_load")) {
        for (ok = true; ok; sets++) {
            char *folder = bp_text_format("%s/%s/test_data_set_%d", cases->folder,
                                          cases->id[index], sets);
            bool there = !access(folder, R_OK);
            free(folder);
            if (!there) break;
            ok = run_set(c, cases, index, sets, model, &tolerance);
        }
        check_that(c, sets > 0, "there is no data beside the model");
        bp_model_destroy(model);
    }
    if (*missing) c->result->refused = true;
    free(path);
}

bool onnx_cases_init(struct onnx_cases *cases, const char *folder)
{
    char *root[] = {(char *)folder, NULL};
    struct stat is;
    FTSENT *entry;
    FTS *walk;

    if (stat(folder, &is) || !S_ISDIR(is.st_mode)) {
        bp_complain("onnx-test", "%s: there is no such folder", folder);
        return false;
    }
    walk = fts_open(root, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    *cases = (struct onnx_cases){.folder = cases_own(strdup(folder))};
    cases->cases = (struct conform_cases){cases, id_of, run_case};
    while (walk && (entry = fts_read(walk))) {
        size_t skip = strlen(folder) + 1, n = strlen(entry->fts_path);
        if (entry->fts_info != FTS_F || strcmp(entry->fts_name, "model.onnx") || n < skip + 12)
            continue;
        entry->fts_path[n - strlen("/model.onnx")] = 0;
        cases_add(cases, entry->fts_path + skip);
    }
    if (walk) fts_close(walk);
    if (cases->n) {
        qsort(cases->id, cases->n, sizeof *cases->id, by_text);
        return true;
    }
    bp_complain("onnx-test", "%s: there is no KIND/NAME/model.onnx below it", folder);
    onnx_cases_finish(cases);
    return false;
}

void onnx_cases_finish(struct onnx_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) free(cases->id[i]);
    free(cases->id);
    free(cases->folder);
}
