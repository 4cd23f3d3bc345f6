/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: `bp profile`: runs a command with BP_PROFILE in its environment, then shows the
 * profile. The exit status is that of the command. */
#include "trace.h"

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct profiling {
    const char *out, *trace, *html, *json;
    bool shapes, memory, quiet;
    char *pattern; /* the value of BP_PROFILE: %p is the process */
    char *folder;  /* a temporary folder for the file, or NULL */
    pid_t child;
};

static const int profile_signal[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
enum {
    PROFILE_SIGNALS = sizeof profile_signal / sizeof *profile_signal
};
static volatile sig_atomic_t profile_child;

/* A signal of the terminal (Ctrl-C) reaches the child too; one that a process has sent to bp only
 * is passed on. bp itself ends after the child. */
static void profile_pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code <= 0 && profile_child > 0) kill((pid_t)profile_child, number);
}

static void profile_take_signals(struct sigaction *old)
{
    struct sigaction pass = {.sa_sigaction = profile_pass_on, .sa_flags = SA_RESTART | SA_SIGINFO};

    for (int i = 0; i < PROFILE_SIGNALS; i++) sigaction(profile_signal[i], &pass, &old[i]);
}

static void profile_restore_signals(const struct sigaction *old)
{
    for (int i = 0; i < PROFILE_SIGNALS; i++) sigaction(profile_signal[i], &old[i], NULL);
}

/* Runs the command; returns its exit status, or 128 and the number of the signal that ended it. */
static int profile_run(struct profiling *p, char **argv)
{
    char *flags = bp_text_format("%s%s%s", p->shapes ? "shapes" : "",
                                 p->shapes && p->memory ? "," : "", p->memory ? "memory" : "");
    struct sigaction old[PROFILE_SIGNALS];
    sigset_t held, before;
    int status = 0;

    fflush(NULL);
    sigfillset(&held);
    sigprocmask(SIG_BLOCK, &held, &before);
    profile_take_signals(old);
    p->child = fork();
    if (!p->child) {
        profile_restore_signals(old);
        sigprocmask(SIG_SETMASK, &before, NULL);
        setenv("BP_PROFILE", p->pattern, 1);
        if (*flags) setenv("BP_PROFILE_FLAGS", flags, 1);
        execvp(argv[0], argv);
        int code = errno;
        bp_complain("profile", "%s: %s", argv[0], strerror(code));
        _exit(code == ENOENT ? 127 : 126);
    }
    free(flags);
    profile_child = p->child;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (p->child < 0) {
        bp_complain("profile", "%s cannot be started", argv[0]);
        return BP_EXIT_BROKEN;
    }
    while (waitpid(p->child, &status, 0) < 0 && errno == EINTR) continue;
    profile_child = 0;
    profile_restore_signals(old);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char *profile_replace(const char *text, const char *with)
{
    const char *at = strstr(text, "%p");

    return at ? bp_text_format("%.*s%s%s", (int)(at - text), text, with, at + 2)
              : bp_text_format("%s", text);
}

/* The files that the command and its children wrote. With one name for all processes there is one
 * file. */
static void profile_find(const struct profiling *p, glob_t *found)
{
    char *pattern = profile_replace(p->pattern, "*");

    *found = (glob_t){0};
    glob(pattern, 0, NULL, found);
    free(pattern);
}

/* Writes the outputs of one file. `suffix` is added to the names of outputs of further
 * processes. */
static int profile_show(const struct profiling *p, const char *path, size_t index, bool table)
{
    struct bp_profile *profile;
    int status = BP_EXIT_GOOD;

    if (bp_profile_open(path, &profile)) {
        bp_complain("profile", "%s", bp_error_message());
        return BP_EXIT_BROKEN;
    }
    bp_trace_warn(profile, "profile");
    char *trace = p->trace ? bp_text_format(index ? "%s.%zu" : "%s", p->trace, index) : NULL;
    char *html = p->html ? bp_text_format(index ? "%s.%zu" : "%s", p->html, index) : NULL;
    char *json = p->json ? bp_text_format(index ? "%s.%zu" : "%s", p->json, index) : NULL;
    if (trace) status = bp_trace_write(profile, "profile", trace, bp_trace_chrome);
    if (html && !status) status = bp_trace_write(profile, "profile", html, bp_trace_html);
    if (json && !status) status = bp_trace_write(profile, "profile", json, bp_trace_json);
    if (!status && table) status = bp_trace_table(profile, "op", 30);
    free(trace);
    free(html);
    free(json);
    bp_profile_destroy(profile);
    return status;
}

static int profile_report(const struct profiling *p, const char *command)
{
    int status = BP_EXIT_GOOD;
    glob_t found;

    profile_find(p, &found);
    if (!found.gl_pathc) {
        bp_complain("profile", "%s wrote no profile: it did not use Backplane, or ended before",
                    command);
        status = BP_EXIT_BROKEN;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int shown = profile_show(p, found.gl_pathv[i], i, !p->quiet);
        if (!status) status = shown;
        if (p->folder) unlink(found.gl_pathv[i]);
        else if (!p->quiet) printf("\nprofile: %s\n", found.gl_pathv[i]);
    }
    globfree(&found);
    return status;
}

/* Removes the profile of an earlier run: if this one wrote none, the old one would be shown. Only
 * a regular file is removed, no device such as /dev/full. Returns false after a message. */
static bool profile_remove_old(const char *path)
{
    struct stat info;

    if (stat(path, &info)) return true; /* the profiler reports any other fault than absence */
    if (!S_ISREG(info.st_mode)) {
        bp_complain("profile", "--output '%s' is no regular file: name another one", path);
        return false;
    }
    if (!unlink(path) || errno == ENOENT) return true;
    bp_complain("profile", "--output '%s' cannot be replaced: %s", path, strerror(errno));
    return false;
}

/* Without -o the file is temporary. Returns an exit status, after a message if it is not good. */
static int profile_choose_file(struct profiling *p)
{
    const char *tmp = getenv("TMPDIR");

    if (p->out) {
        p->pattern = bp_text_format("%s", p->out);
        if (strstr(p->pattern, "%p") || profile_remove_old(p->pattern)) return BP_EXIT_GOOD;
        return BP_EXIT_USAGE;
    }
    p->folder = bp_text_format("%s/bp-profile-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(p->folder)) {
        bp_complain("profile", "%s cannot be created: %s", p->folder, strerror(errno));
        return BP_EXIT_BROKEN;
    }
    p->pattern = bp_text_format("%s/%%p.prof", p->folder);
    return BP_EXIT_GOOD;
}

/* The options of bp end before the first word that is none; the rest is the command. */
static int profile_own_options(int argc, char **argv)
{
    static const char *const with_value[] = {"-o", "--output", "--trace", "--html", "--json"};
    int own = 1;

    while (own < argc && argv[own][0] == '-' && strcmp(argv[own], "--")) {
        bool takes = false;
        for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++)
            takes |= !strcmp(argv[own], with_value[i]);
        own += 1 + takes;
    }
    if (own < argc && !strcmp(argv[own], "--")) own++;
    return own;
}

int bp_cmd_profile(int argc, char **argv)
{
    struct profiling p = {0};
    const char *words[1];
    const struct bp_option options[] = {
        {"output", 'o', BP_OPTION_TEXT, "FILE",
         "keep the profile; %p in the name is the process (default: a temporary file)", &p.out},
        {"trace", 0, BP_OPTION_OUTPUT, "FILE", "write a trace for Perfetto, as `bp trace -o`",
         &p.trace},
        {"html", 0, BP_OPTION_OUTPUT, "FILE", "write a page, as `bp trace --html`", &p.html},
        {"json", 0, BP_OPTION_OUTPUT, "FILE", "write all tables as JSON, as `bp trace --json`",
         &p.json},
        {"shapes", 0, BP_OPTION_FLAG, NULL, "record the types of operands", &p.shapes},
        {"memory", 0, BP_OPTION_FLAG, NULL, "record allocations", &p.memory},
        {"quiet", 0, BP_OPTION_FLAG, NULL, "print no table", &p.quiet},
        {0},
    };
    const struct bp_usage usage = {
        .command = "profile",
        .words = "CMD",
        .min_words = 1,
        .max_words = 1,
        .about = "Runs CMD, with its arguments, and records the calls and the work of devices of "
                 "it and of its children. Then prints where the time went. The exit status is "
                 "that of CMD; 128 and the number of the signal, if one killed it. "
                 "docs/profiling.md says more.",
        .options = options,
    };
    int own = profile_own_options(argc, argv), code, shown;
    int status = bp_options_parse(&usage, own < argc ? own + 1 : argc, argv, words);

    if (status != BP_OPTIONS_GOOD) return status;
    code = profile_choose_file(&p);
    shown = BP_EXIT_GOOD;
    if (!code) {
        code = profile_run(&p, argv + own);
        if (p.child > 0 && code != 127 && code != 126) shown = profile_report(&p, argv[own]);
        if (p.folder) rmdir(p.folder);
    }
    free(p.folder);
    free(p.pattern);
    return code ? code : shown;
}
