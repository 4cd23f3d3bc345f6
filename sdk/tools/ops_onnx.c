/* SPDX-License-Identifier: Apache-2.0 */
/* ops_onnx.c: `bp ops --onnx`: prints the table of docs/onnx.md. */
#include "tools.h"

#include <backplane/model.h>

int bp_ops_onnx(void)
{
    struct bp_model_row row;

    printf("| ONNX | from opset | operator here | |\n|---|---|---|---|\n");
    for (uint32_t i = 0; !bp_model_get_row(i, &row); i++)
        printf("| %s | %lld | %s%s%s | %s |\n", row.name, (long long)row.since, *row.op ? "`" : "",
               row.op, *row.op ? "`" : "", row.exact ? "" : "by code");
    return BP_EXIT_GOOD;
}
