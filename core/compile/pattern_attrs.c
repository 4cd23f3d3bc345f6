/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_attrs.c: compares and sets attributes by the text of patterns, "name=value, ...". */
#include "pattern.h"

#include "../base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct bp_attr *bp_attr_find(const struct bp_opinfo *op, const char *name, size_t length)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (!strncmp(op->attr[i].name, name, length) && !op->attr[i].name[length])
            return &op->attr[i];
    return NULL;
}

double bp_attr_get(const struct bp_attr *a, const void *attrs)
{
    const char *field = (const char *)attrs + a->offset;
    int64_t integer;
    double number;

    memcpy(&integer, field, sizeof integer);
    memcpy(&number, field, sizeof number);
    return a->kind == BP_ATTR_F64 ? number : (double)integer;
}

void bp_attr_set(const struct bp_attr *a, void *attrs, double number)
{
    int64_t integer = (int64_t)number;

    if (a->kind == BP_ATTR_F64) memcpy((char *)attrs + a->offset, &number, sizeof number);
    else memcpy((char *)attrs + a->offset, &integer, sizeof integer);
}

/* One "name=value" of the text. */
struct setting {
    const char *name, *value;
    size_t n_name, n_value;
};

/* Reads the setting at *text and moves on to the next one. false: the text ends, at ")". */
static bool setting_next(const char **text, struct setting *out)
{
    const char *at = *text;

    while (*at == ' ' || *at == ',') at++;
    if (!*at || *at == ')') return false;
    out->name = at;
    out->n_name = strcspn(at, "=,)");
    at += out->n_name;
    at += *at == '=';
    out->value = at;
    out->n_value = strcspn(at, ",) ");
    *text = at + out->n_value;
    return true;
}

/* Compares a list with numbers that "_" joins. Negative ones of both count from the last axis. */
static bool list_is(const struct bp_dims *list, const struct setting *s, uint32_t rank)
{
    const char *at = s->value, *end = s->value + s->n_value;

    for (int64_t i = 0; i < list->n; i++) {
        int64_t is = list->at[i];
        char *stop;
        long long wanted;
        if (at >= end) return false;
        wanted = strtoll(at, &stop, 10);
        if (is < 0) is += rank;
        if (wanted < 0) wanted += rank;
        if (is != wanted) return false;
        at = stop + (stop < end && *stop == '_');
    }
    return at >= end;
}

static bool setting_holds(const struct bp_node *node, const struct setting *s,
                          const struct bp_view *in)
{
    uint32_t rank = in ? in->rank : 0;
    double near = in && in->dtype == BP_F64 ? 1e-14 : 1e-6;
    const struct bp_attr *a = bp_attr_find(&node->row->info, s->name, s->n_name);
    struct bp_dims list;
    double wanted, is;

    if (!a || !node->attrs) return false;
    if (*s->value == '*') return true;
    if (a->kind == BP_ATTR_DIMS) {
        memcpy(&list, (const char *)node->attrs + a->offset, sizeof list);
        return list_is(&list, s, rank);
    }
    wanted = bp_number_parse(s->value, NULL);
    is = bp_attr_get(a, node->attrs);
    if (a->kind == BP_ATTR_I64 && !strncmp(s->name, "axis", 4)) {
        if (is < 0) is += rank;
        if (wanted < 0) wanted += rank;
    }
    return is == wanted || fabs(is - wanted) <= near * fabs(wanted);
}

/* An attribute that the text does not name must have its default value. */
static bool others_are_default(const struct bp_node *node, const char *text)
{
    const struct bp_opinfo *op = &node->row->info;

    for (uint32_t i = 0; node->attrs && i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        size_t bytes = a->kind == BP_ATTR_DIMS ? sizeof(struct bp_dims) : 8u * a->count;
        const char *at = text;
        struct setting s;
        bool named = false;
        while (text && !named && setting_next(&at, &s))
            named = bp_attr_find(op, s.name, s.n_name) == a;
        if (!named && memcmp((const char *)node->attrs + a->offset,
                             (const char *)op->defaults + a->offset, bytes))
            return false;
    }
    return true;
}

bool bp_pattern_check_attrs(const struct bp_node *node, const char *text, const struct bp_view *in)
{
    const char *at = text;
    struct setting s;

    while (text && setting_next(&at, &s))
        if (!setting_holds(node, &s, in)) return false;
    return others_are_default(node, text);
}

enum bp_status bp_pattern_set_attrs(const struct bp_opinfo *op, const char *text,
                                    const struct bp_pattern_names *names,
                                    const struct bp_text_match *match, void *attrs)
{
    const char *at = text;
    struct setting s;

    while (text && setting_next(&at, &s)) {
        const struct bp_attr *a = bp_attr_find(op, s.name, s.n_name);
        double number = bp_number_parse(s.value, NULL);
        if (!a || a->kind == BP_ATTR_DIMS)
            return bp_error(BP_ERR_INTERNAL, "a pattern sets '%.*s' of %s", (int)s.n_name, s.name,
                            op->name);
        for (uint32_t i = 0; i < names->n && *s.value == '$'; i++)
            if (names->length[i] == s.n_value && !memcmp(names->text[i], s.value, s.n_value))
                number = match->number[i];
        bp_attr_set(a, attrs, number);
    }
    return BP_OK;
}
