/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: changes the current context of a thread, and restores it; see context.h. */
#include "context.h"
#include <stddef.h>

int kit_context_enter(struct kit_context *caller, const struct kit_contexts *calls,
                      const void *self, uintptr_t wanted, enum kit_context_call *out)
{
    uintptr_t current = 0;
    int code = calls->get(self, &current);

    *out = KIT_CONTEXT_GET;
    if (code || current == wanted) return code;
    *out = KIT_CONTEXT_SET;
    code = calls->set(self, wanted);
    if (!code && !caller->calls) *caller = (struct kit_context){calls, self, current};
    return code;
}

void kit_context_return(struct kit_context *caller)
{
    int code;

    if (!caller->calls) return;
    code = caller->calls->set(caller->self, caller->before);
    if (code) caller->calls->warn(caller->self, code);
    caller->calls = NULL;
}
