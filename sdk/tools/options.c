/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: parses a command line with a table of options, and prints the help from that table. */
#include "tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int options_min3(int a, int b, int c)
{
    int least = a < b ? a : b;
    return least < c ? least : c;
}

/* The number of letters that must be added, removed or exchanged to make one word from the other.
 * Words of more than 31 letters get a large distance. */
static int options_distance(const char *a, const char *b)
{
    int row[32];
    int n = (int)strlen(b);

    if (n > 31 || strlen(a) > 31) return 99;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int above = row[j];
            row[j] = options_min3(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[n];
}

const char *bp_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    int best_distance = strlen(word) < 4 ? 2 : 3;

    for (size_t i = 0; i < n; i++) {
        int d = options_distance(word, candidates[i]);
        if (d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}

/* Text such as "--timeout SECONDS" or "-o, --output FILE". */
static char *option_text(const struct bp_option *o)
{
    char letter[8] = "";

    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    return bp_text_format("%s--%s%s%s", letter, o->name, o->value ? " " : "",
                          o->value ? o->value : "");
}

/* Prints "usage: bp CMD WORDS [--option VALUE] ..."; breaks lines between options only. */
static void print_synopsis(const struct bp_usage *usage)
{
    enum { WIDTH = 90 };
    int column = printf("usage: bp %s", usage->command);

    if (usage->words) column += printf(" %s", usage->words);
    for (const struct bp_option *o = usage->options; o->name; o++) {
        char *text = bp_text_format("[--%s%s%s]%s", o->name, o->value ? " " : "",
                                    o->value ? o->value : "",
                                    o->kind == BP_OPTION_TEXTS ? "..." : "");
        if (column + 1 + (int)strlen(text) > WIDTH) column = printf("\n         ") - 1;
        column += printf(" %s", text);
        free(text);
    }
    printf("\n");
}

static void print_help(const struct bp_usage *usage)
{
    char *about = bp_installed_pages(usage->about);

    print_synopsis(usage);
    printf("\n");
    bp_text_print(stdout, 2, about);
    free(about);
    printf("\n");
    for (const struct bp_option *o = usage->options; o->name; o++) {
        char *text = option_text(o);
        printf("  %-22s %s\n", text, o->help);
        free(text);
    }
    printf("  %-22s %s\n", "-h, --help", "this text");
}

static const struct bp_option *option_find(const struct bp_usage *usage, const char *name, size_t n)
{
    for (const struct bp_option *o = usage->options; o->name; o++)
        if (strlen(o->name) == n && !strncmp(o->name, name, n)) return o;
    return NULL;
}

static int unknown_option(const struct bp_usage *usage, const char *arg)
{
    const char *names[32];
    size_t n = 0;

    for (const struct bp_option *o = usage->options; o->name && n < 32; o++) names[n++] = o->name;
    const char *near = !strncmp(arg, "--", 2) ? bp_nearest(arg + 2, names, n) : NULL;
    if (near) bp_complain(usage->command, "there is no option %s; did you mean --%s?", arg, near);
    else
        bp_complain(usage->command, "there is no option %s; `bp %s -h` lists them", arg,
                    usage->command);
    return BP_EXIT_USAGE;
}

static int option_set_number(const struct bp_usage *usage, const struct bp_option *o,
                             const char *value)
{
    const char *what = o->kind == BP_OPTION_WHOLE ? "whole number" : "number";
    char *end;
    double number = strtod(value, &end);
    bool ok = end > value && !*end && number > -1e15 && number < 1e15;

    if (o->kind == BP_OPTION_WHOLE) ok = ok && number == (double)(int64_t)number;
    if (o->least < o->most && !(ok && number >= o->least && number <= o->most)) {
        bp_complain(usage->command, "--%s wants a %s from %.15g to %.15g, got '%s'", o->name, what,
                    o->least, o->most, value);
        return BP_EXIT_USAGE;
    }
    if (!ok) {
        bp_complain(usage->command, "--%s wants a %s, got '%s'", o->name, what, value);
        return BP_EXIT_USAGE;
    }
    *(double *)o->into = number;
    return BP_OPTIONS_GOOD;
}

static int option_set(const struct bp_usage *usage, const struct bp_option *o, const char *value)
{
    if (o->kind == BP_OPTION_NUMBER || o->kind == BP_OPTION_WHOLE)
        return option_set_number(usage, o, value);
    if (o->kind == BP_OPTION_TEXT || o->kind == BP_OPTION_OUTPUT || o->kind == BP_OPTION_FOLDER) {
        *(const char **)o->into = value;
    } else {
        struct bp_texts *texts = o->into;
        if (texts->n == sizeof texts->at / sizeof *texts->at) {
            bp_complain(usage->command, "--%s may be given %zu times at most", o->name, texts->n);
            return BP_EXIT_USAGE;
        }
        texts->at[texts->n++] = value;
    }
    return BP_OPTIONS_GOOD;
}

/* Parses the option at argv[*at] and its value, which may be the next argument. */
static int take_option(const struct bp_usage *usage, int argc, char **argv, int *at)
{
    const char *arg = argv[*at];
    const char *value = NULL;
    const struct bp_option *o;

    if (!strncmp(arg, "--", 2)) {
        size_t n = strcspn(arg + 2, "=");
        o = option_find(usage, arg + 2, n);
        if (arg[2 + n]) value = arg + 2 + n + 1;
    } else { /* "-j 4" or "-j4" */
        for (o = usage->options; o->name && o->letter != arg[1];) o++;
        if (!o->name || (arg[2] && o->kind == BP_OPTION_FLAG)) o = NULL;
        if (arg[2]) value = arg + 2;
    }
    if (!o) return unknown_option(usage, arg);
    if (o->kind == BP_OPTION_FLAG) {
        if (value) {
            bp_complain(usage->command, "--%s takes no value", o->name);
            return BP_EXIT_USAGE;
        }
        *(bool *)o->into = true;
        return BP_OPTIONS_GOOD;
    }
    if (!value && *at + 1 < argc) value = argv[++*at];
    if (!value) {
        bp_complain(usage->command, "%s wants a value: %s", arg, o->value);
        return BP_EXIT_USAGE;
    }
    return option_set(usage, o, value);
}

static int wrong_words(const struct bp_usage *usage, const char *extra)
{
    if (extra && !usage->words) bp_complain(usage->command, "takes no argument, got '%s'", extra);
    else if (extra) bp_complain(usage->command, "one argument too many: '%s'", extra);
    else bp_complain(usage->command, "wants an argument: bp %s %s", usage->command, usage->words);
    return BP_EXIT_USAGE;
}

/* The error number that opening a file for writing would give, or 0. Creates nothing. */
static int output_error(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat file;
    char *folder;
    int error;

    if (!*path) return ENOENT;
    if (!stat(path, &file))
        return S_ISDIR(file.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    if (errno != ENOENT) return errno;
    folder = slash ? bp_text_format("%.*s", (int)(slash - path) + 1, path) : bp_text_format(".");
    error = stat(folder, &file) || access(folder, W_OK | X_OK) ? errno : 0;
    free(folder);
    return error;
}

/* Creates the folders that the command writes to. */
static int make_folders(const struct bp_usage *usage)
{
    for (const struct bp_option *o = usage->options; o->name; o++) {
        const char *path = o->kind == BP_OPTION_FOLDER ? *(const char **)o->into : NULL;
        struct stat is;
        int error;
        if (!path) continue;
        if (mkdir(path, 0777) && errno != EEXIST) error = errno;
        else if (stat(path, &is)) error = errno;
        else if (!S_ISDIR(is.st_mode)) error = ENOTDIR;
        else error = access(path, W_OK | X_OK) ? errno : 0;
        if (!error) continue;
        bp_complain(usage->command, "--%s '%s' cannot be written to: %s", o->name, path,
                    strerror(error));
        return BP_EXIT_BROKEN;
    }
    return BP_OPTIONS_GOOD;
}

/* Checks the files that the command is to write, so that hours of work are not lost at the end. */
static int check_outputs(const struct bp_usage *usage)
{
    const struct bp_option *standard = NULL;
    int status = make_folders(usage);

    if (status != BP_OPTIONS_GOOD) return status;
    for (const struct bp_option *o = usage->options; o->name; o++) {
        const char *path = o->kind == BP_OPTION_OUTPUT ? *(const char **)o->into : NULL;
        int error = path && strcmp(path, "-") ? output_error(path) : 0;
        if (error) {
            bp_complain(usage->command, "--%s '%s' cannot be written: %s", o->name, path,
                        strerror(error));
            return BP_EXIT_BROKEN;
        }
        if (!path || strcmp(path, "-")) continue;
        if (standard) {
            bp_complain(usage->command,
                        "--%s and --%s are both -, standard output: give one of them a file",
                        standard->name, o->name);
            return BP_EXIT_USAGE;
        }
        standard = o;
    }
    return BP_OPTIONS_GOOD;
}

int bp_options_parse(const struct bp_usage *usage, int argc, char **argv, const char **words)
{
    bool options_end = false;
    int n = 0;

    for (int i = 0; i < usage->max_words; i++) words[i] = NULL;
    for (int i = 1; i < argc; i++) {
        if (!options_end && (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))) {
            print_help(usage);
            return BP_EXIT_GOOD;
        }
        if (!options_end && !strcmp(argv[i], "--")) {
            options_end = true;
        } else if (!options_end && argv[i][0] == '-' && argv[i][1]) {
            int status = take_option(usage, argc, argv, &i);
            if (status != BP_OPTIONS_GOOD) return status;
        } else if (n == usage->max_words) {
            return wrong_words(usage, argv[i]);
        } else {
            words[n++] = argv[i];
        }
    }
    return n < usage->min_words ? wrong_words(usage, NULL) : check_outputs(usage);
}

bool bp_word_is_path(const char *word)
{
    const char *dot = strrchr(word, '.');
    return strchr(word, '/') || (dot && (!strcmp(dot, ".so") || !strcmp(dot, ".json")));
}

bool bp_word_is_library(const char *word)
{
    const char *dot = strrchr(word, '.');
    return dot && !strcmp(dot, ".so");
}

bool bp_path_is_missing(const char *command, const char *word)
{
    if (!bp_word_is_path(word) || !access(word, F_OK)) return false;
    if (errno != ENOENT && errno != ENOTDIR) return false;
    bp_complain(command, "%s: no such file", word);
    return true;
}

bool bp_word_fits_device(const char *command, const char *word)
{
    if (bp_path_is_missing(command, word)) return false;
    if (!strchr(word, '/') || bp_word_is_library(word)) return true;
    bp_complain(command,
                "'%s': expected a plugin's library, whose name ends in .so, or a device such as "
                "cpu:0",
                word);
    return false;
}
