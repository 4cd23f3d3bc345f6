/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h: declares a hash of 128 bits, which detects changes and accidental damage of data. An
 * attacker can find two texts with one digest, so a digest proves no origin. */
#ifndef BP_DIGEST_H
#define BP_DIGEST_H

#include <stddef.h>
#include <stdint.h>

struct bp_digest {
    uint64_t a, b;
};

struct bp_digest bp_digest_begin(void);

/* Adds n bytes, and their number: two additions differ from one of the joined bytes. */
void bp_digest_add(struct bp_digest *digest, const void *bytes, size_t n);
/* Adds the characters of a text; NULL differs from an empty one. */
void bp_digest_add_text(struct bp_digest *digest, const char *text);
void bp_digest_add_word(struct bp_digest *digest, uint64_t word);

static inline int bp_digest_same(struct bp_digest x, struct bp_digest y)
{
    return x.a == y.a && x.b == y.b;
}

#endif
