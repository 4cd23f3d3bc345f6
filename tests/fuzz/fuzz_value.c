/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_value.c: reads arbitrary bytes as a file of ONNX test data: as a tensor, a sequence and an
 * optional. Each must be read, or refused with a message and without a result. */
#include "fuzz.h"
#include "../onnx/small_models.h"
#include <backplane/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct bp_model *model;
static char path[32];
static int file;

static void value_begin(void)
{
    static const char *const small[] = {SMALL_MODELS};
    struct bp_device *device;
    struct bp_core *core;

    setenv("BP_MEM_LIMIT", "64M", 1);
    file = memfd_create("value", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (file < 0 || bp_core_create(NULL, &core) || bp_device_create(core, "cpu", &device) ||
        bp_model_load_memory(device, small[0], strlen(small[0]), NULL, &model)) {
        fprintf(stderr, "%s\n", bp_error_message());
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bp_model_port port = {.size = sizeof port};

    if (!model) value_begin();
    if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size) abort();
    if (bp_model_input(model, 0, &port)) abort();
    for (uint32_t kind = BP_MODEL_TENSOR; kind <= BP_MODEL_OPTIONAL; kind++) {
        struct bp_model_value value = {0};
        port.kind = kind;
        port.dtype = size & 1 ? BP_BF16 : BP_F32; /* whose bits may be stored as u16 */
        (void)bp_error_set(BP_OK, "");
        if (bp_model_value_load(model, &port, path, &value)) {
            if (value.at || value.n || !*bp_error_message()) abort();
            continue;
        }
        for (size_t i = 0; i < value.n; i++)
            if (!value.at[i]) abort();
        bp_model_value_finish(&value);
    }
    return 0;
}

/* Tensors of 2 x 2 floats and of 4 u16, a sequence and an optional of a tensor. */
const char *const bp_fuzz_seeds[] = {
    "\x08\x02\x08\x02\x10\x01\"\x08????????\"\x08????????\x42\x01x",
    "\x08\x02\x08\x02\x10\x01J\x10????????????????",
    "\x08\x04\x10\x04J\x08????????",
    "\x0a\x01s\x10\x01\x1a\x10\x08\x02\x10\x01J\x08????????\x42\x01x",
    "\x0a\x01o\x10\x01\x1a\x10\x08\x02\x10\x01J\x08????????\x42\x01x",
    NULL,
};
