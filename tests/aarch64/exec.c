/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c: lets programs for aarch64 that QEMU runs start others. The kernel does not know how to
 * run them: this library, which LD_PRELOAD names, runs QEMU in their place. The environment of the
 * first program says how: $AARCH64_QEMU is QEMU's file, and the other variables are QEMU's own. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool file_is_foreign(const char *path)
{
    Elf64_Ehdr head;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool foreign = file >= 0 && read(file, &head, sizeof head) == (ssize_t)sizeof head &&
                   !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_machine == EM_AARCH64;

    if (file >= 0) close(file);
    return foreign;
}

/* Runs a program in place of the calling process. QEMU sets argv[0] of the program by -0. */
__attribute__((visibility("default"))) int execve(const char *path, char *const argv[],
                                                  char *const envp[])
{
    char *qemu = getenv("AARCH64_QEMU"), real[PATH_MAX] = "", **words;
    size_t n = 0;

    if (!qemu || !file_is_foreign(path)) return (int)syscall(SYS_execve, path, argv, envp);
    /* For QEMU, /proc/self/exe is QEMU; for the program that it runs, it is the program. */
    if (!strncmp(path, "/proc/", 6) && readlink(path, real, sizeof real - 1) > 0) path = real;
    while (argv[n]) n++;
    words = malloc((n + 5) * sizeof *words);
    if (!words) return errno = ENOMEM, -1;
    words[0] = qemu;
    words[1] = "-0";
    words[2] = n ? argv[0] : "";
    words[3] = (char *)path;
    for (size_t i = 1; i <= n; i++) words[3 + i] = argv[i];
    if (!n) words[4] = NULL;
    return (int)syscall(SYS_execve, qemu, words, envp);
}

__attribute__((visibility("default"))) int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

/* Of a path: programs of the tests are started by their paths. */
__attribute__((visibility("default"))) int execvp(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}
