/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.h: the tables of wrong calls, and how a new function comes into them.
 *
 * A function of the app API has one row in the table of its header (mistakes_core.c, ...): its
 * name, a call of it by an array of values, and what each argument is. From that row alone
 * test_mistakes.c makes the wrong calls that follow from the kinds of the arguments: NULL, a handle
 * of each other kind, an out parameter that is NULL, a size field that is none. All else that can
 * be wrong is a row of struct mistake. A function of a public header without a row fails the test
 * mistakes/every_function_has_a_row. A new kind of handle is a new thing below; a function that
 * ends what others need, and has no arguments, answers ANSWERS_NOTHING, and is not called.
 *
 * For each wrong call: the status, words of the message, out parameters as they were, and the world
 * still works. Each function is also called rightly, so that a wrong call has one thing wrong.
 *
 * What "a handle of another kind" means here: a live handle of another type, as an app gets it when
 * it mixes up two variables; and a pointer to 512 bytes that are no handle. A pointer to less
 * memory than the smallest handle has (BP_HANDLE_BYTES of core.h) cannot be looked at, and nothing
 * is promised for it. Destroyed handles are undefined by the headers, and not in here. */
#ifndef BP_TEST_MISTAKES_H
#define BP_TEST_MISTAKES_H

#include "fixture.h"

#include <stdio.h>

/* What a call can be given: one handle of each kind, then others. */
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
    T_STORAGE, /* 64 bytes of T_DEVICE */
    T_PROGRAM, /* of T_GRAPH on T_DEVICE */
    T_STORE,
    T_COMM, /* of one rank, with T_DEVICE */
    T_KINDS,  /* one past the last kind of handle */

    T_STRANGER, /* 512 bytes that are no handle */
    T_OTHER_DEVICE, /* the template's: asynchronous, its memory cannot be reached by the host */
    T_OTHER_STREAM,
    T_OTHER_TENSOR, /* f32 [2, 3], twos */
    T_OTHER_EVENT,
    T_NEW_EVENT,    /* never recorded */
    T_FROZEN,       /* f32 [2, 3] */
    T_SPARE,        /* f32 [2, 3], to be written, named, frozen */
    T_REPEATED,     /* a view f32 [2, 3] whose rows are one */
    T_SHORT,        /* f32 [4] */
    T_DOUBLE,       /* f64 [2, 3] */
    T_EMPTY,        /* f32 [0] */
    T_SCRATCH,      /* a graph to record into */
    T_SCRATCH_SYMBOL,
    T_PLUGIN,       /* a number: the index of the plugin of T_DEVICE */
    T_MANAGED,      /* made only: a DLPack tensor, current and older form */
    T_LEGACY,

    T_OWN, /* of one table, filled by its prepare */
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
    ARG_HANDLE,     /* of kind thing: NULL and others are refused */
    ARG_HANDLE_OPT, /* the same, or NULL */
    ARG_POINTER,    /* NULL is refused */
    ARG_OPTIONAL,   /* a pointer that may be NULL */
    ARG_NUMBER,
    ARG_OUT,        /* written: NULL is refused. thing: what is made, to be given back */
    ARG_OUT_OPT,
    ARG_INOUT,      /* an array of handles, NULL on entry; a row gives its first one */
    ARG_ANSWER,     /* a struct that begins with its size */
};

struct arg {
    uint8_t kind, thing; /* enum arg_kind, enum thing */
    uint8_t good;        /* the thing that a right call is given; T_NONE: thing, or v */
    uint8_t also;        /* another kind of handle that will do */
    union value v;
    size_t size;         /* of ARG_ANSWER */
    const char *word;    /* in the message on a wrong handle; NULL: the kind's name */
};

enum { ARGS_MAX = 8 };

enum answer {
    ANSWERS_STATUS,
    ANSWERS_ZERO,    /* a number or pointer: 0 for a wrong handle */
    ANSWERS_EMPTY,   /* "" for a wrong handle */
    ANSWERS_TEXT,    /* a text for everything */
    ANSWERS_NOTHING, /* void: does nothing with a wrong handle. No right call is made */
};

struct function {
    const char *name; /* what follows a space says which way of using it this is */
    uint64_t (*call)(const union value *a);
    struct arg arg[ARGS_MAX];
    enum answer answers;
    const char *called; /* in messages; NULL: name */
};

struct mistake {
    const char *function, *what;
    enum bp_status status; /* of ANSWERS_ZERO the number */
    const char *word;      /* in the message; of ANSWERS_TEXT the answer itself */
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
    void (*more)(struct world *w); /* wrong calls that loops make: mistakes_try() */
    void (*finish)(struct world *w);
};

/* The right arguments of a function but for the changes: a wrong call, and all that follows. */
void mistakes_try(struct world *w, const struct mistake *mistake);

/* What each wrong call is followed by, for those that are made elsewhere. */
void mistakes_check_world(struct world *w, const char *function, const char *what);
const char *mistakes_kind(enum thing thing);
struct world mistakes_world(void);
void mistakes_world_finish(struct world *w);

extern const struct table mistakes_core, mistakes_device, mistakes_stream, mistakes_tensor,
    mistakes_dlpack, mistakes_call, mistakes_graph, mistakes_comm, mistakes_model;

/* How rows are written. */
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
#define ANSWER(type) {.kind = ARG_ANSWER, .size = sizeof(type)}
#define SCOPE {.kind = ARG_HANDLE, .thing = T_STREAM, .also = T_GRAPH, .word = "scope"}
#define SCOPE_GRAPH \
    {.kind = ARG_HANDLE, .thing = T_STREAM, .also = T_GRAPH, .good = T_SCRATCH, .word = "scope"}

#define SET(arg_, number) {.arg = arg_, .v.u = (uint64_t)(number)}
#define PUT(arg_, pointer) {.arg = arg_, .v.cp = pointer}
#define USE(arg_, thing_) {.arg = arg_, .thing = thing_}

#endif
