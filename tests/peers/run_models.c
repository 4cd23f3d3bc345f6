/* SPDX-License-Identifier: Apache-2.0 */
/* run_models.c: runs models that are expected to be refused as often as not, for mutants.py.
 *
 *     run_models DEVICE     each line of standard input is the beginning of paths, such as
 *                           "folder/": of model.onnx and input_N.pb
 *
 * Prints a line for each model, with tabs between the words: the outcome, the peak of the
 * process's resident memory during the model in KiB, and a detail, whose line ends are written
 * "\n". Outcomes: "outputs" (the detail is their number), "refused" (the detail is the failed call
 * and its message), "broken" (a promise of model.h is broken; the detail says which). Each model is
 * run twice, because the second run uses state that the first one made. */
#include <backplane/model.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE_SIZE = 4096,
    PATH_SIZE = LINE_SIZE + 32
};

#define MIB(n) ((uint64_t)(n) << 20)

/* A mutated model may request terabytes and years; these limits refuse such requests with a
 * message. The caller's limits are larger. */
static const struct bp_model_options limits = {
    .size = sizeof limits,
    .any_shape = 1,
    .fold_bytes = MIB(128),
    .run_bytes = MIB(256),
    .rounds = 1 << 12,
    .time_ms = 5000,
};

struct run {
    struct bp_stream *stream;
    struct bp_model *model;
    struct bp_model_value *in, *out;
    uint32_t n_in, n_out;
    const char *outcome;
    char detail[4096];
};

/* Resets the peak that run_peak reports to the memory that is resident now. */
static void run_peak_reset(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");

    if (!file) return;
    fputs("5", file);
    fclose(file);
}

static long run_peak(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
    if (file) fclose(file);
    return kib;
}

__attribute__((format(printf, 3, 4))) static void run_end(struct run *r, const char *outcome,
                                                          const char *format, ...)
{
    va_list more;

    r->outcome = outcome;
    va_start(more, format);
    vsnprintf(r->detail, sizeof r->detail, format, more);
    va_end(more);
}

static void run_print(const struct run *r)
{
    printf("%s\t%ld\t", r->outcome, run_peak());
    for (const char *at = r->detail; *at; at++)
        if (*at == '\n') fputs("\\n", stdout);
        else putchar(*at == '\t' || *at == '\r' ? ' ' : *at);
    putchar('\n');
    fflush(stdout);
}

/* Returns false, and records it, unless the call succeeded. */
static bool run_good(struct run *r, enum bp_status status, const char *call)
{
    const char *text = bp_error_message();

    if (!status) return true;
    if (*text) run_end(r, "refused", "%s: %s", call, text);
    else run_end(r, "broken", "%s: status %d without a message", call, (int)status);
    return false;
}

/* Reads the inputs. A model with more inputs than files runs without those. */
static bool run_read(struct run *r, const char *place)
{
    for (uint32_t i = 0; i < r->n_in; i++) {
        struct bp_model_port port = {.size = sizeof port};
        char path[PATH_SIZE];
        if (!run_good(r, bp_model_input(r->model, i, &port), "bp_model_input")) return false;
        snprintf(path, sizeof path, "%sinput_%u.pb", place, i);
        if (access(path, R_OK)) continue;
        if (!run_good(r, bp_model_value_load(r->model, &port, path, &r->in[i]),
                      "bp_model_value_load"))
            return false;
    }
    return true;
}

/* Copies each output to the host: its memory is there, and the device's work has ended well. */
static bool run_fetch(struct run *r)
{
    for (uint32_t i = 0; i < r->n_out; i++)
        for (size_t k = 0; k < r->out[i].n; k++) {
            struct bp_tensor_info info = {.size = sizeof info};
            if (!run_good(r, bp_tensor_get_info(r->out[i].at[k], &info), "bp_tensor_get_info"))
                return false;
            char *data = malloc(info.bytes + 1);
            if (!data) abort();
            enum bp_status status = bp_tensor_read(r->stream, r->out[i].at[k], data, info.bytes);
            free(data);
            if (!run_good(r, status, "bp_tensor_read")) return false;
        }
    return true;
}

static bool run_once(struct run *r)
{
    enum bp_status status;

    (void)bp_error_set(BP_OK, "");
    status = bp_model_run_values(r->model, r->stream, r->in, r->n_in, r->out, r->n_out);
    for (uint32_t i = 0; status && i < r->n_out; i++)
        if (r->out[i].at || r->out[i].n || r->out[i].kind) {
            run_end(r, "broken", "bp_model_run_values failed and set output %u", i);
            return false;
        }
    if (!run_good(r, status, "bp_model_run_values")) return false;
    return run_good(r, bp_stream_synchronize(r->stream), "bp_stream_synchronize") && run_fetch(r);
}

static void run_finish(struct run *r)
{
    for (uint32_t i = 0; r->in && i < r->n_in + r->n_out; i++) bp_model_value_finish(&r->in[i]);
    free(r->in);
    bp_model_destroy(r->model);
}

static void run_through(struct run *r, struct bp_device *device, const char *place)
{
    char path[PATH_SIZE];
    bool good;

    (void)bp_error_set(BP_OK, "");
    snprintf(path, sizeof path, "%smodel.onnx", place);
    if (!run_good(r, bp_model_load(device, path, &limits, &r->model), "bp_model_load")) return;
    r->n_in = bp_model_inputs(r->model);
    r->n_out = bp_model_outputs(r->model);
    r->in = calloc(r->n_in + r->n_out + 1, sizeof *r->in);
    if (!r->in) abort();
    r->out = r->in + r->n_in;
    good = run_read(r, place);
    for (int round = 0; good && round < 2; round++) {
        for (uint32_t i = 0; i < r->n_out; i++) bp_model_value_finish(&r->out[i]);
        memset(r->out, 0, r->n_out * sizeof *r->out);
        good = run_once(r);
    }
    if (good) run_end(r, "outputs", "%u", r->n_out);
}

/* Prints only when the model is destroyed, because a crash of that belongs to the model. */
static void run_line(struct bp_device *device, struct bp_stream *stream, const char *place)
{
    struct run r = {.stream = stream};

    run_peak_reset();
    run_through(&r, device, place);
    run_finish(&r);
    run_print(&r);
}

int main(int argc, char **argv)
{
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    char line[LINE_SIZE];
    const char *name = argc > 1 ? argv[1] : "cpu";

    if (bp_core_create(NULL, &core) || bp_device_create(core, name, &device) ||
        bp_stream_create(device, &stream)) {
        fprintf(stderr, "%s\n", bp_error_message());
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        run_line(device, stream, line);
    }
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
