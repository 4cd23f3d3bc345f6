/* SPDX-License-Identifier: Apache-2.0 */
/* words.h: defines every word of operator definitions that the includer did not define as empty.
 * This is the list of the words: ops.def explains them, and words_end.h undefines them all. */
#include "words_enums.h"

#ifndef FAMILY
#define FAMILY(title)
#endif
#ifndef IN
#define IN(name, var, doc)
#endif
#ifndef SHAPE_IN
#define SHAPE_IN(name, var, doc)
#endif
#ifndef OPT
#define OPT(name, var, doc)
#endif
#ifndef VAR
#define VAR(name, var, doc)
#endif
#ifndef HOST
#define HOST(name, var, doc)
#endif
#ifndef OUT
#define OUT(name, var, doc)
#endif
#ifndef OPTOUT
#define OPTOUT(name, var, doc)
#endif
#ifndef MAY_SHARE
#define MAY_SHARE(name, var, input, doc)
#endif
#ifndef UPDATE
#define UPDATE(name, var, input, doc)
#endif
#ifndef VIEW
#define VIEW(name, var, input, doc)
#endif
#ifndef VAROUT
#define VAROUT(name, var, doc)
#endif
#ifndef VAROUT_SHARE
#define VAROUT_SHARE(name, var, input, doc)
#endif
#ifndef VIEWS
#define VIEWS(name, var, input, doc)
#endif
#ifndef I64
#define I64(name, value, when, doc)
#endif
#ifndef ENUM
#define ENUM(name, type, value, when, doc) \
    I64(name, value, when, doc ": " ENUM_##type(ENUM_TEXT) "enum bp_" #type)
#endif
#ifndef F64
#define F64(name, value, when, doc)
#endif
#ifndef FLAG
#define FLAG(name, value, when, doc)
#endif
#ifndef DTYPE
#define DTYPE(name, value, when, doc)
#endif
#ifndef INTS
#define INTS(name, count, value, when, doc)
#endif
#ifndef DIMS
#define DIMS(name, when, doc)
#endif
#ifndef TYPES
#define TYPES(var, mask)
#endif
#ifndef INFER
#define INFER(rule)
#endif
#ifndef VALUES
#define VALUES(rule)
#endif
#ifndef GRAD
#define GRAD(rule)
#endif
#ifndef NODIFF
#define NODIFF(why)
#endif
#ifndef DECOMPOSE
#define DECOMPOSE(rule)
#endif
#ifndef DYNAMIC_EXTENT
#define DYNAMIC_EXTENT(axis)
#endif
#ifndef SAVES
#define SAVES(bits)
#endif
#ifndef LAYOUT_FROM
#define LAYOUT_FROM(inputs)
#endif
#ifndef RANDOM
#define RANDOM(what)
#endif
#ifndef REF
#define REF(family)
#endif
#ifndef CASES
#define CASES(family)
#endif
#ifndef TOL
#define TOL(ulp, terms)
#endif
#ifndef ALIAS
#define ALIAS(names)
#endif
#ifndef DOC
#define DOC(text)
#endif
