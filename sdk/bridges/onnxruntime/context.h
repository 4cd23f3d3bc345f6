/* SPDX-License-Identifier: Apache-2.0 */
/* context.h: declares what the writer and the reader of EPContext nodes share. */
#ifndef ORT_CONTEXT_H
#define ORT_CONTEXT_H

#include "ort.h"

#define CONTEXT_OPERATOR "EPContext"
#define CONTEXT_DOMAIN "com.microsoft"

/* Contents begin with these 8 bytes and the size of the model, as 8 bytes. */
#define CONTEXT_MAGIC "BPMODEL1"
enum {
    CONTEXT_MAGIC_SIZE = sizeof CONTEXT_MAGIC - 1,
    CONTEXT_HEAD = CONTEXT_MAGIC_SIZE + sizeof(uint64_t)
};

/* The programs lie in a folder whose path is that of the context model with this end. */
#define CONTEXT_PROGRAMS ".programs"

/* The attribute `notes` has the digest of the contents behind this. A file that belongs to another
 * context model, or was damaged, is refused; the digest does not protect from intent. */
#define CONTEXT_DIGEST "digest="

uint64_t ort_context_digest(const void *data, size_t size);

#endif
