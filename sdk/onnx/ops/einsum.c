/* SPDX-License-Identifier: Apache-2.0 */
/* einsum.c: runs Einsum. "..." in an equation of ONNX means the axes without a letter; they get
 * letters that the equation does not use. An axis of extent 1 whose letter has a larger extent in
 * another operand is removed, because a letter has one extent in the operator of Backplane. */
#include "../chain.h"
#include "../ops.h"
#include <string.h>

enum { TERMS_MAX = 16, TERM_MAX = 2 * ONNX_RANK_MAX, LETTERS = 128 };

struct term {
    char letter[TERM_MAX];
    int64_t n;
};

struct equation {
    struct term in[TERMS_MAX], out;
    char free[ONNX_RANK_MAX + 1]; /* letters for "..."; the last letter is for the last axis */
    int64_t extent[LETTERS];      /* of each letter; -1: not known yet */
    int64_t n_free;               /* how many of the letters in free are used */
    uint32_t n_in;
};

static enum bp_status einsum_malformed(const char *why)
{
    return onnx_error(BP_ERR_INVALID, "equation: %s", why);
}

/* Finds letters that do not occur in text, for the axes that an ellipsis stands for. */
static void find_free(struct equation *e, const char *text)
{
    int n = 0;

    for (char letter = 'A'; letter <= 'z' && n < ONNX_RANK_MAX; letter++)
        if ((letter <= 'Z' || letter >= 'a') && !strchr(text, letter)) e->free[n++] = letter;
}

/* Reads the letters of one operand or of the result, up to ',' or "->", where *at then points.
 * hidden: the number of axes that "..." covers. */
static enum bp_status read_term(const struct equation *e, const char **at, int64_t hidden,
                                struct term *t)
{
    for (t->n = 0; **at && **at != ',' && **at != '-'; ++*at) {
        int64_t more = **at == '.' ? hidden : 1;
        if (**at == ' ') continue;
        if (**at == '.' && strncmp(*at, "...", 3))
            return einsum_malformed("'.' is expected thrice");
        if (t->n + more > TERM_MAX || more < 0)
            return einsum_malformed("a term does not fit its operand");
        if (**at == '.') memcpy(t->letter + t->n, e->free + ONNX_RANK_MAX - hidden, (size_t)hidden);
        else t->letter[t->n] = **at;
        t->n += more;
        *at += **at == '.' ? 2 : 0;
    }
    return BP_OK;
}

/* Counts the letters of the term that begins here. */
static int64_t count_letters(const char *at)
{
    int64_t n = 0;

    for (; *at && *at != ',' && *at != '-'; at++) n += *at != ' ' && *at != '.';
    return n;
}

static enum bp_status read_operand(struct onnx_call *c, struct equation *e, const char **at)
{
    struct bp_tensor *x = onnx_in(c, e->n_in);
    struct term *t = &e->in[e->n_in];
    struct bp_tensor_info info;
    int64_t hidden;

    if (!x) return einsum_malformed("it has more terms than there are operands");
    info = onnx_info(x);
    hidden = (int64_t)info.rank - count_letters(*at);
    if (hidden > ONNX_RANK_MAX) return einsum_malformed("an operand has too many axes");
    TRY(read_term(e, at, hidden, t));
    if (t->n != (int64_t)info.rank) return einsum_malformed("a term does not fit its operand");
    if (hidden > e->n_free) e->n_free = hidden;
    for (uint32_t i = 0; i < info.rank; i++) {
        int64_t *extent = &e->extent[t->letter[i] & 127];
        if (*extent < 0 || *extent == 1) *extent = info.shape[i];
    }
    e->n_in++;
    return BP_OK;
}

/* The result if the equation has no "->": the axes of "...", then the letters that occur once, in
 * alphabetical order. */
static void einsum_implied(struct equation *e)
{
    int times[LETTERS] = {0};

    memcpy(e->out.letter, e->free + ONNX_RANK_MAX - e->n_free, (size_t)e->n_free);
    e->out.n = e->n_free;
    for (uint32_t i = 0; i < e->n_in; i++)
        for (int64_t a = 0; a < e->in[i].n; a++) times[e->in[i].letter[a] & 127]++;
    for (int letter = 'A'; letter <= 'z' && e->out.n < TERM_MAX; letter++)
        if (times[letter] == 1 && !memchr(e->free, letter, ONNX_RANK_MAX))
            e->out.letter[e->out.n++] = (char)letter;
}

static enum bp_status read_equation(struct onnx_call *c, const char *text, struct equation *e)
{
    const char *at = text;

    *e = (struct equation){.n_in = 0};
    for (int i = 0; i < LETTERS; i++) e->extent[i] = -1;
    find_free(e, text);
    for (;; at++) {
        if (e->n_in == TERMS_MAX) return onnx_error(BP_ERR_UNSUPPORTED, "more than %d operands",
                                                    TERMS_MAX);
        TRY(read_operand(c, e, &at));
        if (*at != ',') break;
    }
    if (e->n_in != c->node->n_in)
        return einsum_malformed("it has fewer terms than there are operands");
    if (!*at) {
        einsum_implied(e);
        return BP_OK;
    }
    if (strncmp(at, "->", 2)) return einsum_malformed("'-' is expected in \"->\" only");
    at += 2;
    TRY(read_term(e, &at, e->n_free, &e->out));
    return *at ? einsum_malformed("nothing is expected behind the result") : BP_OK;
}

/* Returns an operand without its axes of extent 1 that are to be broadcast. */
static struct bp_tensor *without_short(struct onnx_chain *k, const struct equation *e,
                                       struct bp_tensor *x, struct term *t)
{
    struct bp_tensor_info info = onnx_info(x);
    int64_t shape[ONNX_RANK_MAX], n = 0;

    for (uint32_t i = 0; i < info.rank; i++) {
        if (info.shape[i] == 1 && e->extent[t->letter[i] & 127] != 1) continue;
        shape[n] = info.shape[i];
        t->letter[n++] = t->letter[i];
    }
    if (n == t->n) return x;
    t->n = n;
    return onnx_chain_reshape(k, x, n, shape);
}

/* Computes the operator's labels: the labels of each operand, then those of the result. */
static enum bp_status make_labels(const struct equation *e, int64_t *label, size_t room,
                                  struct bp_dims *out)
{
    char text[(TERMS_MAX + 1) * (TERM_MAX + 2) + 1];
    size_t at = 0, n;

    for (uint32_t i = 0; i < e->n_in; i++) {
        if (i) text[at++] = ',';
        memcpy(text + at, e->in[i].letter, (size_t)e->in[i].n);
        at += (size_t)e->in[i].n;
    }
    memcpy(text + at, "->", 2);
    memcpy(text + at + 2, e->out.letter, (size_t)e->out.n);
    text[at + 2 + (size_t)e->out.n] = 0;
    TRY(bp_einsum_labels(text, label, room, &n));
    *out = (struct bp_dims){label, (int64_t)n};
    return BP_OK;
}

static enum bp_status run_equation(struct onnx_call *c, struct equation *e)
{
    int64_t label[(TERMS_MAX + 1) * (TERM_MAX + 1)];
    struct bp_einsum_attrs attrs = bp_einsum_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *in[TERMS_MAX], *y = NULL;

    for (uint32_t i = 0; i < e->n_in; i++)
        in[i] = without_short(&k, e, onnx_in(c, i), &e->in[i]);
    if (k.status == BP_OK)
        k.status = make_labels(e, label, sizeof label / sizeof *label, &attrs.labels);
    if (k.status == BP_OK) k.status = bp_op_einsum(c->scope, in, e->n_in, &attrs, &y);
    onnx_chain_give(&k, 0, onnx_chain_take(&k, y));
    return onnx_chain_end(&k);
}

enum bp_status onnx_einsum(struct onnx_call *c)
{
    const Onnx__AttributeProto *given = onnx_attr(c->node, "equation");
    struct equation e;
    char text[256];

    if (!given || given->s.len >= sizeof text)
        return onnx_error(BP_ERR_INVALID, "an equation of less than %zu characters is expected",
                          sizeof text);
    if (given->s.len) memcpy(text, given->s.data, given->s.len);
    text[given->s.len] = 0;
    TRY(read_equation(c, text, &e));
    return run_equation(c, &e);
}
