/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c: computes a hash of 128 bits: two lanes that take 8 bytes a step. */
#include "digest.h"

#include <string.h>

static uint64_t digest_rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

/* A change of one bit of x changes about half the bits of the result. */
static uint64_t digest_spread(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

struct bp_digest bp_digest_begin(void)
{
    return (struct bp_digest){UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344)};
}

/* Both lanes are bijections of the word, so that a changed word changes them. */
static void digest_step(struct bp_digest *d, uint64_t word)
{
    d->a = digest_rotate((d->a ^ word) * UINT64_C(0x9e3779b97f4a7c15), 29);
    d->b = digest_rotate(d->b + word * UINT64_C(0xc2b2ae3d27d4eb4f), 31) *
           UINT64_C(0x165667b19e3779f9);
}

void bp_digest_add(struct bp_digest *d, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t word;

    for (size_t i = 0; i + 8 <= n; i += 8) {
        memcpy(&word, at + i, 8);
        digest_step(d, word);
    }
    word = 0;
    if (n % 8) memcpy(&word, at + n / 8 * 8, n % 8);
    digest_step(d, word);
    digest_step(d, n);
    d->a = digest_spread(d->a ^ d->b);
    d->b = digest_spread(d->b + d->a);
}

void bp_digest_add_text(struct bp_digest *d, const char *text)
{
    if (text) bp_digest_add(d, text, strlen(text));
    else bp_digest_add_word(d, UINT64_MAX);
}

void bp_digest_add_word(struct bp_digest *d, uint64_t word)
{
    bp_digest_add(d, &word, sizeof word);
}
