/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.c: a stand-in for a tool that sees an app's ranges and marks: by injection into NVTX 3, or
 * as the library of NVTX 2, or that of roctx (-DSTANDIN_ROCTX). It writes them into a text. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char text[4096];
static int depth;

static int note_push(const char *how, const char *name)
{
    size_t used = strlen(text);

    snprintf(text + used, sizeof text - used, "%s(%s;", how, name);
    return depth++;
}

static int note_pop(void)
{
    size_t used = strlen(text);

    snprintf(text + used, sizeof text - used, ");");
    return depth > 0 ? --depth : -1;
}

static void note_mark(const char *how, const char *name)
{
    size_t used = strlen(text);

    snprintf(text + used, sizeof text - used, "%s!%s;", how, name);
}

/* For tests. */
EXPORT const char *bp_standin_ranges(void)
{
    return text;
}

#ifdef STANDIN_ROCTX
EXPORT int roctxRangePushA(const char *name)
{
    return note_push("roctx", name);
}

EXPORT int roctxRangePop(void)
{
    return note_pop();
}

EXPORT void roctxMarkA(const char *name)
{
    note_mark("roctx", name);
}
#else
EXPORT int nvtxRangePushA(const char *name)
{
    return note_push("nvtx2", name);
}

EXPORT int nvtxRangePop(void)
{
    return note_pop();
}

EXPORT void nvtxMarkA(const char *name)
{
    note_mark("nvtx2", name);
}

static int injected_push(const char *name)
{
    return note_push("nvtx3", name);
}

static void injected_mark(const char *name)
{
    note_mark("nvtx3", name);
}

typedef void (*function)(void);
struct callbacks {
    size_t struct_size;
    int (*GetModuleFunctionTable)(int module, function ***out_table, unsigned *out_size);
};

/* As nvtxTypes.h says: table 1 has the callbacks, module 1 is the core with 16 places, of which the
 * first is empty, 2 is MarkA, 9 RangePushA and 11 RangePop; module 5 has the domains. */
EXPORT int InitializeInjectionNvtx2(const void *(*tables)(uint32_t))
{
    const struct callbacks *c = tables(1);
    function **table = NULL;
    unsigned size = 0;

    if (getenv("BP_STANDIN_NVTX_REFUSES") || !c || c->struct_size < sizeof *c) return 0;
    c->GetModuleFunctionTable(5, &table, &size);
    if (!c->GetModuleFunctionTable(1, &table, &size) || size < 16 || table[0]) return 0;
    for (unsigned i = 1; i < size; i++)
        if (!table[i] || *table[i]) abort();
    *table[2] = (function)injected_mark;
    *table[9] = (function)injected_push;
    *table[11] = (function)note_pop;
    return 1;
}
#endif
