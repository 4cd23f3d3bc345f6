/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_device.c: tables of wrong calls of device.h and memory.h, and of the device queries in
 * call.h. */
#include "mistakes.h"

static uint64_t device_create(const union value *a)
{
    return bp_device_create(a[0].p, a[1].cp, a[2].p);
}

static uint64_t device_create_at(const union value *a)
{
    return bp_device_create_at(a[0].p, (uint32_t)a[1].u, (uint32_t)a[2].u, a[3].p);
}

static uint64_t device_destroy(const union value *a)
{
    bp_device_destroy(a[0].p);
    return 0;
}

static uint64_t device_name(const union value *a)
{
    return (uintptr_t)bp_device_name(a[0].p);
}

static uint64_t device_properties(const union value *a)
{
    return bp_device_get_properties(a[0].p, a[1].p);
}

static uint64_t device_core(const union value *a)
{
    return (uintptr_t)bp_device_core(a[0].p);
}

static uint64_t device_synchronize(const union value *a)
{
    return bp_device_synchronize(a[0].p);
}

static uint64_t device_synchronize_for(const union value *a)
{
    return bp_device_synchronize_for(a[0].p, a[1].u);
}

static uint64_t device_emulated(const union value *a)
{
    return bp_device_emulated(a[0].p);
}

static uint64_t device_peer_copies(const union value *a)
{
    return bp_device_peer_copies(a[0].p);
}

static uint64_t device_blocked(const union value *a)
{
    return bp_device_blocked(a[0].p, (uint32_t)a[1].u);
}

static uint64_t device_memory(const union value *a)
{
    return bp_device_memory(a[0].p, a[1].p);
}

static uint64_t device_kernels(const union value *a)
{
    return bp_device_kernels(a[0].p);
}

static uint64_t device_kernel(const union value *a)
{
    return bp_device_kernel(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t device_fallbacks(const union value *a)
{
    return bp_device_fallbacks(a[0].p);
}

static uint64_t device_fallback(const union value *a)
{
    return bp_device_fallback(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t device_pools(const union value *a)
{
    return bp_device_pools(a[0].p);
}

static uint64_t device_pool(const union value *a)
{
    return bp_device_pool(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t device_trim(const union value *a)
{
    return bp_device_trim(a[0].p);
}

static _Alignas(8) char lent_bytes[72];

static uint64_t memory_create(const union value *a)
{
    return bp_buffer_create(a[0].p, a[1].p, (uint32_t)a[2].u, a[3].u, a[4].p);
}

static uint64_t memory_over(const union value *a)
{
    return bp_buffer_create_over(a[0].p, a[1].p, a[2].u, NULL, a[3].p, a[4].p);
}

static uint64_t memory_destroy(const union value *a)
{
    bp_buffer_destroy(a[0].p);
    return 0;
}

static uint64_t memory_info(const union value *a)
{
    return bp_buffer_get_info(a[0].p, a[1].p);
}

static uint64_t storage_export(const union value *a)
{
    return bp_buffer_export(a[0].p, a[1].p, a[2].p);
}

static const struct function functions[] = {
    {"bp_device_create", device_create, {HANDLE(T_CORE), POINTER("cpu:0"), OUT_OF(T_DEVICE)}},
    {"bp_device_create_at", device_create_at,
     {HANDLE(T_CORE), NUMBER_OWN(T_PLUGIN), NUMBER(0), OUT_OF(T_DEVICE)}},
    {"bp_device_destroy", device_destroy, {HANDLE(T_DEVICE)}, RETURNS_NOTHING},
    {"bp_device_name", device_name, {HANDLE(T_DEVICE)}, RETURNS_EMPTY},
    {"bp_device_core", device_core, {HANDLE(T_DEVICE)}, RETURNS_ZERO},
    {"bp_device_get_properties", device_properties,
     {HANDLE(T_DEVICE), INFO(struct bp_device_properties)}},
    {"bp_device_synchronize", device_synchronize, {HANDLE(T_DEVICE)}},
    {"bp_device_synchronize_for", device_synchronize_for, {HANDLE(T_DEVICE), NUMBER(1000000000)}},
    {"bp_device_emulated", device_emulated, {HANDLE(T_DEVICE)}, RETURNS_ZERO},
    {"bp_device_peer_copies", device_peer_copies, {HANDLE(T_DEVICE)}, RETURNS_ZERO},
    {"bp_device_blocked", device_blocked, {HANDLE(T_DEVICE), NUMBER(0)}, RETURNS_ZERO},
    {"bp_device_memory", device_memory, {HANDLE(T_DEVICE), INFO(struct bp_memory_stats)}},
    {"bp_device_kernels", device_kernels, {HANDLE(T_DEVICE)}, RETURNS_ZERO},
    {"bp_device_kernel", device_kernel,
     {HANDLE(T_DEVICE), NUMBER(0), INFO(struct bp_kernel_info)}},
    {"bp_device_pools", device_pools, {HANDLE(T_DEVICE)}, RETURNS_ZERO},
    {"bp_device_pool", device_pool, {HANDLE(T_DEVICE), NUMBER(0), INFO(struct bp_pool_stats)}},
    {"bp_device_trim", device_trim, {HANDLE(T_DEVICE)}},
    {"bp_buffer_create", memory_create,
     {HANDLE(T_DEVICE), {.kind = ARG_HANDLE_OPT, .thing = T_STREAM}, NUMBER(BP_SPACE_DEVICE),
      NUMBER(64), OUT_OF(T_BUFFER)}},
    {"bp_buffer_create_over", memory_over,
     {HANDLE(T_DEVICE), {.kind = ARG_POINTER, .v.p = lent_bytes}, NUMBER(64),
      {.kind = ARG_OPTIONAL}, OUT_OF(T_BUFFER)}},
    {"bp_buffer_destroy", memory_destroy, {HANDLE(T_BUFFER)}, RETURNS_NOTHING},
    {"bp_buffer_get_info", memory_info, {HANDLE(T_BUFFER), INFO(struct bp_buffer_info)}},
    {"bp_buffer_export", storage_export,
     {HANDLE(T_BUFFER), OUT_OF(T_NONE), OUT_OF(T_NONE)}},
    {"bp_device_fallbacks", device_fallbacks, {HANDLE(T_DEVICE)}, RETURNS_ZERO},
    {"bp_device_fallback", device_fallback,
     {GIVEN(T_DEVICE, T_OTHER_DEVICE), NUMBER(0), INFO(struct bp_fallback_info)}},
};

static const char long_name[] = "a_kind_of_device_whose_name_is_longer_than_any_other_there_was"
                                "_since_devices_were_first_given_names_by_those_who_made_them";

static const struct mistake mistakes[] = {
    {"bp_device_create", "an empty name", BP_ERR_INVALID, "kind:index", {PUT(2, "")}},
    {"bp_device_create", "no kind", BP_ERR_INVALID, "kind:index", {PUT(2, ":0")}},
    {"bp_device_create", "no index", BP_ERR_INVALID, "kind:index", {PUT(2, "cpu:")}},
    {"bp_device_create", "a negative index", BP_ERR_INVALID, "kind:index", {PUT(2, "cpu:-1")}},
    {"bp_device_create", "a sign", BP_ERR_INVALID, "kind:index", {PUT(2, "cpu:+1")}},
    {"bp_device_create", "letters after the index", BP_ERR_INVALID, "kind:index",
     {PUT(2, "cpu:0x")}},
    {"bp_device_create", "an index of 65 bits", BP_ERR_INVALID, "kind:index",
     {PUT(2, "cpu:99999999999999999999")}},
    {"bp_device_create", "an index of 33 bits", BP_ERR_INVALID, "kind:index",
     {PUT(2, "cpu:4294967296")}},
    {"bp_device_create", "a name that is too long", BP_ERR_INVALID, "device name",
     {PUT(2, long_name)}},
    {"bp_device_create", "no such index", BP_ERR_NOT_FOUND, "there is no such device",
     {PUT(2, "cpu:7")}},
    {"bp_device_create", "no such kind", BP_ERR_NOT_FOUND, "no plugin serves it",
     {PUT(2, "warp")}},
    {"bp_device_create", "the path of a library", BP_ERR_NOT_FOUND, "this is the path of a file",
     {PUT(2, "/usr/lib/backplane/bp_cpu.so")}},
    {"bp_device_create", "a library without its path", BP_ERR_NOT_FOUND, "bp_core_load_path",
     {PUT(2, "bp_cpu.so")}},
    {"bp_device_create_at", "no such plugin", BP_ERR_INVALID, "there is no plugin 99999",
     {SET(2, 99999)}},
    {"bp_device_create_at", "no such device", BP_ERR_NOT_FOUND, "there is no such device",
     {SET(3, 99)}},
    {"bp_device_create_at", "the largest device", BP_ERR_NOT_FOUND, "there is no such device",
     {SET(3, UINT32_MAX)}},
    {"bp_device_blocked", "no reason", 0, NULL, {SET(2, BP_BLOCK_COUNT)}},
    {"bp_device_blocked", "the largest reason", 0, NULL, {SET(2, UINT32_MAX)}},
    {"bp_device_kernel", "no such row", BP_ERR_INVALID, "there is no row 99999", {SET(2, 99999)}},
    {"bp_device_kernel", "the largest row", BP_ERR_INVALID, "there is no row",
     {SET(2, UINT32_MAX)}},
    {"bp_device_pool", "no such pool", BP_ERR_INVALID, "bp_device_pool", {SET(2, 99999)}},
    {"bp_buffer_create", "no such space", BP_ERR_INVALID, "space", {SET(3, 99)}},
    {"bp_buffer_create", "more than there can be", BP_ERR_MEMORY, "out of memory",
     {SET(4, UINT64_MAX)}},
    {"bp_buffer_create", "a stream of another device", BP_ERR_INVALID, "stream",
     {USE(2, T_OTHER_STREAM)}},
    {"bp_buffer_create_over", "a device without host memory", BP_ERR_UNSUPPORTED, "address",
     {USE(1, T_OTHER_DEVICE)}},
    {"bp_buffer_create_over", "an address between two multiples", BP_ERR_INVALID, "multiple of 8",
     {PUT(2, lent_bytes + 4)}},
    {"bp_buffer_create_over", "more than there can be", BP_ERR_INVALID, "end of all memory",
     {SET(3, UINT64_MAX)}},
    {"bp_device_fallback", "no such entry", BP_ERR_INVALID, "bp_device_fallback", {SET(2, 99999)}},
    {"bp_device_fallback", "a device without entries", BP_ERR_INVALID, "only 0 entries",
     {USE(1, T_DEVICE)}},
};

const struct table mistakes_device = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
};
