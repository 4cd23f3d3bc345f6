/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h: defines the entry points of portable kernels. A kernel is a function of its parameters,
 * a struct <name>_args that is passed by value, and of its operands, pointers to device memory:
 *
 *   spans   KFN void <name>_span(const struct <name>_args *a, i64 begin, i64 n, p0, p1, ...)
 *           computes elements begin to begin + n - 1 (or rows: any independent results). A GPU
 *           calls it for one element per lane at a time, a host for long runs, so that values
 *           computed once serve a whole run. ENTRY_SPANS_2(<name>, type of p0, type of p1)
 *
 *   teams   KFN void <name>_team(const struct <name>_args *a, i64 team, LOCAL acc *s, p0, ...)
 *           computes result number team with all lanes together; s has MAX_LANES elements, for the
 *           reductions below; more if TEAM_SCRATCH is defined to a larger number before the entry.
 *           On a host the team is one lane, and s is NULL. ENTRY_TEAMS_2(<name>, ...)
 *
 * The entry of a GPU is NAME(<name>)(args, count, p0, ...), that of a host NAME(<name>)(args,
 * operands, begin, n): see portable.h. An operand type may be const. */
#ifndef BP_DIALECT_ENTRY_H
#define BP_DIALECT_ENTRY_H

#include "elem.h"

/* OPERANDS_n(X, types): X(number, type) for each type, separated by commas. */
#define OPERANDS_1(X, a) X(0, a)
#define OPERANDS_2(X, a, b) X(0, a), X(1, b)
#define OPERANDS_3(X, a, b, c) OPERANDS_2(X, a, b), X(2, c)
#define OPERANDS_4(X, a, b, c, d) OPERANDS_3(X, a, b, c), X(3, d)
#define OPERANDS_5(X, a, b, c, d, e) OPERANDS_4(X, a, b, c, d), X(4, e)
#define OPERANDS_6(X, a, b, c, d, e, f) OPERANDS_5(X, a, b, c, d, e), X(5, f)
#define OPERANDS_7(X, a, b, c, d, e, f, g) OPERANDS_6(X, a, b, c, d, e, f), X(6, g)
#define OPERANDS_8(X, a, b, c, d, e, f, g, h) OPERANDS_7(X, a, b, c, d, e, f, g), X(7, h)
#define OPERANDS_9(X, a, b, c, d, e, f, g, h, i) OPERANDS_8(X, a, b, c, d, e, f, g, h), X(8, i)
#define OPERANDS_10(X, a, b, c, d, e, f, g, h, i, j) \
    OPERANDS_9(X, a, b, c, d, e, f, g, h, i), X(9, j)

#ifdef ON_HOST
/* The host's form of an entry: operands are passed as addresses. The form of an entry (FORM_name)
 * is checked against the family's list. The including file may define HOST_ENTRY, the specifiers
 * with which the functions are declared. */
#ifndef HOST_ENTRY
#define HOST_ENTRY
#endif
enum { FORM_SPANS, FORM_TEAMS };
#define OPERAND(number, type) (type *)operand[number]
#define ENTRY_SPANS(name, n, ...) \
    enum { FORM_##name = FORM_SPANS }; \
    HOST_ENTRY void NAME(name)(const void *args, void *const *operand, i64 begin, i64 count); \
    HOST_ENTRY void NAME(name)(const void *args, void *const *operand, i64 begin, i64 count) \
    { \
        name##_span((const struct name##_args *)args, begin, count, \
                    OPERANDS_##n(OPERAND, __VA_ARGS__)); \
    }
#define ENTRY_TEAMS(name, n, ...) \
    enum { FORM_##name = FORM_TEAMS }; \
    HOST_ENTRY void NAME(name)(const void *args, void *const *operand, i64 begin, i64 count); \
    HOST_ENTRY void NAME(name)(const void *args, void *const *operand, i64 begin, i64 count) \
    { \
        for (i64 team = begin; team < begin + count; team++) \
            name##_team((const struct name##_args *)args, team, (acc *)0, \
                        OPERANDS_##n(OPERAND, __VA_ARGS__)); \
    }
#else
#if defined(__OPENCL_C_VERSION__)
/* An operand is a buffer, and the offset in bytes at which the operand begins in it. */
#define OPERAND_DECLARED(number, type) GLOBAL type *p##number, i64 at##number
#define OPERAND(number, type) (GLOBAL type *)((GLOBAL const char *)p##number + at##number)
#else
#define OPERAND_DECLARED(number, type) GLOBAL type *p##number
#define OPERAND(number, type) p##number
#endif
#ifdef ON_PROCESSOR
/* A lane computes a run, as a host does. */
#define ENTRY_SPANS(name, n, ...) \
    KERNEL(NAME(name))(struct name##_args args, i64 count, i64 run, \
                       OPERANDS_##n(OPERAND_DECLARED, __VA_ARGS__)) \
    { \
        for (i64 i = TEAM * run; i < count; i += TEAMS * run) \
            name##_span(&args, i, count - i < run ? count - i : run, \
                        OPERANDS_##n(OPERAND, __VA_ARGS__)); \
    }
#else
#define ENTRY_SPANS(name, n, ...) \
    KERNEL(NAME(name))(struct name##_args args, i64 count, \
                       OPERANDS_##n(OPERAND_DECLARED, __VA_ARGS__)) \
    { \
        FOR_ALL(i, count) name##_span(&args, i, 1, OPERANDS_##n(OPERAND, __VA_ARGS__)); \
    }
#endif
#define TEAM_SCRATCH MAX_LANES
#define ENTRY_TEAMS(name, n, ...) \
    typedef char scratch_of_##name##_fits[sizeof(acc) * TEAM_SCRATCH <= MAX_LOCAL ? 1 : -1]; \
    KERNEL(NAME(name))(struct name##_args args, i64 count, \
                       OPERANDS_##n(OPERAND_DECLARED, __VA_ARGS__)) \
    { \
        TEAM_LOCAL acc scratch[TEAM_SCRATCH] __attribute__((aligned(16))); \
        for (i64 team = TEAM; team < count; team += TEAMS) \
            name##_team(&args, team, scratch, OPERANDS_##n(OPERAND, __VA_ARGS__)); \
    }
#endif

#define ENTRY_SPANS_1(name, ...) ENTRY_SPANS(name, 1, __VA_ARGS__)
#define ENTRY_SPANS_2(name, ...) ENTRY_SPANS(name, 2, __VA_ARGS__)
#define ENTRY_SPANS_3(name, ...) ENTRY_SPANS(name, 3, __VA_ARGS__)
#define ENTRY_SPANS_4(name, ...) ENTRY_SPANS(name, 4, __VA_ARGS__)
#define ENTRY_SPANS_5(name, ...) ENTRY_SPANS(name, 5, __VA_ARGS__)
#define ENTRY_SPANS_6(name, ...) ENTRY_SPANS(name, 6, __VA_ARGS__)
#define ENTRY_SPANS_7(name, ...) ENTRY_SPANS(name, 7, __VA_ARGS__)
#define ENTRY_SPANS_8(name, ...) ENTRY_SPANS(name, 8, __VA_ARGS__)
#define ENTRY_SPANS_9(name, ...) ENTRY_SPANS(name, 9, __VA_ARGS__)
#define ENTRY_SPANS_10(name, ...) ENTRY_SPANS(name, 10, __VA_ARGS__)
#define ENTRY_TEAMS_1(name, ...) ENTRY_TEAMS(name, 1, __VA_ARGS__)
#define ENTRY_TEAMS_2(name, ...) ENTRY_TEAMS(name, 2, __VA_ARGS__)
#define ENTRY_TEAMS_3(name, ...) ENTRY_TEAMS(name, 3, __VA_ARGS__)
#define ENTRY_TEAMS_4(name, ...) ENTRY_TEAMS(name, 4, __VA_ARGS__)
#define ENTRY_TEAMS_5(name, ...) ENTRY_TEAMS(name, 5, __VA_ARGS__)
#define ENTRY_TEAMS_6(name, ...) ENTRY_TEAMS(name, 6, __VA_ARGS__)
#define ENTRY_TEAMS_7(name, ...) ENTRY_TEAMS(name, 7, __VA_ARGS__)
#define ENTRY_TEAMS_8(name, ...) ENTRY_TEAMS(name, 8, __VA_ARGS__)
#define ENTRY_TEAMS_9(name, ...) ENTRY_TEAMS(name, 9, __VA_ARGS__)
#define ENTRY_TEAMS_10(name, ...) ENTRY_TEAMS(name, 10, __VA_ARGS__)

#include "team.h"

/* Reductions over the lanes of a team: every lane passes its v, every lane gets the result. */
#define TEAM_REDUCE(name, better) \
    TEAM_JOIN(name##_of, acc, better) \
    KFN acc name(acc v, LOCAL acc *s) \
    { \
        return name##_of(0, v, s); \
    }
TEAM_REDUCE(team_sum, acc_add(a, b))
#ifndef ELEM_COMPLEX
TEAM_REDUCE(team_max, a > b ? a : b)
TEAM_REDUCE(team_min, a < b ? a : b)
#endif

/* Read and write element i of an index operand, of type i32 or, if wide is set, of type i64. */
KFN i64 index_at(GLOBAL const void *p, i64 wide, i64 i)
{
    return wide ? ((GLOBAL const i64 *)p)[i] : ((GLOBAL const i32 *)p)[i];
}
KFN void index_put(GLOBAL void *p, i64 wide, i64 i, i64 value)
{
    if (wide) ((GLOBAL i64 *)p)[i] = value;
    else ((GLOBAL i32 *)p)[i] = (i32)value;
}

/* Reports that an input has an invalid value: the launch fails with BP_ERR_FAULT. code: any number
 * except 0. */
KFN void fault_set(GLOBAL u32 *fault, u32 code)
{
    if (fault) *fault = code;
}

#endif
