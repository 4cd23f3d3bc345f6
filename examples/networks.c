/* SPDX-License-Identifier: Apache-2.0 */
/* networks.c: records networks as graphs, exports them as ONNX models, loads the models, runs graph
 * and model on one device, both as programs, and checks that the results are equal.
 *
 *   networks DIR [--device DEV] [--whole]
 *
 * Writes DIR/resnet50.onnx and DIR/bert.onnx: small networks, or with --whole ResNet-50 for images
 * of 224 x 224 and BERT with 12 layers. */
#include "networks.h"
#include <backplane/model.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double largest_difference(struct bp_stream *stream, struct bp_tensor *a,
                                 struct bp_tensor *b, double *out_largest)
{
    struct bp_tensor_info info = {.size = sizeof info};
    double worst = 0, largest = 0;
    float *data;

    if (bp_tensor_get_info(a, &info)) return NAN;
    data = malloc(2 * info.bytes);
    if (!data || bp_tensor_read(stream, a, data, info.bytes) ||
        bp_tensor_read(stream, b, data + info.count, info.bytes))
        worst = NAN;
    for (int64_t i = 0; data && i < info.count; i++) {
        worst = fmax(worst, fabs((double)data[i] - (double)data[info.count + i]));
        largest = fmax(largest, fabs((double)data[i]));
    }
    free(data);
    *out_largest = largest;
    return worst;
}

/* Makes the input: element i of n has the value i / n. */
static enum bp_status networks_make_input(struct network *n, struct bp_tensor **out)
{
    struct bp_value_info value = {.size = sizeof value};
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_graph_value(n->graph, 0, &value);
    float *data;

    if (!status)
        status = bp_tensor_create(n->device, value.dtype, value.rank, value.shape, out);
    if (!status) status = bp_tensor_get_info(*out, &info);
    if (status) return status;
    data = malloc(info.bytes);
    for (int64_t i = 0; data && i < info.count; i++) data[i] = (float)i / (float)info.count;
    status = data ? bp_tensor_write(n->stream, *out, data, info.bytes) : BP_ERR_MEMORY;
    free(data);
    return status;
}

/* Runs the graph and the model that was exported from it, and compares the results. */
static int networks_compare(struct network *n, const char *name, const char *path)
{
    struct bp_tensor *x = NULL, *y = NULL, *again = NULL;
    struct bp_model_info info = {.size = sizeof info};
    struct bp_program *program = NULL;
    struct bp_model *model = NULL;
    double worst = NAN, largest = 0;
    int failed = n->status || networks_make_input(n, &x) ||
                 bp_model_export(n->graph, &n->output, 1, n->stream, path) ||
                 bp_program_create(n->graph, n->device, &program) ||
                 bp_program_run(program, n->stream, &x, 1, &y, 1) ||
                 bp_model_load(n->device, path, NULL, &model) ||
                 bp_model_run(model, n->stream, &x, 1, &again, 1) ||
                 bp_model_get_info(model, &info);

    if (failed) fprintf(stderr, "%s: %s\n", name, bp_error_message());
    else worst = largest_difference(n->stream, y, again, &largest);
    failed = failed || !(worst <= 1e-6 * largest) || !(largest > 0);
    if (!isnan(worst))
        printf("%s: %u nodes, %.1f MB of weights; as a graph and as a model: largest %.4g, largest "
               "difference %.2g%s\n", name, info.nodes, 1e-6 * (double)info.weight_bytes, largest,
               worst, failed ? ", WRONG" : "");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(again);
    bp_model_destroy(model);
    bp_program_destroy(program);
    return failed;
}

static int networks_both(struct bp_device *device, const char *folder, int whole)
{
    int failed = 0;

    for (int i = 0; i < 2; i++) {
        const char *name = i ? "bert" : "resnet50";
        struct network *n = malloc(sizeof *n);
        char path[512];
        if (!n) return 1;
        snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
        if (!network_init(n, device, 1)) {
            if (i) network_bert(n, whole ? 12 : 1, whole ? 128 : 16);
            else network_resnet50(n, whole ? 224 : 64);
        }
        failed |= networks_compare(n, name, path);
        network_finish(n);
        free(n);
    }
    return failed;
}

int main(int argc, char **argv)
{
    const char *name = "cpu", *folder = NULL;
    struct bp_device *device = NULL;
    struct bp_core *core = NULL;
    int whole = 0, failed;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--whole")) whole = 1;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc) name = argv[++i];
        else folder = argv[i];
    }
    if (!folder) {
        fprintf(stderr, "usage: networks DIR [--device DEV] [--whole]\n");
        return 2;
    }
    failed = bp_core_create(NULL, &core) || bp_device_create(core, name, &device);
    if (failed) fprintf(stderr, "%s\n", bp_error_message());
    else failed = networks_both(device, folder, whole);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return failed;
}
