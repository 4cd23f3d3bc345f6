/* SPDX-License-Identifier: Apache-2.0 */
/* context.h: makes the context of a device current in the calling thread for the time of a
 * callback: docs/kit.md. An app has contexts or devices of its own, which are current in its
 * threads. */
#ifndef KIT_CONTEXT_H
#define KIT_CONTEXT_H

#include <stdint.h>

/* The calls of the vendor. A context is a handle, or the number of a device, as an integer. The
 * functions return 0 or the code of the vendor. */
struct kit_contexts {
    int (*get)(const void *self, uintptr_t *out); /* the context of the calling thread */
    int (*set)(const void *self, uintptr_t context);
    void (*warn)(const void *self, int code); /* the context before cannot be restored */
};

/* The context that has to be restored in the calling thread. */
struct kit_context {
    const struct kit_contexts *calls; /* NULL: nothing was changed */
    const void *self;
    uintptr_t before;
};

/* Declares `KIT_CONTEXT caller = {NULL}`: at the end of the block, the context is again the one
 * from the block's beginning, however often kit_context_enter was called. */
#define KIT_CONTEXT __attribute__((cleanup(kit_context_return))) struct kit_context
void kit_context_return(struct kit_context *caller);

/* The two calls of kit_context_enter. */
enum kit_context_call {
    KIT_CONTEXT_GET,
    KIT_CONTEXT_SET
};

/* Makes the context `wanted` current. Returns 0, or the code of the call that is stored in out. */
int kit_context_enter(struct kit_context *caller, const struct kit_contexts *calls,
                      const void *self, uintptr_t wanted, enum kit_context_call *out);

#endif
