/* SPDX-License-Identifier: Apache-2.0 */
/* test_describe.c: tests what a model's file states about the model (metadata, opsets, names of
 * open extents), and the query for an operator without a model. */
#include "../unit/fixture.h"
#include <backplane/model.h>

/* y = -x; with metadata, names and opsets. */
static const char described[] =
    "\x08\x08\x12\x05maker\x1a\x03\x32.1\"\x0borg.example(\x07\x32\x08\x41 model.:_\x0a"
    "\x0b\x0a\x01x\x12\x01y\"\x03Neg\x12\x03netR\x0bIt negates.Z\x1a\x0a\x01x\x12\x15\x0a"
    "\x13\x08\x01\x12\x0f\x0a\x07\x12\x05\x62\x61tch\x0a\x02\x08\x04\x0a\x00\x62\"\x0a\x01"
    "y\x12\x1d\x0a\x1b\x08\x01\x12\x17\x0a\x07\x12\x05\x62\x61tch\x0a\x02\x08\x04\x0a\x08"
    "\x12\x06lengthB\x04\x0a\x00\x10\x11\x42\x11\x0a\x0d\x63om.microsoft\x10\x01r\x13\x0a"
    "\x05names\x12\x0a{0: 'cat'}r\x0c\x0a\x06stride\x12\x02\x33\x32r\x0e\x0a\x05names\x12"
    "\x05later";

Test(describe, model_states_its_facts)
{
    struct bp_model_info info = {.size = sizeof info};
    struct fixture f = fixture_init();
    struct bp_model *model;

    OK(bp_model_load_memory(f.device, described, sizeof described - 1, NULL, &model));
    OK(bp_model_get_info(model, &info));
    cr_expect_str_eq(info.producer, "maker");
    cr_expect_str_eq(info.producer_version, "2.1");
    cr_expect_str_eq(info.domain, "org.example");
    cr_expect_str_eq(info.doc, "A model.");
    cr_expect_str_eq(info.graph_name, "net");
    cr_expect_str_eq(info.graph_doc, "It negates.");
    cr_expect(info.model_version == 7 && info.ir_version == 8);
    cr_expect(info.opset == 17 && info.opsets == 2 && info.metadata == 3);
    bp_model_destroy(model);
    fixture_finish(&f);
}

Test(describe, metadata_and_opsets_are_listed)
{
    static const char *const key[] = {"names", "stride", "names"};
    static const char *const value[] = {"{0: 'cat'}", "32", "later"};
    struct bp_model_metadata entry = {.size = sizeof entry};
    struct bp_model_opset opset = {.size = sizeof opset};
    struct fixture f = fixture_init();
    struct bp_model *model;

    OK(bp_model_load_memory(f.device, described, sizeof described - 1, NULL, &model));
    for (uint32_t i = 0; i < 3; i++) {
        OK(bp_model_get_metadata(model, i, &entry));
        cr_expect_str_eq(entry.key, key[i]);
        cr_expect_str_eq(entry.value, value[i]);
    }
    FAILS(BP_ERR_NOT_FOUND, "no number 3, of 3", bp_model_get_metadata(model, 3, &entry));
    cr_expect_str_eq(entry.value, "later");
    cr_expect_str_eq(bp_model_find_metadata(model, "names"), "{0: 'cat'}");
    cr_expect_null(bp_model_find_metadata(model, "name"));
    OK(bp_model_get_opset(model, 0, &opset));
    cr_expect(!*opset.domain && opset.version == 17);
    OK(bp_model_get_opset(model, 1, &opset));
    cr_expect_str_eq(opset.domain, "com.microsoft");
    cr_expect_eq(opset.version, 1);
    FAILS(BP_ERR_NOT_FOUND, "no number 2, of 2", bp_model_get_opset(model, 2, &opset));
    bp_model_destroy(model);
    fixture_finish(&f);
}

Test(describe, open_extents_have_names)
{
    struct bp_model_port x = {.size = sizeof x}, y = {.size = sizeof y};
    struct fixture f = fixture_init();
    struct bp_model *model;

    OK(bp_model_load_memory(f.device, described, sizeof described - 1, NULL, &model));
    OK(bp_model_input(model, 0, &x));
    OK(bp_model_output(model, 0, &y));
    cr_assert(x.rank == 3 && y.rank == 3 && x.shape[0] == -1 && x.shape[1] == 4);
    cr_expect_str_eq(x.extent_name[0], "batch");
    cr_expect_str_eq(x.extent_name[1], "");
    cr_expect_str_eq(x.extent_name[2], "");
    cr_expect_str_eq(y.extent_name[0], "batch");
    cr_expect_str_eq(y.extent_name[2], "length");
    bp_model_destroy(model);
    fixture_finish(&f);
}

Test(describe, operators_are_queried_without_a_model)
{
    struct bp_model_row row;

    OK(bp_model_supports(NULL, "Clip", 6, &row));
    cr_expect(row.since == 1 && !strcmp(row.op, "clip") && !strcmp(row.name, "Clip"));
    OK(bp_model_supports("ai.onnx", "Clip", 12, &row));
    cr_expect_eq(row.since, 11);
    OK(bp_model_supports("", "Relu", 28, NULL));
    OK(bp_model_supports("com.microsoft", "FusedMatMul", 1, &row));
    cr_expect_str_eq(row.op, "matmul");
    FAILS(BP_ERR_UNSUPPORTED, "from opset 18 on", bp_model_supports("", "Mish", 17, &row));
    cr_expect_str_eq(row.op, "matmul"); /* untouched */
    FAILS(BP_ERR_UNSUPPORTED, "1 to 28 are known", bp_model_supports("", "Relu", 29, &row));
    FAILS(BP_ERR_UNSUPPORTED, "operator com.example.Relu of opset 1",
          bp_model_supports("com.example", "Relu", 1, &row));
    FAILS(BP_ERR_UNSUPPORTED, "that of opset 1 is",
          bp_model_supports("com.microsoft", "FusedMatMul", 2, &row));
    FAILS(BP_ERR_INVALID, "opset is 0", bp_model_supports("", "Relu", 0, &row));
    FAILS(BP_ERR_INVALID, "op_type is NULL", bp_model_supports("", NULL, 1, &row));
}

/* The query and the table agree for each row. */
Test(describe, rows_are_supported)
{
    struct bp_model_row row, got;
    uint32_t n = 0;

    for (; !bp_model_get_row(n, &row); n++) {
        const char *point = strrchr(row.name, '.');
        char domain[64] = "";
        if (point) {
            memcpy(domain, row.name, (size_t)(point - row.name));
            domain[point - row.name] = 0;
        }
        OK(bp_model_supports(domain, point ? point + 1 : row.name, row.since, &got));
        cr_expect(!strcmp(got.name, row.name) && got.since == row.since);
    }
    cr_expect(n > 100);
}
