/* SPDX-License-Identifier: Apache-2.0 */
/* opfacts.h: facts of the operator table for readers, for which libbackplane has no function. */
#ifndef BP_OPFACTS_H
#define BP_OPFACTS_H

#include <backplane/call.h>
#include <stdbool.h>

struct bp_opfacts {
    const char *family;
    const char *no_gradient; /* why the operator has no gradient; NULL: it has one */
    double ulp;              /* the tolerance of its results, TOL(ulp, terms): docs/accuracy.md */
    int terms;
};

/* Facts of the operator of that name. */
struct bp_opfacts bp_opfacts_find(const char *name);

/* The name of a kind of attribute: "integer", "flag", ... */
const char *bp_attr_kind_name(uint8_t kind);

/* The default of an attribute as text: "-1", "f32", "none", "1 1 1". The caller frees it. */
char *bp_attr_default_text(const struct bp_attr *attr);

/* A port as text in a list: "x", "[bias]" (optional), "xs..." (any number). The caller frees it. */
char *bp_port_text(const struct bp_port *port);

/* The number of type variables (T U I R) that the operator uses; and the name of one. */
int bp_opinfo_vars(const struct bp_opinfo *op);
char bp_var_name(int var);

/* Prints docs/ops.md; returns the exit status. */
int bp_ops_markdown(void);

#endif
