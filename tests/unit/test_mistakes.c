/* SPDX-License-Identifier: Apache-2.0 */
/* test_mistakes.c: tests each public call with each wrong argument. The tables are in mistakes_*.c;
 * mistakes.h describes their rows. This file makes the wrong calls that follow from the kinds of
 * arguments, makes the checks after each call, and checks that no function is missing. */
#include "mistakes.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const struct table *const tables[] = {
    &mistakes_core,   &mistakes_device, &mistakes_stream, &mistakes_tensor,
    &mistakes_dlpack, &mistakes_call,   &mistakes_graph,  &mistakes_comm,
    &mistakes_profile,
#ifdef MODEL_HEADERS /* set if ONNX's schema is available */
    &mistakes_model,
#endif
};

enum { AREA = 512, PATTERN = 0xA5 };

/* The memory that out parameters point to, one area for each argument. */
static _Alignas(16) unsigned char area[ARGS_MAX][AREA], before[ARGS_MAX][AREA];

static const struct function *find_function(const char *name)
{
    for (size_t t = 0; t < COUNT(tables); t++)
        for (size_t i = 0; i < tables[t]->n_function; i++)
            if (!strcmp(tables[t]->function[i].name, name)) return &tables[t]->function[i];
    cr_assert_fail("a row names %s, which is in no table", name);
    return NULL;
}

/* Fills in the arguments of a right call. */
static void mistakes_fill(struct world *w, const struct function *f, union value *a)
{
    memset(area, PATTERN, sizeof area);
    for (int i = 0; i < ARGS_MAX; i++) {
        const struct arg *arg = &f->arg[i];
        a[i].u = 0;
        switch ((enum arg_kind)arg->kind) {
        case ARG_NONE: break;
        case ARG_HANDLE:
        case ARG_HANDLE_OPT: a[i] = w->thing[arg->good ? arg->good : arg->thing]; break;
        case ARG_POINTER:
        case ARG_OPTIONAL:
        case ARG_NUMBER: a[i] = arg->good ? w->thing[arg->good] : arg->v; break;
        case ARG_INOUT: memset(area[i], 0, AREA); /* fall through */
        case ARG_OUT:
        case ARG_OUT_OPT: a[i].p = area[i]; break;
        case ARG_INFO:
            memcpy(area[i], &arg->size, sizeof arg->size);
            a[i].p = area[i];
            break;
        }
    }
}

static const char *mistakes_called(const struct function *f)
{
    return f->called ? f->called : f->name;
}

static void judge_status(const struct function *f, const struct mistake *m, uint64_t result,
                         const char *also)
{
    const char *message = bp_error_message();

    cr_expect_eq(result, (uint64_t)m->status, "%s, %s: expected %s, got %s: %s", f->name, m->what,
                 bp_status_name(m->status), bp_status_name((enum bp_status)result), message);
    cr_expect(strstr(message, m->word) && strstr(message, also),
              "%s, %s: the message does not say '%s' and '%s': '%s'", f->name, m->what, m->word,
              also, message);
}

/* Makes a wrong call with the prepared arguments and checks it. also: another word of the
 * message. */
static void mistakes_judge(struct world *w, const struct function *f, const struct mistake *m,
                           const union value *a, const char *also)
{
    enum bp_dtype unused;
    uint64_t result;
    const char *text;

    memcpy(before, area, sizeof area);
    bp_dtype_find("the message before", &unused);
    result = f->call(a);
    text = f->returns == RETURNS_TEXT || f->returns == RETURNS_EMPTY ? (const char *)result : "";
    switch (f->returns) {
    case RETURNS_STATUS: judge_status(f, m, result, also); break;
    case RETURNS_ZERO:
        cr_expect_eq(result, (uint64_t)m->status, "%s, %s: answers %llu", f->name, m->what,
                     (unsigned long long)result);
        break;
    case RETURNS_EMPTY: cr_expect_str_eq(text, "", "%s, %s", f->name, m->what); break;
    case RETURNS_TEXT: cr_expect_str_eq(text, m->word, "%s, %s", f->name, m->what); break;
    case RETURNS_NOTHING: break;
    }
    for (int i = 0; i < ARGS_MAX; i++)
        cr_expect_arr_eq(area[i], before[i], AREA, "%s, %s: argument %d was written", f->name,
                         m->what, i + 1);
    mistakes_check_world(w, f->name, m->what);
}

void mistakes_try(struct world *w, const struct mistake *m)
{
    const struct function *f = find_function(m->function);
    union value a[ARGS_MAX];

    mistakes_fill(w, f, a);
    for (size_t i = 0; i < COUNT(m->change) && m->change[i].arg; i++) {
        const struct change *c = &m->change[i];
        union value v = c->thing ? w->thing[c->thing] : c->v;
        if (f->arg[c->arg - 1].kind == ARG_INOUT) memcpy(area[c->arg - 1], &v, sizeof v);
        else a[c->arg - 1] = v;
    }
    mistakes_judge(w, f, m, a, "");
}

/* Gives one argument an invalid value. */
static void try_value(struct world *w, const struct function *f, int i, union value v,
                      const char *what, const char *word)
{
    enum bp_status status = f->returns == RETURNS_STATUS ? BP_ERR_INVALID : BP_OK;
    struct mistake m = {f->name, what, status, word, {{0}}};
    union value a[ARGS_MAX];

    mistakes_fill(w, f, a);
    a[i] = v;
    mistakes_judge(w, f, &m, a, mistakes_called(f));
}

static void try_handles(struct world *w, const struct function *f, int i)
{
    const struct arg *arg = &f->arg[i];
    const char *word = arg->word ? arg->word : mistakes_kind(arg->thing);
    char what[64];

    snprintf(what, sizeof what, "argument %d is NULL", i + 1);
    if (arg->kind == ARG_HANDLE) try_value(w, f, i, (union value){.p = NULL}, what, word);
    for (enum thing t = T_CORE; t <= T_STRANGER; t++) {
        if (t == T_KINDS || t == arg->thing || (arg->also && t == arg->also)) continue;
        snprintf(what, sizeof what, "argument %d is a %s", i + 1, mistakes_kind(t));
        try_value(w, f, i, w->thing[t], what, word);
    }
}

static void try_sizes(struct world *w, const struct function *f, int i)
{
    static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, 65537, SIZE_MAX};

    for (size_t n = 0; n < COUNT(wrong); n++) {
        struct mistake m = {f->name, "a size that is none", BP_ERR_INVALID, "size field", {{0}}};
        union value a[ARGS_MAX];
        mistakes_fill(w, f, a);
        memcpy(area[i], &wrong[n], sizeof wrong[n]);
        mistakes_judge(w, f, &m, a, mistakes_called(f));
    }
}

/* Makes the wrong calls that follow from the kinds of a function's arguments. */
static void try_kinds(struct world *w, const struct function *f)
{
    for (int i = 0; i < ARGS_MAX; i++) {
        const struct arg *arg = &f->arg[i];
        char what[64];
        snprintf(what, sizeof what, "argument %d is NULL", i + 1);
        switch ((enum arg_kind)arg->kind) {
        case ARG_HANDLE:
        case ARG_HANDLE_OPT: try_handles(w, f, i); break;
        case ARG_INFO: try_sizes(w, f, i); /* fall through */
        case ARG_POINTER:
        case ARG_OUT:
        case ARG_INOUT:
            try_value(w, f, i, (union value){.p = NULL}, what, arg->word ? arg->word : "NULL");
            break;
        case ARG_NONE:
        case ARG_OPTIONAL:
        case ARG_NUMBER:
        case ARG_OUT_OPT: break;
        }
    }
}

static void mistakes_give_back(enum thing made, void *handle)
{
    struct bp_dlpack_managed *managed = handle;
    struct bp_dlpack_legacy *legacy = handle;

    switch (made) {
    case T_CORE: bp_core_destroy(handle); break;
    case T_DEVICE: bp_device_destroy(handle); break;
    case T_STREAM: bp_stream_destroy(handle); break;
    case T_EVENT: bp_event_destroy(handle); break;
    case T_TENSOR: bp_tensor_destroy(handle); break;
    case T_PREPARED: bp_prepared_destroy(handle); break;
    case T_GRAPH: bp_graph_destroy(handle); break;
    case T_GENERATOR: bp_generator_destroy(handle); break;
    case T_BUFFER: bp_buffer_destroy(handle); break;
    case T_PROGRAM: bp_program_destroy(handle); break;
    case T_TEMPLATE: bp_template_destroy(handle); break;
    case T_STORE: bp_store_destroy(handle); break;
    case T_COMM: bp_comm_destroy(handle); break;
    case T_PROFILER: bp_profiler_destroy(handle); break;
    case T_PROFILE: bp_profile_destroy(handle); break;
    case T_MANAGED: managed->deleter(managed); break;
    case T_LEGACY: legacy->deleter(legacy); break;
    default: break;
    }
}

/* Makes the right call, before and after the wrong ones. */
static void call_rightly(struct world *w, const struct function *f)
{
    union value a[ARGS_MAX];
    uint64_t result;

    if (f->returns == RETURNS_NOTHING) return;
    mistakes_fill(w, f, a);
    result = f->call(a);
    if (f->returns == RETURNS_TEXT || f->returns == RETURNS_EMPTY) cr_expect(result, "%s", f->name);
    if (f->returns != RETURNS_STATUS) return;
    cr_expect_eq(result, BP_OK, "%s, called rightly: %s", f->name, bp_error_message());
    for (int i = 0; i < ARGS_MAX && result == BP_OK; i++)
        for (size_t at = 0; at < AREA; at += sizeof(void *)) {
            void *handle, *none;
            memcpy(&handle, area[i] + at, sizeof handle);
            memset(&none, PATTERN, sizeof none);
            if (!f->arg[i].thing || f->arg[i].kind < ARG_OUT || !handle || handle == none) break;
            mistakes_give_back(f->arg[i].thing, handle);
        }
}

static void run_table(const struct table *table)
{
    struct world w = mistakes_world();

    if (table->prepare) table->prepare(&w);
    for (size_t i = 0; i < table->n_function; i++) {
        call_rightly(&w, &table->function[i]);
        try_kinds(&w, &table->function[i]);
        call_rightly(&w, &table->function[i]);
    }
    for (size_t i = 0; i < table->n_mistake; i++) mistakes_try(&w, &table->mistake[i]);
    if (table->more) table->more(&w);
    for (size_t i = 0; i < table->n_function; i++) call_rightly(&w, &table->function[i]);
    if (table->finish) table->finish(&w);
    mistakes_world_finish(&w);
}

Test(mistakes, core)
{
    run_table(&mistakes_core);
}

Test(mistakes, device)
{
    run_table(&mistakes_device);
}

Test(mistakes, stream)
{
    run_table(&mistakes_stream);
}

Test(mistakes, tensor)
{
    run_table(&mistakes_tensor);
}

Test(mistakes, dlpack)
{
    run_table(&mistakes_dlpack);
}

Test(mistakes, call)
{
    run_table(&mistakes_call);
}

Test(mistakes, graph)
{
    run_table(&mistakes_graph);
}

Test(mistakes, profile)
{
    run_table(&mistakes_profile);
}

#ifdef MODEL_HEADERS
Test(mistakes, model)
{
    run_table(&mistakes_model);
}
#endif

/* Tests whether a function has a row with an argument that can be wrong, or without arguments. */
static bool has_row(const char *name, size_t length)
{
    for (size_t t = 0; t < COUNT(tables); t++)
        for (size_t i = 0; i < tables[t]->n_function; i++) {
            const struct function *f = &tables[t]->function[i];
            if (strlen(f->name) != length || memcmp(f->name, name, length)) continue;
            if (f->arg[0].kind == ARG_NONE) return true;
            for (int a = 0; a < ARGS_MAX; a++)
                if (f->arg[a].kind != ARG_NONE && f->arg[a].kind != ARG_NUMBER &&
                    f->arg[a].kind != ARG_OPTIONAL)
                    return true;
            for (size_t m = 0; m < tables[t]->n_mistake; m++)
                if (!strcmp(tables[t]->mistake[m].function, f->name)) return true;
        }
    return false;
}

/* Checks the name before the first bracket after each BP_API. Returns how many there are. */
static unsigned check_header(const char *file, const char *text)
{
    unsigned n = 0;

    for (const char *at = strstr(text, "BP_API "); at; at = strstr(at + 1, "BP_API ")) {
        const char *end = strchr(at, '('), *name = end;
        if (at - text >= 8 && !memcmp(at - 8, "#define ", 8)) continue;
        cr_assert(end, "%s: BP_API without a function", file);
        while (isalnum((unsigned char)name[-1]) || name[-1] == '_') name--;
        cr_expect(has_row(name, (size_t)(end - name)),
                  "%s: %.*s has no row in tests/unit/mistakes_*.c", file, (int)(end - name), name);
        n++;
    }
    return n;
}

/* Checks all headers of a folder. */
static void check_headers(const char *folder, unsigned *headers, unsigned *functions)
{
    static char text[1 << 16];
    DIR *directory = opendir(folder);
    struct dirent *e;

    cr_assert(directory, "%s cannot be read", folder);
    while ((e = readdir(directory))) {
        char path[4096];
        size_t n;
        FILE *f;
        if (!strstr(e->d_name, ".h")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        f = fopen(path, "r");
        cr_assert(f, "%s cannot be read", path);
        n = fread(text, 1, sizeof text - 1, f);
        text[n] = 0;
        fclose(f);
        *functions += check_header(e->d_name, text);
        ++*headers;
    }
    closedir(directory);
}

/* The typed calls, bp_op_..., are generated from the operators' rows: mistakes_typed.c tests them
 * all. */
Test(mistakes, every_function_has_a_row)
{
    unsigned headers = 0, functions = 0, models = 0;

    check_headers(PUBLIC_HEADERS, &headers, &functions);
    cr_expect(headers >= 12 && functions >= 85, "%u functions found in %u headers", functions,
              headers);
#ifdef MODEL_HEADERS
    check_headers(MODEL_HEADERS, &headers, &models);
    cr_expect(models >= 16, "%u functions found in %s", models, MODEL_HEADERS);
#endif
    (void)models;
}
