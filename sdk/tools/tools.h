/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h: what the commands of `bp` share: exit codes, options, printing, JSON. */
#ifndef BP_TOOLS_H
#define BP_TOOLS_H

#include <backplane/backplane.h>
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* How every command ends. */
enum bp_exit {
    BP_EXIT_GOOD = 0,
    BP_EXIT_FAILED = 1,    /* a check failed; a device or a model that is there does not work */
    BP_EXIT_USAGE = 2,     /* wrong use, or nothing matched */
    BP_EXIT_NO_DEVICE = 3, /* no such device */
    BP_EXIT_BROKEN = 4,    /* bp itself broke: no core, no report, no process of its own */
};

/* core.c: the status of a command whose device cannot be opened. */
enum bp_exit bp_exit_of_device(enum bp_status status);

/* The commands. argv[0] is the command's name; the answer is the exit status. */
int bp_cmd_list(int argc, char **argv);
int bp_cmd_info(int argc, char **argv);
int bp_cmd_ops(int argc, char **argv);
int bp_cmd_doctor(int argc, char **argv);
int bp_cmd_manifest(int argc, char **argv);
int bp_cmd_conform(int argc, char **argv);
int bp_cmd_bench(int argc, char **argv);
int bp_cmd_launch(int argc, char **argv);
int bp_cmd_ccl_bench(int argc, char **argv);
/* Where sdk/onnx is built. */
int bp_cmd_onnx_test(int argc, char **argv);
int bp_cmd_run(int argc, char **argv);
int bp_ops_onnx(void); /* ops_onnx.c: `bp ops --onnx` */

/* Commands that bp runs in child processes of itself; not shown by -h. */
int bp_cmd_probe_plugin(int argc, char **argv);
int bp_cmd_read_plugin(int argc, char **argv);

/* options.c: the command line, from one table that also prints `bp CMD -h`. */
enum bp_option_kind {
    BP_OPTION_FLAG,   /* into: bool */
    BP_OPTION_TEXT,   /* into: const char * */
    BP_OPTION_NUMBER, /* into: double */
    BP_OPTION_TEXTS,  /* into: struct bp_texts; may be given several times */
};
struct bp_option {
    const char *name; /* without "--" */
    char letter;      /* "-o", or 0 */
    enum bp_option_kind kind;
    const char *value; /* what the help calls its value; NULL for a flag */
    const char *help;
    void *into;
};
struct bp_texts {
    const char *at[64];
    size_t n;
};
struct bp_usage {
    const char *command;
    const char *words; /* what the help calls the arguments that are no options: "DEV"; or NULL */
    int min_words, max_words;
    const char *about;
    const struct bp_option *options; /* ends with a NULL name */
};

/* Fills what the options point to, and words (max_words entries, NULL where there are fewer).
 * Answers BP_OPTIONS_GOOD, or the status to exit with: -h was printed, or an error was. */
enum { BP_OPTIONS_GOOD = -1 };
int bp_options_parse(const struct bp_usage *usage, int argc, char **argv, const char **words);

/* Whether a word means a file: it has a '/', or is called *.so or *.json. */
bool bp_word_is_path(const char *word);

/* Whether a word means a file that does not exist; then an error was printed. */
bool bp_path_is_missing(const char *command, const char *word);

/* The one of the n candidates that word is most likely meant to be, or NULL. */
const char *bp_nearest(const char *word, const char *const *candidates, size_t n);

/* text.c: printing for people. */

/* "bp COMMAND: ..." on standard error. */
void bp_complain(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A copy in valid UTF-8 without control characters, which a plugin's text may hold. To be freed. */
char *bp_text_clean(const char *text);

/* printf into new memory, to be freed. Never NULL. */
char *bp_text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints text wrapped at the width of the terminal, 100 columns at most, each line behind indent
 * spaces; ends with a newline. */
void bp_text_print(FILE *file, int indent, const char *text);

/* A note on standard error that the next one replaces, if that is a terminal; "" removes it. */
void bp_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Rows, the first of them headings if there are any; a row may have a note, which stands below it.
 * Cells are copied. */
struct bp_table {
    size_t columns, rows, room;
    char **cell; /* rows times columns */
    char **note; /* rows, NULL where there is none */
};
void bp_table_init(struct bp_table *table, size_t n_columns, const char *const *headings_or_null);
void bp_table_row(struct bp_table *table, const char *const *cells, const char *note);
void bp_table_print(const struct bp_table *table, int indent); /* on standard output */
void bp_table_write(const struct bp_table *table, FILE *file, int indent);
void bp_table_finish(struct bp_table *table);

/* "f32 f64", "none". To be freed. */
char *bp_dtypes_text(uint64_t mask);

/* "62.8 GiB". To be freed. */
char *bp_bytes_text(uint64_t bytes);

/* json.c */
/* "2f6a...-..." of a device's uuid; "": it is unknown. To be freed. */
char *bp_uuid_text(const uint8_t uuid[16]);
void bp_json_text(cJSON *object, const char *key, const char *text); /* cleaned; NULL is "" */
void bp_json_dtypes(cJSON *object, const char *key, uint64_t mask);  /* ["f32", ...] */
const char *bp_json_get(const cJSON *object, const char *key); /* a text; "" if there is none */
int bp_json_print(cJSON *json); /* on standard output, and deletes it; the exit status */

/* crash.c: from now on a crash writes a line on standard error before it ends this process: the
 * signal, and in which call of which plugin it was. ending: the command is over, what still runs
 * are exit handlers. */
void bp_crash_watch(const char *command);
void bp_crash_ending(void);

/* core.c: a core for a command: of its log only warnings are shown unless BP_LOG is set, for the
 * command prints what went wrong. NULL: it was printed why. options may be NULL. */
struct bp_core *bp_tool_core(const char *command, const struct bp_core_options *options);

/* watch.c: from now on, while a call of a plugin or a wait for a device lasts longer than 5 s,
 * 30 s, 60 s and so on, standard error says so. No thread is made for it: processes of one thread
 * are faster, and `bp bench` measures that. */
void bp_watch_begin(const char *command);

/* "unprobed", "ready", ... */
const char *bp_state_name(uint32_t state);

#endif
