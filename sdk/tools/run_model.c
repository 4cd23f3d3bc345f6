/* SPDX-License-Identifier: Apache-2.0 */
/* run_model.c: `bp run`: runs an ONNX model on a device. */
#include "onnx_cases.h"
#include "run_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *run_command = "run";

bool run_failed(const char *what)
{
    bp_complain(run_command, "%s: %s", what, bp_error_message());
    return false;
}

static void drop_outputs(struct run_model *r)
{
    for (uint32_t i = 0; i < r->n_out; i++) bp_model_value_finish(&r->out[i]);
}

bool run_model_once(struct run_model *r, double *seconds)
{
    double begin = bench_now();

    drop_outputs(r);
    if (bp_model_run_values(r->model, r->stream, r->in, r->n_in, r->out, r->n_out) ||
        bp_stream_synchronize(r->stream))
        return run_failed(r->path);
    *seconds = bench_now() - begin;
    return true;
}

struct bp_program *run_find_program(struct run_model *r)
{
    struct bp_tensor **in = calloc(r->n_in + 1, sizeof *in);
    struct bp_program *program = NULL;
    bool ok = true;

    if (!in) abort();
    for (uint32_t i = 0; i < r->n_in; i++) {
        ok = ok && r->in[i].kind == BP_MODEL_TENSOR;
        if (ok) in[i] = r->in[i].at[0];
    }
    if (ok && bp_model_program(r->model, in, r->n_in, &program)) program = NULL;
    free(in);
    return program;
}

static int model_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Describes an output for people, with the largest element of a float output. */
static void model_describe(struct run_model *r, struct bp_tensor *t, char *text, size_t size)
{
    struct bp_tensor_info info = {.size = sizeof info};
    int64_t best = 0;
    size_t used;
    float *data;

    if (bp_tensor_get_info(t, &info)) return;
    used = (size_t)snprintf(text, size, "%s[", bp_dtype_name(info.dtype));
    for (uint32_t i = 0; i < info.rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)info.shape[i]);
    if (used < size) used += (size_t)snprintf(text + used, size - used, "]");
    if (info.dtype != BP_F32 || !info.count || used >= size) return;
    data = malloc(info.bytes);
    if (!data) abort();
    if (!bp_tensor_read(r->stream, t, data, info.bytes)) {
        for (int64_t i = 1; i < info.count; i++)
            if (data[i] > data[best]) best = i;
        snprintf(text + used, size - used, ", largest %.6g at %lld", (double)data[best],
                 (long long)best);
    }
    free(data);
}

static void model_report(struct run_model *r, const struct run_words *w, double first, double *t,
                         size_t n)
{
    struct bp_model_info info = {.size = sizeof info};
    cJSON *json = cJSON_CreateObject(), *outputs = cJSON_CreateArray();

    if (n) qsort(t, n, sizeof *t, model_by_size);
    (void)bp_model_get_info(r->model, &info);
    if (!w->json)
        printf("%s on %s: %u nodes, opset %lld, %.1f MB of weights\nload %.1f ms, first run %.2f "
               "ms\n", r->path, r->device_name, info.nodes, (long long)info.opset,
               1e-6 * (double)info.weight_bytes, 1e3 * r->load_s, 1e3 * first);
    if (!w->json && n)
        printf("%zu runs: median %.3f ms, least %.3f, most %.3f; %llu replays%s%s\n", n,
               1e3 * t[n / 2], 1e3 * t[0], 1e3 * t[n - 1], (unsigned long long)info.replays,
               *info.reason ? ", since " : "", info.reason);
    for (uint32_t i = 0; i < r->n_out; i++) {
        struct bp_model_port port = {.size = sizeof port};
        char text[200] = "no tensor";
        (void)bp_model_output(r->model, i, &port);
        if (r->out[i].n) model_describe(r, r->out[i].at[0], text, sizeof text);
        if (!w->json) printf("%s: %s\n", port.name, text);
        cJSON_AddItemToArray(outputs, cJSON_CreateString(text));
    }
    bp_json_text(json, "model", r->path);
    bp_json_text(json, "device", r->device_name);
    cJSON_AddNumberToObject(json, "nodes", info.nodes);
    cJSON_AddNumberToObject(json, "load_ms", 1e3 * r->load_s);
    cJSON_AddNumberToObject(json, "first_ms", 1e3 * first);
    if (n) cJSON_AddNumberToObject(json, "median_ms", 1e3 * t[n / 2]);
    if (n) cJSON_AddNumberToObject(json, "least_ms", 1e3 * t[0]);
    cJSON_AddNumberToObject(json, "runs", (double)n);
    cJSON_AddNumberToObject(json, "replays", (double)info.replays);
    bp_json_text(json, "no_replay", info.reason);
    cJSON_AddItemToObject(json, "outputs", outputs);
    run_fallbacks(r, w->json ? json : NULL);
    if (w->json) (void)bp_json_print(json);
    else cJSON_Delete(json);
}

/* With --data: compares the outputs with the files beside the inputs. Returns the exit status. */
static int model_check_outputs(struct run_model *r, const struct run_words *w)
{
    uint32_t compared = 0;

    for (uint32_t i = 0; i < r->n_out; i++) {
        char *path = run_data_file(w, "output", i);
        struct bp_model_port port = {.size = sizeof port};
        struct bp_model_value expected = {0};
        bool ok = true;
        if (path) {
            ok = !bp_model_output(r->model, i, &port) &&
                 !bp_model_value_load(r->model, &port, path, &expected);
            ok = ok ? run_same(r, port.name, &r->out[i], &expected) : run_failed(path);
            compared++;
        }
        bp_model_value_finish(&expected);
        free(path);
        if (!ok) return BP_EXIT_FAILED;
    }
    if (compared) return BP_EXIT_GOOD;
    bp_complain("run", "--data %s: there is no output_0.pb or the like: nothing was compared",
                w->data);
    return BP_EXIT_USAGE;
}

static int model_work(struct run_model *r, const struct run_words *w)
{
    size_t n = isnan(w->repeat) ? 0 : (size_t)w->repeat;
    double *t, first;
    int status;
    bool ok;

    if (!run_check_shapes(r, w)) return BP_EXIT_USAGE;
    ok = run_take_inputs(r, w);
    if (ok) run_interrupt_set(run_find_program(r));
    ok = ok && run_model_once(r, &first);
    t = calloc(n + 1, sizeof *t);
    if (!t) abort();
    for (size_t i = 0; ok && i < n; i++) ok = run_model_once(r, &t[i]);
    run_interrupt_set(NULL);
    if (ok) model_report(r, w, first, t, n);
    free(t);
    if (!ok) return BP_EXIT_FAILED;
    status = w->data ? model_check_outputs(r, w) : BP_EXIT_GOOD;
    if (!status && w->profile) status = run_profile(r, w);
    return status || !w->verify ? status : run_verify(r);
}

/* Converts a limit for bp_model_options, where 0 is the default. */
static uint64_t limit_of(double given, double unit)
{
    return isnan(given) ? 0 : given * unit < 1 ? 1 : (uint64_t)(given * unit);
}

int run_open(struct run_model *r, const struct run_words *w)
{
    struct bp_model_options options = {.size = sizeof options, .weights_ctx = &r->seed,
                                       .weights = w->weights ? run_weights : NULL,
                                       .fold_bytes = limit_of(w->fold_mib, 1 << 20),
                                       .run_bytes = limit_of(w->run_mib, 1 << 20),
                                       .rounds = limit_of(w->rounds, 1),
                                       .time_ms = limit_of(w->seconds, 1000),
                                       .cache = w->cache,
                                       .program_flags = w->tune ? BP_PROGRAM_TUNE : 0};
    enum bp_status opened;
    double begin;

    r->seed = w->seed;
    run_interrupt_begin();
    bp_watch_begin(run_command);
    if (w->dump) setenv("BP_DUMP_PASSES", w->dump, 1);
    r->core = bp_tool_core(run_command, NULL);
    if (!r->core) return BP_EXIT_BROKEN;
    opened = bp_device_create(r->core, r->device_name, &r->device);
    if (opened || bp_stream_create(r->device, &r->stream)) {
        run_failed(r->device_name);
        return opened ? bp_exit_of_device(opened) : BP_EXIT_FAILED;
    }
    begin = bench_now();
    if (bp_model_load(r->device, r->path, &options, &r->model)) {
        run_failed(r->path);
        return BP_EXIT_FAILED;
    }
    r->load_s = bench_now() - begin;
    return BP_EXIT_GOOD;
}

void run_close(struct run_model *r)
{
    for (uint32_t i = 0; r->in && i < r->n_in + r->n_out; i++) bp_model_value_finish(&r->in[i]);
    free(r->in);
    bp_model_destroy(r->model);
    bp_stream_destroy(r->stream);
    bp_device_destroy(r->device);
    bp_core_destroy(r->core);
}

bool run_can_read(const char *path)
{
    struct stat data;

    if (access(path, R_OK))
        bp_complain(run_command, "'%s' can't be read: %s", path, strerror(errno));
    else if (!stat(path, &data) && S_ISDIR(data.st_mode))
        bp_complain(run_command, "'%s' is a folder: name the model's file in it", path);
    else return true;
    return false;
}

static bool read_roof(struct run_words *w)
{
    double gb, gflop;
    char end;

    if (sscanf(w->roof, "%lf,%lf%c", &gb, &gflop, &end) != 2 || !(gb > 0) || !(gflop > 0))
        return false;
    w->peak = (struct run_roof){1e9 * gb, 1e9 * gflop};
    return true;
}

/* Checks the options that can be checked before the model is loaded. */
static bool check_words(struct run_words *w, const struct run_model *r)
{
    const struct {
        const char *option;
        double given;
    } limit[] = {{"max-fold", w->fold_mib}, {"max-memory", w->run_mib}, {"max-rounds", w->rounds},
                 {"max-seconds", w->seconds}};
    char *end = NULL;

    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
        if (isnan(limit[i].given) || (limit[i].given > 0 && limit[i].given <= 1e12)) continue;
        bp_complain("run", "--%s %g: expected more than 0, at most 1e12", limit[i].option,
                    limit[i].given);
        return false;
    }
    errno = 0;
    if (w->weights) w->seed = strtoull(w->weights, &end, 10);
    if (w->weights && (*w->weights < '0' || *w->weights > '9' || *end || errno)) {
        bp_complain("run", "--weights %s: expected a seed, a number from 0 to 2^64 - 1",
                    w->weights);
        return false;
    }
    if (w->roof && !read_roof(w)) {
        bp_complain("run", "--roof %s: expected the GB and the GFLOP of a second: 20,150", w->roof);
        return false;
    }
    return run_has_data("run", w) && run_can_read(r->path);
}

int bp_cmd_run(int argc, char **argv)
{
    struct run_model r = {.device_name = "cpu:0", .rtol = 1e-3, .output = stdout};
    struct run_words w = {.repeat = NAN, .fold_mib = NAN, .run_mib = NAN, .rounds = NAN,
                      .seconds = NAN};
    const struct bp_option options[] = {
        {"device", 0, BP_OPTION_TEXT, "DEV", "where (default cpu:0)", &r.device_name},
        {"data", 0, BP_OPTION_TEXT, "DIR",
         "inputs from DIR/input_N.pb; outputs are compared with DIR/output_N.pb", &w.data},
        {"rtol", 0, BP_OPTION_NUMBER, "R", "relative tolerance of that (default 0.001)", &r.rtol, 0,
         1},
        {"shape", 0, BP_OPTION_TEXTS, "NAME=1x3x8",
         "extents of an input; what a model leaves open is 1 otherwise", &w.shapes},
        {"repeat", 0, BP_OPTION_WHOLE, "N", "run it N times more, and say how long that takes",
         &w.repeat, 1, 1e6},
        {"verify", 0, BP_OPTION_FLAG, NULL,
         "run each node by the reference too, from the same inputs", &w.verify},
        {"weights", 0, BP_OPTION_TEXT, "SEED",
         "in place of the model's: random, of a size that keeps values of a size (He)",
         &w.weights},
        {"profile", 0, BP_OPTION_OUTPUT, "FILE",
         "tables by operator and node, and a trace of each node for Chrome's viewer", &w.profile},
        {"roof", 0, BP_OPTION_TEXT, "GB/S,GFLOP/S",
         "peak of the device, for --profile (default: measured, in 0.2 s)", &w.roof},
        {"dump-passes", 0, BP_OPTION_FOLDER, "DIR",
         "write the program after each pass of the compiler, as text and for Graphviz",
         &w.dump},
        {"cache", 0, BP_OPTION_TEXT, "DIR",
         "keep what the compiler finds in files there (default: BP_PROGRAM_CACHE)",
         &w.cache},
        {"max-fold", 0, BP_OPTION_NUMBER, "MIB",
         "refuse a model that makes more while it loads (default 1024 + 8 x weights)", &w.fold_mib},
        {"max-memory", 0, BP_OPTION_NUMBER, "MIB",
         "end a run whose values take more, without weights (default: no limit)", &w.run_mib},
        {"max-rounds", 0, BP_OPTION_NUMBER, "N",
         "end a run whose loops go round more often (default 1048576)", &w.rounds},
        {"max-seconds", 0, BP_OPTION_NUMBER, "S",
         "end a load or run that takes longer, between nodes (default: no limit)",
         &w.seconds},
        {"json", 0, BP_OPTION_FLAG, NULL, "print JSON; what else is said goes to standard error",
         &w.json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "run",
        .words = "MODEL.onnx",
        .min_words = 1,
        .max_words = 1,
        .about = "Runs an ONNX model on a device. Without --data element i of n of a float input "
                 "is i / n, and integers are 0.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, &r.path);

    if (status != BP_OPTIONS_GOOD) return status;
    if (!check_words(&w, &r)) return BP_EXIT_USAGE;
    if (w.json) r.output = stderr; /* standard output gets the JSON only */
    status = run_open(&r, &w);
    if (!status) status = model_work(&r, &w);
    run_close(&r);
    return status;
}
