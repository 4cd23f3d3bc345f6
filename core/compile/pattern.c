/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c: reads the text of patterns. */
#include "pattern.h"

#include "../base/number.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct pattern_reader {
    const char *at;
    struct bp_pattern_names *names;
    struct bp_pattern_text *out;
    const char *wrong; /* what is wrong, or NULL */
};

static void reader_skip(struct pattern_reader *r)
{
    while (*r->at == ' ') r->at++;
}

static bool reader_take(struct pattern_reader *r, char c)
{
    reader_skip(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static uint32_t reader_name(struct pattern_reader *r, const char *text, uint32_t length)
{
    struct bp_pattern_names *names = r->names;

    for (uint32_t i = 0; i < names->n; i++)
        if (names->length[i] == length && !memcmp(names->text[i], text, length)) return i;
    if (names->n == BP_PATTERN_NAMES) {
        r->wrong = "too many names";
        return 0;
    }
    names->text[names->n] = text;
    names->length[names->n] = length;
    return names->n++;
}

static uint32_t read_expression(struct pattern_reader *r);

static void read_operands(struct pattern_reader *r, uint32_t number)
{
    struct bp_pattern_node *node = &r->out->node[number];

    node->kind = BP_TERM_CALL;
    do {
        if (node->n_in == sizeof node->in / sizeof *node->in) {
            r->wrong = "too many operands";
            return;
        }
        node->in[node->n_in] = read_expression(r);
        node->n_in++;
        if (r->wrong) return;
    } while (reader_take(r, ','));
    if (reader_take(r, ';')) {
        node->attrs = r->at;
        while (*r->at && *r->at != ')') r->at++;
    }
    if (!reader_take(r, ')')) r->wrong = "expected ')'";
}

/* Finds the operators of a call, which "|" separates. */
static void reader_find_rows(struct pattern_reader *r, struct bp_pattern_node *node)
{
    const char *at = node->text, *end = node->text + node->length;

    for (uint32_t i = 0; at <= end; i++) {
        const char *stop = memchr(at, '|', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        char name[64];
        if (n >= sizeof name || i == BP_PATTERN_ROWS) {
            r->wrong = "too many operators";
            return;
        }
        memcpy(name, at, n);
        name[n] = 0;
        node->row[i] = bp_opdef_find(name);
        if (!node->row[i]) {
            r->wrong = "unknown operator";
            return;
        }
        at += n + 1;
    }
}

/* Reads a word, and what stands behind it. */
static void read_word(struct pattern_reader *r, uint32_t number)
{
    struct bp_pattern_node *node = &r->out->node[number];
    bool capture = reader_take(r, '$');

    node->text = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '|') r->at++;
    node->length = (uint32_t)(r->at - node->text);
    if (!node->length) {
        r->wrong = "expected a name or a number";
        return;
    }
    if (!capture && reader_take(r, '(')) {
        reader_find_rows(r, node);
        if (!r->wrong) read_operands(r, number);
        return;
    }
    node->kind = capture ? BP_TERM_CAPTURE : BP_TERM_VALUE;
    node->name = reader_name(r, node->text - capture, node->length + capture);
    node->frozen = reader_take(r, '!');
}

static uint32_t read_expression(struct pattern_reader *r)
{
    uint32_t number = r->out->n_node;
    char *end;

    reader_skip(r);
    if (number == BP_PATTERN_NODES) {
        r->wrong = "too many terms";
        return 0;
    }
    r->out->node[number] = (struct bp_pattern_node){0};
    r->out->n_node++;
    if (isdigit((unsigned char)*r->at) || *r->at == '-') {
        r->out->node[number].kind = BP_TERM_NUMBER;
        r->out->node[number].number = bp_number_parse(r->at, &end);
        r->at = end;
    } else {
        read_word(r, number);
    }
    return number;
}

enum bp_status bp_pattern_parse(const char *text, struct bp_pattern_names *names,
                                struct bp_pattern_text *out)
{
    struct pattern_reader r = {.at = text, .names = names, .out = out};

    out->n_node = 0;
    read_expression(&r);
    reader_skip(&r);
    if (!r.wrong && *r.at) r.wrong = "expected the end";
    if (!r.wrong && out->node[0].kind == BP_TERM_NUMBER) r.wrong = "expected a call";
    if (!r.wrong) return BP_OK;
    return bp_error(BP_ERR_INTERNAL, "pattern '%s': %s at '%s'", text, r.wrong, r.at);
}
