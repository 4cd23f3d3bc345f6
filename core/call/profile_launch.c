/* SPDX-License-Identifier: Apache-2.0 */
/* profile_launch.c: records kernel launches in profiles, with the types of their operands if the
 * profile wants them. */
#include "profile_launch.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    TEXT = 1024
};

static const uint8_t dtype_bits[64] = {
#define X(NAME, name, number, bits, class) [number] = bits,
    BP_DTYPES(X)
#undef X
};

/* Appends formatted text that still fits. */
__attribute__((format(printf, 3, 4))) static void text_add(char *text, size_t *used,
                                                           const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text + *used, TEXT - *used, format, args);
    va_end(args);
    if (n > 0) *used += (size_t)n;
    if (*used >= TEXT) *used = TEXT - 1;
}

/* Writes "f32[2,3], -, i64[]": absent tensors are "-". */
static void text_add_views(char *text, size_t *used, const struct bp_view *const *view, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i) text_add(text, used, ", ");
        if (!view[i]) {
            text_add(text, used, "-");
            continue;
        }
        text_add(text, used, "%s[", bp_dtype_name(view[i]->dtype));
        for (uint32_t k = 0; k < view[i]->rank; k++)
            text_add(text, used, k ? ",%" PRId64 : "%" PRId64, view[i]->shape[k]);
        text_add(text, used, "]");
    }
}

static uint64_t view_bytes(const struct bp_view *const *view, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++)
        if (view[i]) bytes += ((uint64_t)view[i]->count * dtype_bits[view[i]->dtype & 63] + 7) / 8;
    return bytes;
}

static __attribute__((noinline)) void launch_put_shapes(struct bp_timeline *timeline,
                                                        const struct bp_launch *l, uint64_t began,
                                                        struct bp_profile_put *put)
{
    char text[TEXT] = "";
    size_t used = 0;

    text_add_views(text, &used, l->in, l->n_in);
    text_add(text, &used, " -> ");
    text_add_views(text, &used, l->out, l->n_out);
    put->shapes = text;
    bp_work_profile_end(timeline, l->tag, began, put);
}

void bp_profile_launch(struct bp_timeline *timeline, const struct bp_launch *l,
                       const struct bp_opdef *row, const char *node, uint64_t began)
{
    struct bp_profile_put put = {.name = row->info.name,
                                 .kernel = l->kernel ? l->kernel->name : NULL,
                                 .node = node,
                                 .bytes = view_bytes(l->in, l->n_in) + view_bytes(l->out, l->n_out),
                                 .kind = BP_RECORD_KERNEL};

    if (bp_profile_wants(BP_PROFILER_SHAPES)) launch_put_shapes(timeline, l, began, &put);
    else bp_work_profile_end(timeline, l->tag, began, &put);
}
