/* SPDX-License-Identifier: Apache-2.0 */
/* step.c: counts instructions by the processor's trap flag: the processor raises SIGTRAP after each
 * instruction, and the handler examines the next one. */
#include "step.h"

#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

static struct step_counts counts;

static bool is_prefix(uint8_t byte)
{
    static const uint8_t prefix[] = {0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65};

    return memchr(prefix, byte, sizeof prefix) != NULL;
}

static bool is_locked(const uint8_t *at)
{
    while (is_prefix(*at)) at++;
    if (*at == 0xf0) return true;
    if ((*at & 0xf0) == 0x40) at++;                           /* REX */
    return (*at == 0x86 || *at == 0x87) && at[1] >> 6 != 3; /* XCHG with memory */
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    const ucontext_t *c = context;

    (void)number;
    (void)info;
    counts.instructions++;
    counts.locked += is_locked((const uint8_t *)(uintptr_t)c->uc_mcontext.gregs[REG_RIP]);
}

/* Moves the stack pointer below the red zone first, because pushfq writes to the stack. */
static inline void trap_flag(bool on)
{
    if (on)
        __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                         "lea 128(%%rsp), %%rsp" : : : "memory", "cc");
    else
        __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $-257, (%%rsp)\n\tpopfq\n\t"
                         "lea 128(%%rsp), %%rsp" : : : "memory", "cc");
}

static void step_nothing(void *ctx)
{
    (void)ctx;
}

static struct step_counts step_run(void (*volatile body)(void *ctx), void *ctx)
{
    counts = (struct step_counts){0};
    trap_flag(true);
    body(ctx);
    trap_flag(false);
    return counts;
}

struct step_counts step_count(void (*body)(void *ctx), void *ctx)
{
    struct sigaction act = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO}, before;
    struct step_counts empty, full;

    sigaction(SIGTRAP, &act, &before);
    empty = step_run(step_nothing, NULL);
    full = step_run(body, ctx);
    sigaction(SIGTRAP, &before, NULL);
    full.instructions -= empty.instructions;
    full.locked -= empty.locked;
    return full;
}

bool step_can(void)
{
    return true;
}
#else
bool step_can(void)
{
    return false;
}

struct step_counts step_count(void (*body)(void *ctx), void *ctx)
{
    body(ctx);
    return (struct step_counts){0};
}
#endif
