/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: defines entries for results that are computed one by one from operands that a walk visits
 * (walk.h; the first field of the arguments is named walk).
 *
 *   RUN_FN void <name>_run(const struct <name>_args *a, struct walk_run r, p0, p1, ...)
 *                           computes the elements of r
 *   KFN int <name>_is_even(const struct <name>_args *a, p0, p1, ...)
 *                           returns whether walk_is_even holds, for RUN elements, for all operands
 *                           of the walk
 *   ENTRY_RUNS_2(<name>, type of p0, type of p1)
 *                           defines an ENTRY_SPANS_2 of these functions
 *
 * On a host runs have any length and lie in memory. A lane of a GPU holds RUN elements in
 * registers, which it reads and writes 16 bytes at a time, if the operands are even; otherwise, and
 * at the end, it holds one element. On both:
 *
 *   RUN_IN(type, p, k, x)   p is the run of operand k, x
 *   RUN_IN_OR(type, p, k, x, absent)     the same; x may be NULL
 *   RUN_OUT(type, w, k, z)  w is the run of the result, z
 *   RUN_AT(p), RUN_OR(p, absent)         within a value: the current element of run p; with RUN_OR
 *                           the run's operand may be NULL
 *   RUN_EACH(w, value)      computes all elements of w
 *   RUN_TURNS(w, value, RUN_TURN(p) RUN_TURN(q))
 *                           the same for long expressions, one element after another: a GPU holds
 *                           their code once; RUN elements of w must be whole words
 *   RUN_END(type, w, k, z)  the result is complete: a GPU stores it */
#ifndef BP_DIALECT_RUN_H
#define BP_DIALECT_RUN_H

#include "entry.h"
#include "run_size.h"
#include "walk.h"

#define RUN RUN_OF(sizeof(elem))
#define RUN_FN KFN __attribute__((always_inline)) /* some are long; each is called once */

#if defined(ON_HOST) || defined(ON_PROCESSOR)

#define RUN_IN(type, p, k, x) \
    GLOBAL const type *p = x; \
    i64 p##_at = r.at[k], p##_step = r.step[k]
#define RUN_IN_OR(type, p, k, x, absent) RUN_IN(type, p, k, x)
#define RUN_OUT(type, w, k, z) \
    GLOBAL type *w = z; \
    i64 w##_at = r.at[k], w##_step = r.step[k]
#define RUN_AT(p) p[p##_at + i * p##_step]
#define RUN_OR(p, absent) (p ? RUN_AT(p) : absent)
#define RUN_EACH(w, value) \
    { \
        for (i64 i = 0; i < r.n; i++) RUN_AT(w) = value; \
    }
#define RUN_TURNS(w, value, turns) RUN_EACH(w, value)
#define RUN_END(type, w, k, z) (void)w

#else

/* A run, as elements and as the words in which the elements lie. */
#define RUN_UNION(type) \
    union { \
        type at[RUN]; \
        u32 word[(RUN * sizeof(type) + 3) / 4]; \
    }
/* If the run has one element, all RUN places hold it. */
#define RUN_FILL(p, value) \
    { \
        UNROLL for (int i = 0; i < RUN; i++) p.at[i] = value; \
    }
#define RUN_LOAD(p, k, x) \
    if (r.n > 1 && r.step[k]) run_load(p.word, (int)sizeof p.at, x + r.at[k]); \
    else RUN_FILL(p, x[r.at[k]])
#define RUN_IN(type, p, k, x) \
    RUN_UNION(type) p; \
    RUN_LOAD(p, k, x)
#define RUN_IN_OR(type, p, k, x, absent) \
    RUN_UNION(type) p; \
    if (!x) RUN_FILL(p, absent) \
    else RUN_LOAD(p, k, x)
#define RUN_OUT(type, w, k, z) RUN_UNION(type) w
#define RUN_AT(p) p.at[i]
#define RUN_OR(p, absent) RUN_AT(p)
/* If the run has one element, only the last place is computed. */
#define RUN_EACH(w, value) \
    { \
        UNROLL for (int i = RUN - 1; i >= 0; i--) \
            if (i == RUN - 1 || r.n > 1) w.at[i] = value; \
    }
#define RUN_TURN(p) run_turn(p.word, RUN, (int)sizeof *p.at);
#define RUN_TURNS(w, value, turns) \
    { \
        enum { i = 0 }; \
        ROLLED for (int left = (int)r.n; left; left--) \
        { \
            RUN_TURN(w) \
            w.at[RUN - 1] = value; \
            turns \
        } \
    }
#define RUN_END(type, w, k, z) \
    if (r.n > 1) run_store(z + r.at[k], (int)sizeof w.at, w.word); \
    else z[r.at[k]] = w.at[RUN - 1]

/* Words that are read and written by one instruction. AMD's compiler would write the members of a
 * struct one by one. */
#ifdef __HIP__
typedef u32 words4 __attribute__((vector_size(16)));
typedef u32 words2 __attribute__((vector_size(8)));
#define WORD(w, i) w[i]
#else
typedef struct __attribute__((aligned(16))) {
    u32 at[4];
} words4;
typedef struct __attribute__((aligned(8))) {
    u32 at[2];
} words2;
#define WORD(w, i) w.at[i]
#endif

/* Load and store so many bytes, a power of two and at least 2, at an address that is a multiple of
 * that number, or of 16. */
KFN void run_load(u32 *word, int bytes, GLOBAL const void *from)
{
    if (bytes == 2) word[0] = *(GLOBAL const u16 *)from;
    if (bytes == 4) word[0] = *(GLOBAL const u32 *)from;
    if (bytes == 8) {
        words2 w = *(GLOBAL const words2 *)from;
        word[0] = WORD(w, 0);
        word[1] = WORD(w, 1);
    }
    UNROLL
    for (int i = 0; i < bytes / 16; i++) {
        words4 w = ((GLOBAL const words4 *)from)[i];
        UNROLL
        for (int j = 0; j < 4; j++) word[4 * i + j] = WORD(w, j);
    }
}
KFN void run_store(GLOBAL void *to, int bytes, const u32 *word)
{
    if (bytes == 2) *(GLOBAL u16 *)to = (u16)word[0];
    if (bytes == 4) *(GLOBAL u32 *)to = word[0];
    if (bytes == 8) {
        words2 w;
        WORD(w, 0) = word[0];
        WORD(w, 1) = word[1];
        *(GLOBAL words2 *)to = w;
    }
    UNROLL
    for (int i = 0; i < bytes / 16; i++) {
        words4 w;
        UNROLL
        for (int j = 0; j < 4; j++) WORD(w, j) = word[4 * i + j];
        ((GLOBAL words4 *)to)[i] = w;
    }
}

/* Shifts n elements of so many bytes down by one place; the last element stays, or becomes 0. */
KFN void run_turn(u32 *word, int n, int bytes)
{
    int words = n * bytes / 4, step = bytes / 4;

    UNROLL
    for (int i = 0; i < words; i++) {
        if (step) word[i] = word[i + step < words ? i + step : i];
        else if (i + 1 < words) word[i] = word[i] >> 8 * bytes | word[i + 1] << (32 - 8 * bytes);
        else word[i] >>= 8 * bytes;
    }
}

#endif

/* The entries. Those that a host calls have the form of ENTRY_SPANS. */
#ifdef ON_HOST
#define ENTRY_RUNS(name, n, ...) \
    enum { FORM_##name = FORM_SPANS }; \
    HOST_ENTRY void NAME(name)(const void *args, void *const *operand, i64 begin, i64 count); \
    HOST_ENTRY void NAME(name)(const void *args, void *const *operand, i64 begin, i64 count) \
    { \
        const struct name##_args *a = (const struct name##_args *)args; \
        FOR_RUNS(r, &a->walk, begin, count) name##_run(a, r, OPERANDS_##n(OPERAND, __VA_ARGS__)); \
    }
#elif defined(ON_PROCESSOR)
#define ENTRY_RUNS(name, n, ...) \
    KERNEL(NAME(name))(struct name##_args args, i64 count, i64 run, \
                       OPERANDS_##n(OPERAND_DECLARED, __VA_ARGS__)) \
    { \
        for (i64 i = TEAM * run; i < count; i += TEAMS * run) { \
            i64 begin = i, left = count - i < run ? count - i : run; \
            FOR_RUNS(r, &args.walk, begin, left) \
            name##_run(&args, r, OPERANDS_##n(OPERAND, __VA_ARGS__)); \
        } \
    }
#else
/* Computes the elements of whole runs first, then the remaining ones singly. */
#define ENTRY_RUNS(name, n, ...) \
    KERNEL(NAME(name))(struct name##_args args, i64 count, \
                       OPERANDS_##n(OPERAND_DECLARED, __VA_ARGS__)) \
    { \
        i64 runs = name##_is_even(&args, OPERANDS_##n(OPERAND, __VA_ARGS__)) ? count / RUN : 0; \
        FOR_ALL(i, count - runs * (RUN - 1)) \
        { \
            int whole = i < runs; \
            struct walk_run r = walk_from(&args.walk, whole ? i * RUN : i + runs * (RUN - 1), \
                                          whole ? RUN : 1); \
            name##_run(&args, r, OPERANDS_##n(OPERAND, __VA_ARGS__)); \
        } \
    }
#endif
#define ENTRY_RUNS_2(name, ...) ENTRY_RUNS(name, 2, __VA_ARGS__)
#define ENTRY_RUNS_3(name, ...) ENTRY_RUNS(name, 3, __VA_ARGS__)
#define ENTRY_RUNS_4(name, ...) ENTRY_RUNS(name, 4, __VA_ARGS__)

/* Tests operand k of a walk, p, as <name>_is_even requires. */
#define RUN_EVEN(walk, k, p) walk_is_even(walk, k, (int)sizeof *(p), (u64)(uintptr_t)(p), RUN)

#endif
