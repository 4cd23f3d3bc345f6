/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.h: declares the tables of wrong calls that test_mistakes.c makes, and the rules for
 * adding a new function.
 *
 * Each function of the app API has one row in the table of its header (mistakes_core.c, ...): its
 * name, a function that calls it with an array of values, and the kind of each argument. From this
 * row alone test_mistakes.c makes the wrong calls that follow from the kinds of the arguments:
 * NULL, a handle of each other kind, an out parameter that is NULL, an invalid size field. Each
 * other mistake is a row of struct mistake. A function of a public header without a row fails the
 * test mistakes/every_function_has_a_row. A new kind of handle needs a new thing in the enum below.
 * A function without arguments that ends objects which other tests need has ANSWERS_NOTHING, and is
 * not called.
 *
 * After each wrong call the test checks the status, the words of the message, that out parameters
 * are unchanged, and that all things still work. Each function is also called rightly, so that a
 * wrong call has exactly one mistake.
 *
 * "A handle of another kind" means here: a live handle of another type, as when an app mixes up two
 * variables; and a pointer to 512 bytes that are no handle. A pointer to less memory than the
 * smallest handle has (BP_HANDLE_BYTES of core.h) cannot be read, and the headers promise nothing
 * for it. The headers leave destroyed handles undefined, and the tables have none. */
#ifndef BP_TEST_MISTAKES_H
#define BP_TEST_MISTAKES_H

#include "fixture.h"

#include <stdio.h>

/* The things that a call can get as arguments: one handle of each kind, then others. */
enum thing {
    T_NONE,
    T_CORE,
    T_DEVICE,
    T_STREAM,
    T_EVENT,  /* recorded */
    T_TENSOR, /* f32 [2, 3], ones */
    T_SYMBOL, /* the input of T_GRAPH */
    T_PREPARED,
    T_GRAPH,  /* complete: z = x + x of f32 [2, 3] */
    T_GENERATOR,
    T_BUFFER, /* 64 bytes of T_DEVICE */
    T_PROGRAM, /* of T_GRAPH on T_DEVICE */
    T_TEMPLATE, /* z = x + x of f32 [S, 3], for S from 2 to 4 */
    T_STORE,
    T_COMM, /* of one rank, with T_DEVICE */
    T_PROFILER, /* has stopped, so that another one can start */
    T_PROFILE,  /* of one event */
    T_KINDS,  /* one past the last kind of handle */

    T_STRANGER, /* 512 bytes that are no handle */
    T_OTHER_DEVICE, /* the template's: asynchronous; the host cannot access its memory */
    T_OTHER_STREAM,
    T_OTHER_TENSOR, /* f32 [2, 3], twos */
    T_OTHER_EVENT,
    T_NEW_EVENT,    /* never recorded */
    T_FROZEN,       /* f32 [2, 3] */
    T_SPARE,        /* f32 [2, 3], to be written, named, frozen */
    T_REPEATED,     /* a view f32 [2, 3] whose rows share one row of memory */
    T_SHORT,        /* f32 [4] */
    T_DOUBLE,       /* f64 [2, 3] */
    T_EMPTY,        /* f32 [0] */
    T_SCRATCH,      /* a graph to record into */
    T_SCRATCH_SYMBOL,
    T_PLUGIN,       /* a number: the index of the plugin of T_DEVICE */
    T_MANAGED,      /* only created by calls: a DLPack tensor, current and older form */
    T_LEGACY,

    T_OWN, /* things of one table, which its prepare fills */
    T_THINGS = T_OWN + 64,
};

union value {
    void *p;
    const void *cp;
    uint64_t u;
    int64_t i;
};

enum arg_kind {
    ARG_NONE,
    ARG_HANDLE,     /* of kind `thing`: NULL and other kinds are refused */
    ARG_HANDLE_OPT, /* as ARG_HANDLE, or NULL */
    ARG_POINTER,    /* NULL is refused */
    ARG_OPTIONAL,   /* a pointer that may be NULL */
    ARG_NUMBER,
    ARG_OUT,        /* written: NULL is refused. thing: the kind created, which the test destroys */
    ARG_OUT_OPT,
    ARG_INOUT,      /* an array of handles, NULL on entry; a mistake may set its first one */
    ARG_INFO,     /* an output struct that begins with its size */
};

struct arg {
    uint8_t kind, thing; /* enum arg_kind, enum thing */
    uint8_t good;        /* the thing that a right call gets; T_NONE: `thing`, or v */
    uint8_t also;        /* another kind of handle that is accepted */
    union value v;
    size_t size;         /* of ARG_ANSWER */
    const char *word;    /* in the message about a wrong handle; NULL: the kind's name */
};

enum { ARGS_MAX = 8 };

enum result {
    RETURNS_STATUS,
    RETURNS_ZERO,    /* a number or pointer: 0 for a wrong handle */
    RETURNS_EMPTY,   /* "" for a wrong handle */
    RETURNS_TEXT,    /* a text for each value */
    RETURNS_NOTHING, /* void: has no effect on a wrong handle. The test makes no right call */
};

struct function {
    const char *name; /* the text behind a space names one use of the function */
    uint64_t (*call)(const union value *a);
    struct arg arg[ARGS_MAX];
    enum result returns;
    const char *called; /* its name in messages; NULL: name */
};

struct mistake {
    const char *function, *what;
    enum bp_status status; /* of ANSWERS_ZERO: the number */
    const char *word;      /* in the message; of ANSWERS_TEXT: the returned text */
    struct change {
        uint8_t arg, thing; /* arg counts from 1; thing T_NONE: v */
        union value v;
    } change[3];
};

struct world {
    struct fixture f;
    union value thing[T_THINGS];
};

struct table {
    const struct function *function;
    size_t n_function;
    const struct mistake *mistake;
    size_t n_mistake;
    void (*prepare)(struct world *w);
    void (*more)(struct world *w); /* wrong calls that are made in loops, by mistakes_try() */
    void (*finish)(struct world *w);
};

/* Makes a wrong call: the right arguments of a function with the changes of mistake. Then makes all
 * checks. */
void mistakes_try(struct world *w, const struct mistake *mistake);

/* Makes the checks that follow each wrong call, for calls that a table makes by itself. */
void mistakes_check_world(struct world *w, const char *function, const char *what);
const char *mistakes_kind(enum thing thing);
struct world mistakes_world(void);
void mistakes_world_finish(struct world *w);

extern const struct table mistakes_core, mistakes_device, mistakes_stream, mistakes_tensor,
    mistakes_dlpack, mistakes_call, mistakes_graph, mistakes_comm, mistakes_profile, mistakes_model;

/* Macros for the rows of the tables. */
#define COUNT(list) (sizeof(list) / sizeof *(list))
#define HANDLE(kind_) {.kind = ARG_HANDLE, .thing = kind_}
#define HANDLE_OR(kind_, also_) {.kind = ARG_HANDLE, .thing = kind_, .also = also_}
#define GIVEN(kind_, good_) {.kind = ARG_HANDLE, .thing = kind_, .good = good_}
#define POINTER(pointer) {.kind = ARG_POINTER, .v.cp = pointer}
#define POINTER_OWN(thing_) {.kind = ARG_POINTER, .good = thing_}
#define OPTIONAL(pointer) {.kind = ARG_OPTIONAL, .v.cp = pointer}
#define NUMBER(number) {.kind = ARG_NUMBER, .v.u = number}
#define NUMBER_OWN(thing_) {.kind = ARG_NUMBER, .good = thing_}
#define OUT_OF(made) {.kind = ARG_OUT, .thing = made}
#define INFO(type) {.kind = ARG_INFO, .size = sizeof(type)}
#define SCOPE {.kind = ARG_HANDLE, .thing = T_STREAM, .also = T_GRAPH, .word = "scope"}
#define SCOPE_GRAPH \
    {.kind = ARG_HANDLE, .thing = T_STREAM, .also = T_GRAPH, .good = T_SCRATCH, .word = "scope"}

#define SET(arg_, number) {.arg = arg_, .v.u = (uint64_t)(number)}
#define PUT(arg_, pointer) {.arg = arg_, .v.cp = pointer}
#define USE(arg_, thing_) {.arg = arg_, .thing = thing_}

#endif
