/* SPDX-License-Identifier: Apache-2.0 */
/* poison.h: marks unused device memory as inaccessible for AddressSanitizer, which sees a whole
 * segment as one allocation. Does nothing in other builds. */
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

/* Makes the first size bytes accessible and the rest, up to `all` bytes, inaccessible. */
static inline void bp_poison_tail(void *data, size_t size, size_t all)
{
    bp_poison((char *)data + size / 8 * 8, all - size / 8 * 8);
    bp_unpoison(data, size);
}

#endif
