/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: begins and ends the calls of a vendor's functions, stores their messages, and writes the
 * logs. */
#include "internal.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local const char *current; /* the call that the thread is in */
static _Thread_local char message[512];

/* Appends a line to the file that an environment variable names; false: it names none. */
static bool log_line(const char *variable, const char *line, size_t length)
{
    const char *path = secure_getenv(variable);
    int fd;

    if (!path) return false;
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    if (write(fd, line, length) != (ssize_t)length) base.misuses++; /* a lost line is not silence */
    close(fd);
    return true;
}

void base_lock(void)
{
    pthread_mutex_lock(&base.lock);
    if (!base.read) base_settings_read();
}

void base_unlock(void)
{
    pthread_mutex_unlock(&base.lock);
}

void base_sleep(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

struct timespec base_deadline(int ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

bool base_wait(const struct timespec *deadline)
{
    if (!deadline) return pthread_cond_wait(&base.moved, &base.lock) == 0;
    return pthread_cond_timedwait(&base.moved, &base.lock, deadline) == 0;
}

int base_enter(const char *name)
{
    const struct base_fault *fault;
    long late;

    base_lock();
    current = name;
    fault = base_fault_of(name);
    if (!fault) return 0;
    if (fault->code) return base_refuse(fault->code, "%s fails on demand", name);
    late = fault->late;
    base_unlock();
    base_sleep(late);
    base_lock();
    current = name;
    return 0;
}

int base_leave(int code)
{
    char line[128];
    int length = snprintf(line, sizeof line, "%s %d\n", current ? current : "?", code);

    log_line("BP_STANDIN_CALLS", line, (size_t)length);
    current = NULL;
    base_unlock();
    return code;
}

static void message_set(const char *format, va_list args)
{
    int length = current ? snprintf(message, sizeof message, "%s: ", current) : 0;

    vsnprintf(message + length, sizeof message - (size_t)length, format, args);
}

int base_refuse(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message_set(format, args);
    va_end(args);
    return code;
}

int base_misuse(int code, const char *format, ...)
{
    char line[sizeof message + 16];
    va_list args;
    int length;

    va_start(args, format);
    message_set(format, args);
    va_end(args);
    base.misuses++;
    length = snprintf(line, sizeof line, "stand-in: %s\n", message);
    if (!log_line("BP_STANDIN_LOG", line, (size_t)length)) fputs(line, stderr);
    return code;
}

const char *base_message(void)
{
    return message;
}

const char *base_message_take(void)
{
    static _Thread_local char taken[sizeof message];

    memcpy(taken, message, sizeof message);
    message[0] = 0;
    return taken;
}
