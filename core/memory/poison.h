/* SPDX-License-Identifier: Apache-2.0 */
/* poison.h: tells AddressSanitizer which memory nobody may touch, since it sees a segment as one
 * allocation. Nothing in other builds. */
#ifndef BP_POISON_H
#define BP_POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define BP_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BP_POISONS 1
#endif
#endif
#ifndef BP_POISONS
#define BP_POISONS 0
#endif

#if BP_POISONS
#include <sanitizer/asan_interface.h>
static inline void bp_poison(const void *data, size_t size)
{
    __asan_poison_memory_region(data, size);
}
static inline void bp_unpoison(const void *data, size_t size)
{
    __asan_unpoison_memory_region(data, size);
}
#else
static inline void bp_poison(const void *data, size_t size)
{
    (void)data;
    (void)size;
}
static inline void bp_unpoison(const void *data, size_t size)
{
    (void)data;
    (void)size;
}
#endif

/* size bytes may be touched, what follows up to all may not. */
static inline void bp_poison_tail(void *data, size_t size, size_t all)
{
    bp_poison((char *)data + size / 8 * 8, all - size / 8 * 8);
    bp_unpoison(data, size);
}

#endif
