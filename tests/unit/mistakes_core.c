/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_core.c: tables of wrong calls of core.h and error.h, and of the operator table
 * (call.h). */
#include "mistakes.h"

#include <backplane/op.h>

static uint64_t core_create(const union value *a)
{
    return bp_core_create(a[0].cp, a[1].p);
}

static uint64_t core_destroy(const union value *a)
{
    bp_core_destroy(a[0].p);
    return 0;
}

/* bp_shutdown is not called: only a call from a callback is wrong, and a right call would end the
 * use of Backplane in this process. */
static uint64_t shut_down(const union value *a)
{
    (void)a;
    return 0;
}

static uint64_t core_version(const union value *a)
{
    (void)a;
    return (uintptr_t)bp_version();
}

static uint64_t core_plugins(const union value *a)
{
    return bp_core_plugins(a[0].p);
}

static uint64_t core_plugin(const union value *a)
{
    return bp_core_plugin(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t thread_set_fallback(const union value *a)
{
    return bp_thread_set_fallback((uint32_t)a[0].u, a[1].p);
}

static uint64_t core_load(const union value *a)
{
    return bp_core_load(a[0].p, (uint32_t)a[1].u);
}

static uint64_t core_load_path(const union value *a)
{
    return bp_core_load_path(a[0].p, a[1].cp, a[2].p);
}

static uint64_t activity_find(const union value *a)
{
    return bp_activity_find((uint32_t)a[0].u, a[1].p);
}

static uint64_t activity_launch(const union value *a)
{
    return bp_activity_launch(a[0].p);
}

static uint64_t error_message(const union value *a)
{
    (void)a;
    return (uintptr_t)bp_error_message();
}

static uint64_t error_info(const union value *a)
{
    return bp_error_get_info(a[0].p);
}

static uint64_t error_set(const union value *a)
{
    return bp_error_set((enum bp_status)a[0].u, a[1].cp);
}

static uint64_t status_name(const union value *a)
{
    return (uintptr_t)bp_status_name((enum bp_status)a[0].u);
}

static uint64_t status_text(const union value *a)
{
    return (uintptr_t)bp_status_text((enum bp_status)a[0].u);
}

static uint64_t dtype_name(const union value *a)
{
    return (uintptr_t)bp_dtype_name((uint32_t)a[0].u);
}

static uint64_t dtype_find(const union value *a)
{
    return bp_dtype_find(a[0].cp, a[1].p);
}

static uint64_t dtype_bits(const union value *a)
{
    return bp_dtype_bits((uint32_t)a[0].u);
}

static uint64_t fused_parse(const union value *a)
{
    return bp_fused_parse(a[0].cp, a[1].p, a[2].p);
}

static uint64_t fused_print(const union value *a)
{
    return bp_fused_print(a[0].cp, a[1].u, a[2].p, a[3].u);
}

/* "y0 = relu x0" as code. */
static const int64_t relu_code[1 + BP_FUSED_STEP_WORDS] = {
    BP_FUSED_VERSION | 1 << 8 | 1 << 16, 'r' | 'e' << 8 | 'l' << 16 | 'u' << 24, 0, 0,
    BP_FUSED_Y | BP_FUSED_X << 8 | INT64_C(0xffff) << 16};

static uint64_t opinfo_find(const union value *a)
{
    return (uintptr_t)bp_opinfo_find(a[0].cp);
}

static uint64_t opinfo_count(const union value *a)
{
    (void)a;
    return bp_opinfo_count();
}

static uint64_t opinfo_at(const union value *a)
{
    return (uintptr_t)bp_opinfo_at((uint32_t)a[0].u);
}

static const struct function functions[] = {
    {"bp_core_create", core_create, {OPTIONAL(NULL), OUT_OF(T_CORE)}},
    {"bp_core_destroy", core_destroy, {HANDLE(T_CORE)}, RETURNS_NOTHING},
    {"bp_shutdown", shut_down, {{0}}, RETURNS_NOTHING},
    {"bp_version", core_version, {{0}}, RETURNS_TEXT},
    {"bp_core_plugins", core_plugins, {HANDLE(T_CORE)}, RETURNS_ZERO},
    {"bp_core_plugin", core_plugin,
     {HANDLE(T_CORE), NUMBER_OWN(T_PLUGIN), INFO(struct bp_plugin_info)}},
    {"bp_core_load", core_load, {HANDLE(T_CORE), NUMBER_OWN(T_PLUGIN)}},
    {"bp_core_load_path", core_load_path,
     {HANDLE(T_CORE), POINTER(TEMPLATE), {.kind = ARG_OUT_OPT}}, .called = ""},
    {"bp_thread_set_fallback", thread_set_fallback,
     {NUMBER(BP_CORE_FALLBACK_SET), OPTIONAL(NULL)}},
    {"bp_activity_find", activity_find, {NUMBER(0), OPTIONAL(NULL)}, RETURNS_ZERO},
    {"bp_activity_launch", activity_launch, {OPTIONAL(NULL)}, RETURNS_ZERO},
    {"bp_error_message", error_message, {{0}}, RETURNS_TEXT},
    {"bp_error_get_info", error_info, {INFO(struct bp_error_info)}},
    {"bp_error_set", error_set, {NUMBER(BP_OK), OPTIONAL(NULL)}},
    {"bp_status_name", status_name, {NUMBER(BP_ERR_INVALID)}, RETURNS_TEXT},
    {"bp_status_text", status_text, {NUMBER(BP_ERR_INVALID)}, RETURNS_TEXT},
    {"bp_dtype_name", dtype_name, {NUMBER(BP_F32)}, RETURNS_TEXT},
    {"bp_dtype_find", dtype_find, {POINTER("f32"), OUT_OF(T_NONE)}},
    {"bp_dtype_bits", dtype_bits, {NUMBER(BP_F32)}, RETURNS_ZERO},
    {"bp_fused_parse", fused_parse,
     {POINTER("y0 = relu x0"), OUT_OF(T_NONE), OUT_OF(T_NONE)}},
    {"bp_fused_print", fused_print,
     {POINTER(relu_code), NUMBER(COUNT(relu_code)), OUT_OF(T_NONE), NUMBER(64)}},
    {"bp_opinfo_find", opinfo_find, {POINTER("add")}, RETURNS_ZERO},
    {"bp_opinfo_count", opinfo_count, {{0}}, RETURNS_TEXT},
    {"bp_opinfo_at", opinfo_at, {NUMBER(0)}, RETURNS_ZERO},
};

static const struct bp_core_options size_0 = {.size = 0}, size_4 = {.size = 4},
                                    size_huge = {.size = SIZE_MAX},
                                    many_threads = {.size = sizeof many_threads, .threads = 4097},
                                    no_policy = {.size = sizeof no_policy, .fallback = 4};
static void *core_take(void *ctx, size_t size, size_t alignment)
{
    (void)ctx, (void)size, (void)alignment;
    return NULL;
}
static const struct bp_allocator half = {.allocate = core_take};
static const struct bp_core_options half_allocator = {.size = sizeof half_allocator,
                                                      .allocator = &half};

static const struct mistake mistakes[] = {
    {"bp_activity_find", "there is nothing to write to", BP_OK, NULL, {PUT(2, NULL)}},
    {"bp_activity_launch", "there is nothing to write to", BP_OK, NULL, {PUT(1, NULL)}},
    {"bp_core_create", "size 0", BP_ERR_INVALID, "options->size is 0", {PUT(1, &size_0)}},
    {"bp_core_create", "size 4", BP_ERR_INVALID, "options->size is 4", {PUT(1, &size_4)}},
    {"bp_core_create", "huge size", BP_ERR_INVALID, "options->size", {PUT(1, &size_huge)}},
    {"bp_core_create", "too many threads", BP_ERR_INVALID, "threads is 4097",
     {PUT(1, &many_threads)}},
    {"bp_core_create", "no such policy", BP_ERR_INVALID, "fallback is 4", {PUT(1, &no_policy)}},
    {"bp_core_create", "an allocator that cannot release", BP_ERR_INVALID, "allocate and release",
     {PUT(1, &half_allocator)}},

    {"bp_thread_set_fallback", "no such policy", BP_ERR_INVALID, "fallback is 4", {SET(1, 4)}},
    {"bp_core_plugin", "no such plugin", BP_ERR_INVALID, "there is no plugin 99999",
     {SET(2, 99999)}},
    {"bp_core_plugin", "the largest index", BP_ERR_INVALID, "there is no plugin 4294967295",
     {SET(2, UINT32_MAX)}},
    {"bp_core_load", "no such plugin", BP_ERR_INVALID, "there is no plugin 99999", {SET(2, 99999)}},
    {"bp_core_load_path", "an empty path", BP_ERR_INVALID, "absolute path", {PUT(2, "")}},
    {"bp_core_load_path", "a relative path", BP_ERR_INVALID, "absolute path",
     {PUT(2, "plugin.so")}},
    {"bp_core_load_path", "a path that climbs", BP_ERR_INVALID, "absolute path",
     {PUT(2, "/a/../b.so")}},
    {"bp_core_load_path", "not a library's name", BP_ERR_INVALID, "ends in .so", {PUT(2, "/a/b")}},
    {"bp_core_load_path", "no such file", BP_ERR_PLUGIN, "/no/such/bp_plugin.so",
     {PUT(2, "/no/such/bp_plugin.so")}},

    {"bp_error_set", "a text of its own", BP_ERR_INVALID, "said by another",
     {SET(1, BP_ERR_INVALID), PUT(2, "said by another library")}},
    {"bp_status_name", "no status", 0, "BP_ERR_?", {SET(1, 12345)}},
    {"bp_status_text", "no status", 0, "a status that this version does not know", {SET(1, 12345)}},
    {"bp_dtype_name", "no dtype", 0, "?", {SET(1, 99)}},
    {"bp_dtype_name", "the largest number", 0, "?", {SET(1, UINT32_MAX)}},
    {"bp_dtype_bits", "no dtype", 0, NULL, {SET(1, 99)}},
    {"bp_dtype_bits", "the largest number", 0, NULL, {SET(1, UINT32_MAX)}},
    {"bp_dtype_find", "no dtype", BP_ERR_INVALID, "dtype 'f31'", {PUT(1, "f31")}},
    {"bp_dtype_find", "an empty name", BP_ERR_INVALID, "dtype ''", {PUT(1, "")}},
    {"bp_fused_parse", "no text", BP_ERR_INVALID, "1 words", {PUT(1, "")}},
    {"bp_fused_parse", "no operator", BP_ERR_INVALID, "no operator", {PUT(1, "y0 = rel x0")}},
    {"bp_fused_print", "no code", BP_ERR_INVALID, "0 words", {SET(2, 0)}},
    {"bp_fused_print", "the most code", BP_ERR_INVALID, "-1 entries", {SET(2, UINT64_MAX)}},
    {"bp_fused_print", "too little room", BP_ERR_INVALID, "room is 12", {SET(4, 12)}},
    {"bp_fused_print", "no room", BP_ERR_INVALID, "room is 0", {SET(4, 0)}},
    {"bp_opinfo_find", "NULL", 0, NULL, {PUT(1, NULL)}},
    {"bp_opinfo_find", "no operator", 0, NULL, {PUT(1, "addd")}},
    {"bp_opinfo_find", "an empty name", 0, NULL, {PUT(1, "")}},
    {"bp_opinfo_at", "the largest index", 0, NULL, {SET(1, UINT32_MAX)}},
};

const struct table mistakes_core = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
};
