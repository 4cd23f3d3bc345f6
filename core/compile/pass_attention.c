/* SPDX-License-Identifier: Apache-2.0 */
/* pass_attention.c: replaces softmax(q k s) v, two products with a softmax between, by attention,
 * which needs no memory for the scores. Products with a mask stay: where a mask hides all keys of a
 * query, they give NaN, and attention gives 0. */
#include "passes.h"
#include "pattern.h"
#include "rewrite.h"

#include "../call/compose.h"

#include <backplane/ops.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The scale is a factor, or a divisor; names and captures are numbered in the order of the text. */
static const struct {
    const char *text;
    bool divides, has_scale;
} attention_forms[] = {
    {"matmul(softmax(mul(matmul(q, k), $s); axis=-1), v)", false, true},
    {"matmul(softmax(div(matmul(q, k), $s); axis=-1), v)", true, true},
    {"matmul(softmax(matmul(q, k); axis=-1), v)", false, false},
};
enum { ATTENTION_FORMS = sizeof attention_forms / sizeof *attention_forms };

/* The forms, read once in a process and constant afterwards. */
static struct {
    pthread_once_t once;
    enum bp_status status;
    struct bp_pattern_names names[ATTENTION_FORMS];
    struct bp_pattern_text text[ATTENTION_FORMS];
} attention_read = {.once = PTHREAD_ONCE_INIT};

static void attention_read_forms(void)
{
    for (int i = 0; i < ATTENTION_FORMS && attention_read.status == BP_OK; i++)
        attention_read.status = bp_pattern_parse(attention_forms[i].text, &attention_read.names[i],
                                                 &attention_read.text[i]);
}

struct attention {
    uint32_t q, k, v;   /* values */
    double scale;
    struct bp_text_match match;
};

/* The index of a name in a pattern's text. */
static uint32_t name_of(const struct bp_pattern_names *names, const char *name)
{
    uint32_t i = 0;

    while (i < names->n && (names->length[i] != strlen(name) ||
                            memcmp(names->text[i], name, names->length[i])))
        i++;
    return i;
}

/* A scale of 0 would be the default one. */
static bool attention_scale(const struct bp_text_match *match, uint32_t at, bool divides,
                            double *out)
{
    *out = divides ? 1 / match->number[at] : match->number[at];
    return isfinite(*out) && *out != 0;
}

static bool find_attention(const struct bp_ir *ir, uint32_t n, struct attention *a)
{
    for (int i = 0; i < ATTENTION_FORMS; i++) {
        const struct bp_pattern_names *names = &attention_read.names[i];
        if (!bp_pattern_matches(ir, &attention_read.text[i], n, &a->match)) continue;
        a->q = a->match.value[name_of(names, "q")];
        a->k = a->match.value[name_of(names, "k")];
        a->v = a->match.value[name_of(names, "v")];
        a->scale = 1;
        if (attention_forms[i].has_scale &&
            !attention_scale(&a->match, name_of(names, "$s"), attention_forms[i].divides,
                             &a->scale))
            continue;
        return true;
    }
    return false;
}

/* Records attention(q, k with its last two axes exchanged, v). Its inference refuses products that
 * broadcast, except the heads of k and v. */
static bool attention_replace(struct bp_ir *ir, const struct attention *a)
{
    uint32_t node[BP_PATTERN_NODES], n = a->match.n_node, rank = ir->value[a->k].type->view.rank;
    struct bp_transpose_attrs turn =
        *(const struct bp_transpose_attrs *)bp_opdef[BP_ROW_transpose].info.defaults;
    struct bp_attention_attrs attrs =
        *(const struct bp_attention_attrs *)bp_opdef[BP_ROW_attention].info.defaults;
    struct bp_tensor *q, *k, *v, *result = NULL;
    int64_t perm[BP_RANK_MAX];
    struct bp_rewrite rw;
    struct bp_compose c;

    if (rank < 3) return false; /* attention has heads */
    for (uint32_t i = 0; i < n; i++) node[i] = a->match.node[n - 1 - i];
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    turn.perm = (struct bp_dims){perm, rank};
    attrs.scale = a->scale;
    if (bp_rewrite_begin(&rw, ir, node, n)) return false;
    c = bp_compose_begin(bp_rewrite_scope(&rw));
    if (bp_rewrite_in(&rw, a->q, &q) == BP_OK && bp_rewrite_in(&rw, a->k, &k) == BP_OK &&
        bp_rewrite_in(&rw, a->v, &v) == BP_OK)
        bp_compose_keep(&c,
                        MAKE(&c, attention, &attrs, q, MAKE(&c, transpose, &turn, k), v, NULL,
                             NULL),
                        &result);
    if (bp_compose_end(&c) == BP_OK && result)
        return bp_rewrite_end(&rw, result, ir->node[a->match.node[0]].call.out[0]) == BP_OK;
    bp_rewrite_cancel(&rw);
    return false;
}

/* Portable kernels of devices other than the host are slower than their products: with OpenCL on a
 * processor a hundred times. */
static bool device_has_attention(const struct bp_ir *ir, uint32_t dtype)
{
    const struct bp_opdef *row = &bp_opdef[BP_ROW_attention];

    return ir->device->is_inline ? bp_select_has_dtype(ir->device, row, dtype)
                                 : bp_select_has_priority(ir->device, row, dtype, 1);
}

enum bp_status bp_pass_attention(struct bp_compilation *c)
{
    struct bp_ir *ir = c->ir;
    char *before = strdup(bp_error_message());
    struct attention a;

    if (!before) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    pthread_once(&attention_read.once, attention_read_forms);
    if (attention_read.status) {
        free(before);
        return bp_error(attention_read.status, "a pattern of the compiler is wrong");
    }
    for (uint32_t n = ir->first, next; n != BP_NO_VALUE; n = next) {
        const struct bp_node *node = &ir->node[n].call;
        next = ir->node[n].next;
        if (node->row == &bp_opdef[BP_ROW_matmul] &&
            device_has_attention(ir, ir->value[node->out[0]].type->view.dtype) &&
            find_attention(ir, n, &a) && attention_replace(ir, &a))
            c->changes++;
    }
    bp_error_write("%s", before);
    free(before);
    return BP_OK;
}
