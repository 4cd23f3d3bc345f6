/* SPDX-License-Identifier: Apache-2.0 */
/* report_run.c: runs another command of bp for `bp report`, and keeps the end of its messages. */
#include "device_report.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RUN_WORDS = 160
};

/* In the child: standard output is for the page or the JSON of the parent. */
static void run_become(const char *self, const char *const *words, int messages)
{
    char *argv[RUN_WORDS] = {(char[]){"bp"}};
    int nothing = open("/dev/null", O_WRONLY);

    for (int i = 0; i < RUN_WORDS - 2 && words[i]; i++) argv[i + 1] = (char *)(uintptr_t)words[i];
    /* A figure of calls that the cpu computes in place of the device says nothing of it. */
    setenv("BP_FALLBACK", "deny", 1);
    if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0 || dup2(messages, STDERR_FILENO) < 0)
        _exit(BP_EXIT_BROKEN);
    execv(self, argv);
    _exit(BP_EXIT_BROKEN);
}

/* Reads messages until the child has closed its end; the last line is kept, without its prefix. */
static void run_read(int from, const char *command, char *out, size_t size)
{
    FILE *file = fdopen(from, "r");
    char *line = NULL, *prefix = bp_text_format("bp %s: ", command);
    size_t room = 0;

    if (!file) close(from);
    while (file && getline(&line, &room, file) > 0) {
        size_t skip = strncmp(line, prefix, strlen(prefix)) ? 0 : strlen(prefix);
        line[strcspn(line, "\r\n")] = 0;
        if (line[skip]) snprintf(out, size, "%s", line + skip);
    }
    if (file) fclose(file);
    free(line);
    free(prefix);
}

int device_report_child(const char *const *words, char *out_why, size_t size)
{
    char self[PATH_MAX] = "";
    int messages[2], status = 0;
    pid_t child;

    *out_why = 0;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0 || pipe2(messages, O_CLOEXEC)) {
        snprintf(out_why, size, "bp cannot start itself: %s", strerror(errno));
        return BP_EXIT_BROKEN;
    }
    child = fork();
    if (!child) run_become(self, words, messages[1]);
    close(messages[1]);
    run_read(messages[0], words[0], out_why, size);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (child > 0 && WIFEXITED(status)) return WEXITSTATUS(status);
    if (child < 0 || !*out_why)
        snprintf(out_why, size, "bp %s: %s", words[0],
                 child < 0 ? "no process can be started" : strsignal(WTERMSIG(status)));
    return BP_EXIT_BROKEN;
}
