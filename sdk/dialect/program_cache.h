/* SPDX-License-Identifier: Apache-2.0 */
/* program_cache.h: declares a cache on disk for programs that a driver or a library compiles at run
 * time. If the folder is full, read-only or damaged, programs are only compiled again. */
#ifndef BP_DIALECT_PROGRAM_CACHE_H
#define BP_DIALECT_PROGRAM_CACHE_H

#include <stddef.h>
#include <stdint.h>

/* All that a compiled program depends on, as text: hashes of its sources, options, the device, the
 * compiler and the driver. */
struct program_key {
    uint32_t size;
    char text[1536];
};

/* Appends a value to the key: its beginning, and a hash of the whole value. The key has room for
 * seven values. */
void program_key_add(struct program_key *key, const char *value, size_t size);

/* Continues a 64-bit FNV-1a hash (http://www.isthe.com/chongo/tech/comp/fnv/) with `size` more
 * bytes. */
#define PORTABLE_HASH_BEGIN UINT64_C(14695981039346656037)
uint64_t portable_hash(uint64_t hash, const void *data, size_t size);

/* Returns the program's binary, in memory from malloc; NULL: not in the cache. */
unsigned char *program_cache_read(const struct program_key *key, size_t *out_size);
void program_cache_write(const struct program_key *key, const unsigned char *binary, size_t size);
void program_cache_remove(const struct program_key *key);
/* Selects one of several processes and devices to compile a program that is not in the cache; the
 * others wait (a minute at most) and then find it. Returns a lock for program_cache_end; -1: there
 * is no cache, or the wait took too long. */
int program_cache_begin(const struct program_key *key);
void program_cache_end(const struct program_key *key, int lock);

#endif
