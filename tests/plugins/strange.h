/* SPDX-License-Identifier: Apache-2.0 */
/* strange.h: the callbacks of strange.c, as messages call them: kernels by their rows (neg's is
 * asked to launch, abs's to prepare, sqrt's whether it accepts). */
#ifndef STRANGE_H
#define STRANGE_H

#define STRANGE_CALLBACKS(X) \
    X(device_properties) X(memory_allocate) X(copy_in) X(copy_out) X(copy_within) X(synchronize) \
    X(stream_create) X(event_create) X(event_record) X(event_query) X(event_wait) X(stream_wait) \
    X(memory_info) X(memory_export) X(strange_neg) X(strange_abs) X(strange_sqrt) X(infer)

enum strange_callback {
#define X(name) STRANGE_##name,
    STRANGE_CALLBACKS(X)
#undef X
    STRANGE_COUNT
};

#endif
