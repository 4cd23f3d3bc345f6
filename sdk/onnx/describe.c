/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c: returns what a model's file states about the model: its metadata and opsets; and
 * tests whether an operator of ONNX is supported. */
#include "resolve.h"
#include "row.h"
#include <string.h>

enum bp_status bp_model_get_metadata(struct bp_model *model, uint32_t index,
                                     struct bp_model_metadata *out)
{
    struct bp_model_metadata entry = {.size = sizeof entry};

    TRY(onnx_check_model("bp_model_get_metadata", model));
    if (index >= model->proto->n_metadata_props)
        return onnx_error(BP_ERR_NOT_FOUND, "bp_model_get_metadata: there is no number %u, of %zu",
                          index, model->proto->n_metadata_props);
    entry.key = onnx_text(model->proto->metadata_props[index]->key);
    entry.value = onnx_text(model->proto->metadata_props[index]->value);
    return onnx_fill_info("bp_model_get_metadata", out, &entry, sizeof entry);
}

const char *bp_model_find_metadata(struct bp_model *model, const char *key)
{
    if (!onnx_is_model(model) || !key) return NULL;
    for (size_t i = 0; i < model->proto->n_metadata_props; i++) {
        const Onnx__StringStringEntryProto *entry = model->proto->metadata_props[i];
        if (!strcmp(onnx_text(entry->key), key)) return onnx_text(entry->value);
    }
    return NULL;
}

enum bp_status bp_model_get_opset(struct bp_model *model, uint32_t index,
                                  struct bp_model_opset *out)
{
    struct bp_model_opset opset = {.size = sizeof opset};

    TRY(onnx_check_model("bp_model_get_opset", model));
    if (index >= model->proto->n_opset_import)
        return onnx_error(BP_ERR_NOT_FOUND, "bp_model_get_opset: there is no number %u, of %zu",
                          index, model->proto->n_opset_import);
    opset.domain = onnx_domain(model->proto->opset_import[index]->domain);
    opset.version = model->proto->opset_import[index]->version;
    return onnx_fill_info("bp_model_get_opset", out, &opset, sizeof opset);
}

void onnx_describe(const struct bp_model *model, struct bp_model_info *info)
{
    const Onnx__ModelProto *proto = model->proto;

    info->opset = onnx_opset(model);
    info->producer = onnx_text(proto->producer_name);
    info->producer_version = onnx_text(proto->producer_version);
    info->domain = onnx_text(proto->domain);
    info->doc = onnx_text(proto->doc_string);
    info->graph_name = onnx_text(proto->graph->name);
    info->graph_doc = onnx_text(proto->graph->doc_string);
    info->model_version = proto->model_version;
    info->ir_version = proto->ir_version;
    info->opsets = (uint32_t)proto->n_opset_import;
    info->metadata = (uint32_t)proto->n_metadata_props;
}

/* Finds the first row of an operator, for a message. */
static const struct onnx_row *first_row(const char *domain, const char *op_type)
{
    for (int64_t opset = 1; opset <= ONNX_OPSET_MAX; opset++) {
        const struct onnx_row *row = onnx_row_find(domain, op_type, opset);
        if (row) return row;
    }
    return NULL;
}

static enum bp_status not_in_table(const char *domain, const char *op_type, int64_t opset)
{
    const struct onnx_row *first = first_row(domain, op_type);
    const char *point = *domain ? "." : "";

    if (!*domain && opset > ONNX_OPSET_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "opset %lld, 1 to %d are known", (long long)opset,
                          ONNX_OPSET_MAX);
    if (first && *domain)
        return onnx_error(BP_ERR_UNSUPPORTED, "operator %.60s.%.60s of opset %lld is not in the "
                          "table, that of opset 1 is", domain, op_type, (long long)opset);
    if (first)
        return onnx_error(BP_ERR_UNSUPPORTED, "operator %.60s of opset %lld is not in the table, "
                          "from opset %d on it is", op_type, (long long)opset, first->since);
    return onnx_error(BP_ERR_UNSUPPORTED, "operator %.60s%s%.60s of opset %lld is not in the table "
                      "(docs/onnx.md), and no plugin that is loaded defines it", domain, point,
                      op_type, (long long)opset);
}

enum bp_status bp_model_supports(const char *domain, const char *op_type, int64_t opset,
                                 struct bp_model_row *out_row)
{
    const Onnx__NodeProto node = {.domain = (char *)domain, .op_type = (char *)op_type};
    const struct bp_opinfo *own;
    const struct onnx_row *row;
    bool known;

    if (!op_type || !*op_type)
        return onnx_error(BP_ERR_INVALID, "bp_model_supports: op_type is %s",
                          op_type ? "empty" : "NULL");
    if (opset < 1)
        return onnx_error(BP_ERR_INVALID, "bp_model_supports: opset is %lld, expected 1 or more",
                          (long long)opset);
    domain = onnx_domain(domain);
    own = onnx_custom_op(&node);
    known = *domain || opset <= ONNX_OPSET_MAX;
    row = !own && known ? onnx_row_find(domain, op_type, opset) : NULL;
    if (!own && !row) return not_in_table(domain, op_type, opset);
    if (out_row && own) *out_row = (struct bp_model_row){own->name, own->name, 1, 1, 0};
    else if (out_row)
        *out_row = (struct bp_model_row){row->name, row->op, row->since, !row->emit, 0};
    return BP_OK;
}
