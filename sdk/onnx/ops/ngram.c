/* SPDX-License-Identifier: Apache-2.0 */
/* ngram.c: runs TfIdfVectorizer on integers: counts on the host how often n-grams of tokens
 * occur. */
#include "list.h"
#include <stdlib.h>
#include <string.h>

struct grams {
    struct onnx_ints token, pool, begin, place; /* begin: where grams of 1, 2, ... tokens begin */
    const float *weight;                        /* of each gram, or NULL: 1 */
    int64_t least, most, skips;
    int64_t rows, columns, width; /* of the input; width: of a row of the result */
    bool once;                    /* repeated occurrences of a gram count once */
};

static enum bp_status ngram_wrong(const char *what)
{
    return onnx_error(BP_ERR_INVALID, "the pool of n-grams: %s", what);
}

/* Checks that the attributes describe one pool consistently. */
static enum bp_status check_pool(const struct grams *g)
{
    int64_t grams = 0;

    if (g->least < 1 || g->most < g->least || g->skips < 0) return ngram_wrong("lengths or skips");
    if (g->begin.n < g->most) return ngram_wrong("ngram_counts has too few entries");
    for (int64_t k = 0; k < g->begin.n; k++) {
        int64_t end = k + 1 < g->begin.n ? g->begin.at[k + 1] : g->pool.n;
        if (g->begin.at[k] < 0 || end < g->begin.at[k] || end > g->pool.n ||
            (end - g->begin.at[k]) % (k + 1))
            return ngram_wrong("ngram_counts does not divide it");
        grams += (end - g->begin.at[k]) / (k + 1);
    }
    if (grams != g->place.n) return ngram_wrong("ngram_indexes has another number of entries");
    for (int64_t i = 0; i < grams; i++)
        if (g->place.at[i] < 0 || g->place.at[i] >= INT32_MAX)
            return ngram_wrong("an index is none");
    return BP_OK;
}

static enum bp_status read_weights(struct onnx_call *c, struct grams *g)
{
    const Onnx__AttributeProto *weights = onnx_attr(c->node, "weights");

    g->once = onnx_attr_is(c, "mode", "IDF", "");
    if (onnx_attr_is(c, "mode", "TF", "") || !weights) return BP_OK;
    if ((int64_t)weights->n_floats != g->place.n)
        return ngram_wrong("weights has another number of entries");
    g->weight = weights->floats;
    return BP_OK;
}

static enum bp_status read_grams(struct onnx_call *c, struct grams *g)
{
    struct bp_tensor_info info;
    struct onnx_value *x;

    *g = (struct grams){.pool = onnx_attr_ints(c, "pool_int64s"),
                        .begin = onnx_attr_ints(c, "ngram_counts"),
                        .place = onnx_attr_ints(c, "ngram_indexes"),
                        .least = onnx_attr_int(c, "min_gram_length", 0),
                        .most = onnx_attr_int(c, "max_gram_length", 0),
                        .skips = onnx_attr_int(c, "max_skip_count", 0)};
    TRY(onnx_expect(c, 0, &x));
    info = onnx_info(x->tensor);
    if (g->pool.n < 0) return onnx_error(BP_ERR_UNSUPPORTED, "only n-grams of integers are "
                                         "supported");
    if (info.rank < 1 || info.rank > 2)
        return onnx_error(BP_ERR_INVALID, "x has %u axes, 1 or 2 are expected", info.rank);
    TRY(check_pool(g));
    TRY(read_weights(c, g));
    g->rows = info.rank == 2 ? info.shape[0] : 1;
    g->columns = info.shape[info.rank - 1];
    for (int64_t i = 0; i < g->place.n; i++)
        if (g->place.at[i] >= g->width) g->width = g->place.at[i] + 1;
    return onnx_in_ints(c, 0, &g->token);
}

/* Counts how often a gram of n tokens occurs in a row with `between` other tokens between two of
 * its own. */
static int64_t ngram_count(const struct grams *g, const int64_t *row, const int64_t *gram,
                           int64_t n, int64_t between)
{
    int64_t reach = (n - 1) * (between + 1), found = 0;

    for (int64_t at = 0; at + reach < g->columns; at++) {
        int64_t k = 0;
        while (k < n && row[at + k * (between + 1)] == gram[k]) k++;
        found += k == n;
    }
    return found;
}

static void fill_row(const struct grams *g, const int64_t *row, float *out)
{
    int64_t number = 0;

    for (int64_t n = 1; n <= g->begin.n; n++) {
        int64_t end = n < g->begin.n ? g->begin.at[n] : g->pool.n;
        for (int64_t at = g->begin.at[n - 1]; at < end; at += n, number++) {
            int64_t found = 0, most = 0; /* the largest skip that fits into the row */
            if (n < g->least || n > g->most || n > g->columns) continue;
            if (n > 1) most = (g->columns - 1) / (n - 1) - 1;
            if (most > g->skips) most = g->skips;
            for (int64_t s = 0; s <= most; s++)
                found += ngram_count(g, row, g->pool.at + at, n, s);
            if (g->once && found) found = 1;
            out[g->place.at[number]] += (float)found * (g->weight ? g->weight[number] : 1);
        }
    }
}

enum bp_status onnx_tf_idf(struct onnx_call *c)
{
    struct bp_tensor *y;
    enum bp_status status;
    struct grams g;
    float *data;

    TRY(read_grams(c, &g));
    TRY(onnx_check_host(c, (uint64_t)g.width + 1, 2 * ((uint64_t)g.rows + 1) * sizeof *data));
    data = calloc((size_t)g.rows + 1, ((size_t)g.width + 1) * sizeof *data);
    if (!data) return onnx_no_memory();
    for (int64_t r = 0; r < g.rows; r++)
        fill_row(&g, g.token.at + r * g.columns, data + r * g.width);
    status = onnx_constant(c, BP_F32, onnx_info(onnx_in(c, 0)).rank,
                           onnx_info(onnx_in(c, 0)).rank == 2 ? (int64_t[]){g.rows, g.width}
                                                              : (int64_t[]){g.width, 0},
                           data, &y);
    free(data);
    if (status) return status;
    c->symbolic = false;
    onnx_by_host(c);
    return onnx_give(c, 0, y);
}
