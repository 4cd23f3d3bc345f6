/* SPDX-License-Identifier: Apache-2.0 */
/* kept_file.h: declares the files in which the compiler keeps its work. A file begins with a word
 * for its kind and format, the digest of its key (everything that the contents depend on), and the
 * size and the digest of the contents. Readers check all of these, and the owner of the file. */
#ifndef BP_KEPT_FILE_H
#define BP_KEPT_FILE_H

#include "../base/base.h"
#include "../base/digest.h"

#include <stdio.h>

enum {
    BP_KEPT_PATH = 4096
};

#define BP_KEPT_PROGRAM "bpprog1\n"
#define BP_KEPT_CHOICES "bptune1\n"

/* Contents that are being written. A failed allocation sets failed, and later additions do
 * nothing. */
struct bp_kept_writer {
    unsigned char *bytes; /* owned */
    size_t n, room;
    bool failed;
};
void bp_kept_bytes(struct bp_kept_writer *w, const void *bytes, size_t n);
void bp_kept_u32(struct bp_kept_writer *w, uint32_t number);
void bp_kept_u64(struct bp_kept_writer *w, uint64_t number);
/* A text, or NULL, which is read as an empty text. */
void bp_kept_text(struct bp_kept_writer *w, const char *text);

/* Contents that are being read. A read past the end sets failed, and returns 0 or "". */
struct bp_kept_reader {
    const unsigned char *at, *end;
    bool failed;
};
const void *bp_kept_get_bytes(struct bp_kept_reader *r, size_t n); /* NULL: fewer are left */
uint32_t bp_kept_get_u32(struct bp_kept_reader *r);
uint64_t bp_kept_get_u64(struct bp_kept_reader *r);
/* Reads a number of records that have at least `least` bytes each; more than can follow: failed. */
uint32_t bp_kept_get_count(struct bp_kept_reader *r, size_t least);
/* Returns a text inside the contents. */
const char *bp_kept_get_text(struct bp_kept_reader *r);

/* Reads a file of this kind (BP_KEPT_...) and key, which contents the caller frees.
 * BP_ERR_NOT_FOUND: there is no such file. BP_ERR_INVALID: the file is damaged, of another kind or
 * key, larger than 256 MiB, no regular file, or others than its owner may write to it. */
enum bp_status bp_kept_file_read(const char *path, const char *kind, struct bp_digest key,
                                 unsigned char **out_bytes, size_t *out_n);

/* Writes a file so that readers see the earlier file or the whole new one. Creates missing folders
 * of the path, for the user only. Takes the writer's contents over, also if it fails. */
enum bp_status bp_kept_file_write(const char *path, const char *kind, struct bp_digest key,
                                  struct bp_kept_writer *w);

#endif
