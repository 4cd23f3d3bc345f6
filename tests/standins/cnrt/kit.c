/* SPDX-License-Identifier: Apache-2.0 */
/* kit.c: implements what the tests of the stand-ins for Cambricon's libraries share. */
#include "kit.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int number, failed;
static size_t misuses;

void kit_report(bool good, const char *format, ...)
{
    va_list args;

    printf("%s %d - ", good ? "ok" : "not ok", ++number);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    failed += !good;
}

bool kit_misused(int got, int code)
{
    bool good = got == code && base_misuses() == misuses + 1;

    misuses = base_misuses();
    return good;
}

void kit_forget(void)
{
    misuses = base_misuses();
}

int kit_end(void)
{
    size_t live = base_live(), damaged;

    if (live) base_live_print();
    base_lock();
    damaged = base_guards_check();
    base_unlock();
    kit_report(!live && !damaged, "everything is released, and no guard is damaged");
    kit_report(base_misuses() == misuses, "no other misuse");
    printf("1..%d\n", number);
    return failed != 0;
}

void *kit_device_memory(const void *bytes, size_t size)
{
    void *memory = NULL;

    if (cnrtMalloc(&memory, size)) abort();
    if (bytes && cnrtMemcpy(memory, (void *)bytes, size, CNRT_HOST_TO_DEVICE)) abort();
    return memory;
}

void *kit_queue(void)
{
    void *queue = NULL;

    if (cnrtQueueCreate(&queue)) abort();
    return queue;
}

void kit_read(void *queue, void *out, void *memory, size_t size)
{
    if (cnrtQueueSync(queue) || cnrtMemcpy(out, memory, size, CNRT_DEVICE_TO_HOST)) abort();
}

void kit_write(void *queue, void *memory, const void *bytes, size_t size)
{
    if (cnrtQueueSync(queue) || cnrtMemcpy(memory, (void *)bytes, size, CNRT_HOST_TO_DEVICE))
        abort();
}
