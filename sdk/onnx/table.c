/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: holds the rows of table.def and finds the row of an operator. */
#include "ops.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct onnx_row row[] = {
#define MAP(name, since, op, map) {#name, since, #op, map, NULL},
#define ROW(name, since, op, emit) {#name, since, #op, NULL, onnx_##emit},
#include "table.def"
#undef MAP
#undef ROW
};

enum { ROWS = sizeof row / sizeof *row };

/* Sorted by name, then by version: loading searches the list once for each node. */
static const struct onnx_row *sorted[ROWS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int table_by_name(const void *a, const void *b)
{
    const struct onnx_row *x = *(const struct onnx_row *const *)a;
    const struct onnx_row *y = *(const struct onnx_row *const *)b;
    int order = strcmp(x->name, y->name);

    return order ? order : x->since - y->since;
}

static void table_sort(void)
{
    for (size_t i = 0; i < ROWS; i++) sorted[i] = &row[i];
    qsort(sorted, ROWS, sizeof *sorted, table_by_name);
}

const struct onnx_row *onnx_rows(size_t *out_n)
{
    *out_n = ROWS;
    return row;
}

/* Finds the row with the highest version that is not above the model's. */
const struct onnx_row *onnx_row_find(const char *domain, const char *name, int64_t opset)
{
    size_t low = 0, high = ROWS;
    char full[96];

    if (strchr(name, '.')) return NULL; /* names of rows have a point only behind a domain */
    if (!strcmp(domain, "com.microsoft")) {
        if (opset != 1) return NULL;
        snprintf(full, sizeof full, "%s.%s", domain, name);
        name = full;
    } else if (*domain && strcmp(domain, "ai.onnx.preview.training") &&
               strcmp(domain, "ai.onnx.preview"))
        return NULL;
    (void)pthread_once(&once, table_sort);
    while (low < high) { /* low: the number of rows up to the wanted one */
        size_t middle = (low + high) / 2;
        int order = strcmp(sorted[middle]->name, name);
        if (order < 0 || (!order && sorted[middle]->since <= opset)) low = middle + 1;
        else high = middle;
    }
    return low && !strcmp(sorted[low - 1]->name, name) ? sorted[low - 1] : NULL;
}
