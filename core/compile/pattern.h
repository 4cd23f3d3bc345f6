/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h: declares patterns: small expressions of operators that the compiler finds in a graph
 * and replaces by another expression. A pattern is text:
 *
 *     mul(x, sigmoid(x))  ->  swish(x)
 *     clip(add(x, 3); min=0, max=6)
 *     mul(rsqrt(add(v, $e)), g!)
 *
 * `x` is any value; the same name is the same value. `g!` is a frozen constant. A number is a
 * frozen constant whose elements all equal it, to 7 digits in f32 and to 14 in f64; `$e` is one
 * with any number, which the replacement may use as a number of its attributes. `a|b` are operators
 * that serve alike. Behind a semicolon are attributes with their values, in a result also with
 * `$e`; the values of a list are joined by "_", and "*" is any value. Operands of add and mul (and
 * of other operators that commute) match in either order.
 *
 * All values inside a match, apart from the last one, must have no readers outside it. */
#ifndef BP_PATTERN_H
#define BP_PATTERN_H

#include "ir.h"

enum {
    BP_PATTERN_NODES = 32,
    BP_PATTERN_NAMES = 8,
    BP_PATTERN_ROWS = 4 /* operators of one call that serve alike */
};

/* One node of an expression. */
struct bp_pattern_node {
    enum {
        BP_TERM_CALL,
        BP_TERM_VALUE,
        BP_TERM_NUMBER,
        BP_TERM_CAPTURE
    } kind;
    const char *text; /* in the pattern: the operator's or the value's name */
    uint32_t length;  /* of the text */
    bool frozen;      /* of a value: "!" */
    uint32_t name;    /* of a value or capture: its index */
    double number;
    uint32_t in[4], n_in; /* of a call: nodes */
    const char *attrs;    /* of a call: the text behind ";", or NULL */
    const struct bp_opdef *row[BP_PATTERN_ROWS]; /* of a call: its operators, then NULL */
};

/* An expression; node 0 is the last call. */
struct bp_pattern_text {
    struct bp_pattern_node node[BP_PATTERN_NODES];
    uint32_t n_node;
};

struct bp_text_pattern {
    const char *name, *match, *result;
};

/* pass_recognise.c: all patterns, in the order in which they are tried. */
extern const struct bp_text_pattern bp_pattern_list[];
extern const uint32_t bp_pattern_count;

/* Names of the values and captures of a pattern. */
struct bp_pattern_names {
    const char *text[BP_PATTERN_NAMES];
    uint32_t length[BP_PATTERN_NAMES], n;
};

/* pattern.c: reads the text of an expression. BP_ERR_INTERNAL: it is wrong, or there is no such
 * operator. */
enum bp_status bp_pattern_parse(const char *text, struct bp_pattern_names *names,
                                struct bp_pattern_text *out);

/* A match: the IR's values of the names, the numbers of the captures, the nodes of the calls. */
struct bp_text_match {
    uint32_t value[BP_PATTERN_NAMES]; /* BP_NO_VALUE: not bound */
    double number[BP_PATTERN_NAMES];
    uint32_t node[BP_PATTERN_NODES], n_node;
};

/* pattern_match.c: whether the expression matches with node n as its last call. */
bool bp_pattern_matches(const struct bp_ir *ir, const struct bp_pattern_text *text, uint32_t n,
                        struct bp_text_match *out);

/* Whether the two inputs of an operator may be exchanged. */
bool bp_row_commutes(const struct bp_opdef *row);

/* pattern_attrs.c: whether the attributes of a node have the values of a pattern's text, and all
 * others their defaults. in: the type of its first input, or NULL. Axes may count from its last
 * one; numbers agree to 14 digits if its dtype is f64, otherwise to 6. */
bool bp_pattern_check_attrs(const struct bp_node *node, const char *text, const struct bp_view *in);

/* Fills an attribute struct that has its default values from a result's text. BP_ERR_INTERNAL: the
 * text is wrong. Lists are not supported. */
enum bp_status bp_pattern_set_attrs(const struct bp_opinfo *op, const char *text,
                                    const struct bp_pattern_names *names,
                                    const struct bp_text_match *match, void *attrs);

/* Attributes by name. NULL: the operator has none of that name. The number of an attribute that is
 * no list. */
const struct bp_attr *bp_attr_find(const struct bp_opinfo *op, const char *name, size_t length);
double bp_attr_get(const struct bp_attr *attr, const void *attrs);
void bp_attr_set(const struct bp_attr *attr, void *attrs, double number);

#endif
