/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c: defines how the kinds of collective calls differ, formats calls as text, and
 * chooses the algorithm of a call by the number of ranks and bytes from a table. Rows from
 * BP_CCL_TABLE precede the built-in rows. */
#include "collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const struct bp_call_traits bp_call_traits_of[BP_COMM_CALL_COUNT] = {
    [BP_COMM_BARRIER] = {"bp_comm_barrier"},
    [BP_COMM_ALL_REDUCE] = {"bp_comm_all_reduce", .reduces = true, .in_place = true},
    [BP_COMM_REDUCE] = {"bp_comm_reduce", .dst_at_root = true, .reduces = true, .in_place = true},
    [BP_COMM_BROADCAST] = {"bp_comm_broadcast", .src_at_root = true, .in_place = true},
    [BP_COMM_ALL_GATHER] = {"bp_comm_all_gather", .dst_parts = true, .in_place = true},
    [BP_COMM_REDUCE_SCATTER] = {"bp_comm_reduce_scatter", .src_parts = true, .reduces = true,
                                .in_place = true},
    [BP_COMM_ALL_TO_ALL] = {"bp_comm_all_to_all", .src_parts = true, .dst_parts = true},
    [BP_COMM_ALL_TO_ALL_RAGGED] = {"bp_comm_all_to_all_ragged", .ragged = true},
    [BP_COMM_GATHER] = {"bp_comm_gather", .dst_parts = true, .dst_at_root = true, .in_place = true},
    [BP_COMM_SCATTER] = {"bp_comm_scatter", .src_parts = true, .src_at_root = true,
                         .in_place = true},
    [BP_COMM_SEND] = {"bp_comm_send"},
    [BP_COMM_RECV] = {"bp_comm_recv"},
};

const char *bp_comm_call_name(uint32_t call)
{
    switch (call) {
#define X(NAME, name) \
    case BP_COMM_##NAME: return #name;
        BP_COMM_CALLS(X)
#undef X
    default: return "?";
    }
}

static const char *reduction_name(uint32_t reduction)
{
    switch (reduction) {
#define X(NAME, name, number) \
    case number: return #name;
        BP_REDUCTIONS(X)
#undef X
    default: return "?";
    }
}

const char *bp_signature_text(uint64_t signature, uint64_t count, char *text, size_t size)
{
    uint32_t call = signature & 0xff, root = (uint32_t)(signature >> 24 & 0xff);
    bool known = call < BP_COMM_CALL_COUNT;
    bool rooted = known &&
                  (bp_call_traits_of[call].src_at_root || bp_call_traits_of[call].dst_at_root);
    int used = snprintf(text, size, "%s", bp_comm_call_name(call));

    if (call == BP_COMM_BARRIER) return text;
    if (bp_call_reduces(call))
        used += snprintf(text + used, size - (size_t)used, " %s",
                         reduction_name(signature >> 16 & 0xff));
    if (call == BP_COMM_ALL_TO_ALL_RAGGED)
        used += snprintf(text + used, size - (size_t)used, " of %s",
                         bp_dtype_name(signature >> 8 & 0xff));
    else
        used += snprintf(text + used, size - (size_t)used, " of %" PRIu64 " %s", count,
                         bp_dtype_name(signature >> 8 & 0xff));
    if (rooted) snprintf(text + used, size - (size_t)used, " with root %" PRIu32, root);
    return text;
}

const char *bp_p2p_text(const struct bp_collective *c, uint32_t other, char *text, size_t size)
{
    char signature[200];

    snprintf(text, size, "%s %s rank %u",
             bp_signature_text(bp_call_signature(c->call, c->dtype, 0, 0), c->count, signature,
                               sizeof signature),
             c->call == BP_COMM_SEND ? "to" : "from", other);
    return text;
}

/* A row of the table of algorithms. The first row that matches a call is used. */
struct row {
    uint32_t call;  /* enum bp_comm_call, or ANY */
    uint32_t ranks; /* maximum */
    uint64_t bytes; /* maximum size of one rank's part */
    enum bp_algorithm algorithm;
};
enum { ANY = UINT32_MAX, ROWS = 32 };

static const struct row table[] = {
    {BP_COMM_BARRIER, ANY, UINT64_MAX, BP_ALGORITHM_INLINE},
    {BP_COMM_ALL_REDUCE, ANY, BP_SHM_INLINE_BYTES, BP_ALGORITHM_INLINE},
    {BP_COMM_REDUCE, ANY, BP_SHM_INLINE_BYTES, BP_ALGORITHM_INLINE},
    {BP_COMM_BROADCAST, ANY, BP_SHM_INLINE_BYTES, BP_ALGORITHM_INLINE},
    {BP_COMM_ALL_GATHER, ANY, BP_SHM_INLINE_BYTES, BP_ALGORITHM_INLINE},
    {BP_COMM_GATHER, ANY, BP_SHM_INLINE_BYTES, BP_ALGORITHM_INLINE},
    {BP_COMM_ALL_REDUCE, ANY, 4 << 10, BP_ALGORITHM_WINDOW},
    {ANY, 2, 4 << 10, BP_ALGORITHM_WINDOW},
    {ANY, ANY, 2 << 10, BP_ALGORITHM_WINDOW},
    {ANY, ANY, UINT64_MAX, BP_ALGORITHM_ZERO_COPY},
};

static struct row own[ROWS];
static size_t n_own;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

static const char *const names[] = {[BP_ALGORITHM_INLINE] = "inline",
                                    [BP_ALGORITHM_WINDOW] = "window",
                                    [BP_ALGORITHM_ZERO_COPY] = "direct"};

static bool parse_word(const char **text, char end, char *word, size_t size)
{
    size_t n = strcspn(*text, (const char[]){end, ',', 0});

    if (!n || n >= size) return false;
    memcpy(word, *text, n);
    word[n] = 0;
    *text += n;
    if (**text == end && end != ',') ++*text;
    return true;
}

static uint64_t parse_limit(const char *word)
{
    return strcmp(word, "*") ? strtoull(word, NULL, 10) : UINT64_MAX;
}

/* Parses one row: "CALL:RANKS:BYTES:ALGORITHM", where * matches any value. */
static bool parse_row(const char **text, struct row *out)
{
    char call[32], ranks[16], bytes[24], algorithm[16];
    struct row row = {.call = ANY};

    if (!parse_word(text, ':', call, sizeof call) || !parse_word(text, ':', ranks, sizeof ranks) ||
        !parse_word(text, ':', bytes, sizeof bytes) ||
        !parse_word(text, ',', algorithm, sizeof algorithm))
        return false;
    for (uint32_t i = 0; i < BP_COMM_CALL_COUNT; i++)
        if (!strcmp(bp_comm_call_name(i), call)) row.call = i;
    if (row.call == ANY && strcmp(call, "*")) return false;
    row.ranks = (uint32_t)parse_limit(ranks);
    row.bytes = parse_limit(bytes);
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], algorithm)) {
            row.algorithm = (enum bp_algorithm)i;
            *out = row;
            return true;
        }
    return false;
}

/* Reads BP_CCL_TABLE up to the first text that is not a valid row. */
static void read_table(void)
{
    const char *text = bp_env_get("BP_CCL_TABLE");

    while (text && *text && n_own < ROWS && parse_row(&text, &own[n_own])) {
        n_own++;
        if (*text == ',') text++;
    }
}

static const struct row *find_algorithm_row(const struct row *rows, size_t n_row, uint32_t call,
                                            uint32_t n, uint64_t bytes)
{
    for (size_t i = 0; i < n_row; i++)
        if ((rows[i].call == call || rows[i].call == ANY) && n <= rows[i].ranks &&
            bytes <= rows[i].bytes)
            return &rows[i];
    return NULL;
}

/* Call slots hold few bytes, and no separate parts for each rank. */
static bool fits_inline(uint32_t call, uint64_t bytes)
{
    return bytes <= BP_SHM_INLINE_BYTES && call <= BP_COMM_GATHER &&
           call != BP_COMM_REDUCE_SCATTER && call != BP_COMM_ALL_TO_ALL &&
           call != BP_COMM_ALL_TO_ALL_RAGGED;
}

enum bp_algorithm bp_algorithm_find(uint32_t call, uint32_t n, uint64_t bytes)
{
    const struct row *row;

    pthread_once(&read_once, read_table);
    row = n_own ? find_algorithm_row(own, n_own, call, n, bytes) : NULL;
    if (!row) row = find_algorithm_row(table, sizeof table / sizeof *table, call, n, bytes);
    if (row->algorithm == BP_ALGORITHM_INLINE && !fits_inline(call, bytes))
        return BP_ALGORITHM_WINDOW;
    return row->algorithm;
}

/* The size up to which all calls use the algorithm `last` or an earlier one, plus one; 0: no call
 * does. Found by bisection, which needs rows in ascending order of size. */
static uint64_t largest_bytes(uint32_t call, uint32_t n, enum bp_algorithm last)
{
    uint64_t low = 0, high = BP_SHM_WINDOW_BYTES;

    if (bp_algorithm_find(call, n, 0) > last) return 0;
    while (low < high) {
        uint64_t middle = (low + high + 1) / 2;
        if (bp_algorithm_find(call, n, middle) <= last) low = middle;
        else high = middle - 1;
    }
    return low + 1;
}

void bp_algorithm_fill_limits(struct bp_shm_rank *b)
{
    for (uint32_t call = 0; call < BP_COMM_CALL_COUNT; call++) {
        b->calls.inline_bytes[call] = largest_bytes(call, b->n, BP_ALGORITHM_INLINE);
        b->calls.window_bytes[call] = largest_bytes(call, b->n, BP_ALGORITHM_WINDOW);
    }
}
