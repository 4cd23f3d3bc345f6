/* SPDX-License-Identifier: Apache-2.0 */
/* test_unpack.c: tests that unpacking a model reports lack of memory as BP_ERR_MEMORY, whichever
 * allocation fails. wire.c is compiled into this program, with a malloc that fails on demand. */
#include "../../sdk/onnx/onnx.h"
#include "small_models.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const small[] = {SMALL_MODELS};
static int allocations, failing; /* the number so far; the one that fails, 0: none */

void *failing_malloc(size_t size);
void *failing_malloc(size_t size)
{
    return ++allocations == failing ? NULL : calloc(1, size);
}

static enum bp_status unpack_file(const char *data, size_t size, Onnx__ModelProto **out)
{
    allocations = 0;
    return onnx_unpack(&onnx__model_proto__descriptor, data, size, "model", out);
}

Test(unpack_file, short_memory_is_reported)
{
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        Onnx__ModelProto *model = NULL;
        int all;
        failing = 0;
        cr_assert_eq(unpack_file(small[i], strlen(small[i]), &model), BP_OK);
        cr_expect_str_eq(model->graph->name, "g");
        onnx__model_proto__free_unpacked(model, NULL);
        all = allocations;
        cr_assert_gt(all, 10);
        for (failing = 1, model = NULL; failing <= all; failing++) {
            cr_expect_eq(unpack_file(small[i], strlen(small[i]), &model), BP_ERR_MEMORY);
            cr_expect(strstr(bp_error_message(), "model: no memory on the host"), "%s",
                      bp_error_message());
            cr_expect(!model);
        }
    }
}

/* A string that is no message of the field's type is reported as wrong, not as lack of memory. */
Test(unpack_file, wrong_bytes_are_reported)
{
    Onnx__ModelProto *model = NULL;

    failing = 0;
    cr_expect_eq(unpack_file("\x0a\x01", 2, &model), BP_ERR_INVALID);
    cr_expect(!model);
}
