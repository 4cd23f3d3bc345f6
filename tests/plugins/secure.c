/* SPDX-License-Identifier: Apache-2.0 */
/* secure.c: tests that a set-uid program uses no plugin from its caller's environment. It makes a
 * set-uid copy of itself, which lists the plugins that it finds, and runs the copy as another user.
 * Needs root. */
#include <backplane/backplane.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FOUND = 1,
    SECURE = 2,
    WRONG = 64,
    NO_RANK = 65534
};

/* In the copy: the exit status has SECURE if the process is set-uid, and FOUND if it found the
 * planted plugin. */
static int secure_report(void)
{
    struct bp_core_options options = {.size = sizeof options};
    struct bp_core *core;
    int status = getauxval(AT_SECURE) ? SECURE : 0;

    if (bp_core_create(&options, &core)) return WRONG;
    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        if (bp_core_plugin(core, i, &info) == BP_OK && !strcmp(info.name, "h_good"))
            status |= FOUND;
    }
    bp_core_destroy(core);
    return status;
}

/* Runs program as another user. */
static int secure_run(const char *program)
{
    int status = 0;
    pid_t pid = fork();

    if (pid < 0) return WRONG;
    if (!pid) {
        setenv("BP_PLUGIN_PATH", HOSTILE_DIR, 1);
        setenv("BP_PLUGINS", "h_good", 1);
        /* LeakSanitizer traces its own process, which the kernel forbids for a set-uid process. */
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        if (setgid(NO_RANK) || setuid(NO_RANK)) _exit(WRONG);
        execl(program, program, "report", (char *)NULL);
        _exit(WRONG);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return WRONG;
    return WEXITSTATUS(status);
}

static bool copy_self(const char *path)
{
    FILE *from = fopen("/proc/self/exe", "re"), *to = fopen(path, "we");
    char data[1 << 16];
    size_t n;
    bool good = from && to;

    while (good && (n = fread(data, 1, sizeof data, from)) > 0) good = fwrite(data, 1, n, to) == n;
    if (from) fclose(from);
    if (to && fclose(to)) good = false;
    return good;
}

/* Whether this process can become another user; if not, errno has the reason. */
static bool can_change_user(void)
{
    int status = EAGAIN;
    pid_t pid = fork();

    if (!pid) _exit(setgid(NO_RANK) || setuid(NO_RANK) ? errno : 0);
    if (pid > 0) waitpid(pid, &status, 0);
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    return !errno;
}

/* The reason why no set-uid program can be tested here; NULL: it can. */
static const char *why_not(void)
{
    static char text[100];
    struct statvfs files;

    if (geteuid() != 0) return "only root can make a set-uid program and become another user";
    if (!can_change_user()) {
        snprintf(text, sizeof text, "root cannot become another user: %s", strerror(errno));
        return text;
    }
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0) return "no_new_privs is set for this process";
    if (statvfs("/tmp", &files)) return "there is no /tmp";
    return files.f_flag & ST_NOSUID ? "/tmp is mounted nosuid" : NULL;
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/bp-secure-XXXXXX", path[64];
    const char *why;
    int secure;

    if (argc == 2 && !strcmp(argv[1], "report")) return secure_report();
    why = why_not();
    if (why) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    puts("1..2");
    snprintf(path, sizeof path, "%s/copy", mkdtemp(directory) ? directory : "/nonexistent");
    if (!copy_self(path) || chmod(directory, 0755) || chmod(path, 04755)) {
        puts("Bail out! no copy could be made in /tmp");
        return 1;
    }
    secure = secure_run(path);
    printf("%sok 1 - in a set-uid process the environment is ignored\n# exit status %d\n",
           secure == SECURE ? "" : "not ", secure);
    unlink(path);
    rmdir(directory);

    /* The same without set-uid, to show that the first test can fail. */
    setenv("BP_PLUGIN_PATH", HOSTILE_DIR, 1);
    printf("%sok 2 - in another process it is not\n", secure_report() == FOUND ? "" : "not ");
    return 0;
}
