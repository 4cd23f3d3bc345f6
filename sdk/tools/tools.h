/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h: functions shared by the commands of `bp`: exit statuses, options, printing, JSON. */
#ifndef BP_TOOLS_H
#define BP_TOOLS_H

#include <backplane/backplane.h>
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

/* The exit status of every command. */
enum bp_exit {
    BP_EXIT_GOOD = 0,
    BP_EXIT_FAILED = 1,    /* a check failed, or an existing device or model does not work */
    BP_EXIT_USAGE = 2,     /* wrong use, or nothing matched */
    BP_EXIT_NO_DEVICE = 3, /* the device does not exist */
    BP_EXIT_BROKEN = 4,    /* bp itself failed: no core, no report, no child process */
};

/* In core.c: the exit status of a command whose device cannot be opened. */
enum bp_exit bp_exit_of_device(enum bp_status status);

/* The commands. argv[0] is the name of the command; each returns the exit status. */
int bp_cmd_list(int argc, char **argv);
int bp_cmd_info(int argc, char **argv);
int bp_cmd_ops(int argc, char **argv);
int bp_cmd_doctor(int argc, char **argv);
int bp_cmd_manifest(int argc, char **argv);
int bp_cmd_new_plugin(int argc, char **argv);
int bp_cmd_conform(int argc, char **argv);
int bp_cmd_compare(int argc, char **argv);
int bp_cmd_report(int argc, char **argv);
int bp_cmd_bench(int argc, char **argv);
int bp_cmd_launch(int argc, char **argv);
int bp_cmd_profile(int argc, char **argv);
int bp_cmd_trace(int argc, char **argv);
int bp_cmd_passes(int argc, char **argv);
int bp_cmd_ccl_bench(int argc, char **argv);
/* Only if sdk/onnx is built. */
int bp_cmd_onnx_test(int argc, char **argv);
int bp_cmd_run(int argc, char **argv);
int bp_cmd_program(int argc, char **argv);
int bp_cmd_tune(int argc, char **argv);
int bp_ops_onnx(void); /* ops_onnx.c: `bp ops --onnx` */

/* Commands that bp runs in child processes of itself; -h does not show them. */
int bp_cmd_probe_plugin(int argc, char **argv);
int bp_cmd_read_plugin(int argc, char **argv);

/* In options.c: parses a command line with a table of options, from which `bp CMD -h` is printed
 * too. */
enum bp_option_kind {
    BP_OPTION_FLAG,   /* into: bool */
    BP_OPTION_TEXT,   /* into: const char * */
    BP_OPTION_NUMBER, /* into: double */
    BP_OPTION_WHOLE,  /* a whole number; into: double */
    BP_OPTION_OUTPUT, /* a file that the command writes; into: const char *. Checked before the
                         command does any work. "-" is standard output, for one option at most */
    BP_OPTION_FOLDER, /* a folder that the command writes files to; into: const char *. Created, if
                         it does not exist, before the files of BP_OPTION_OUTPUT are checked */
    BP_OPTION_TEXTS,  /* into: struct bp_texts; may be given several times */
};
struct bp_option {
    const char *name; /* without "--" */
    char letter;      /* "-o", or 0 */
    enum bp_option_kind kind;
    const char *value; /* the name of its value in the help; NULL for a flag */
    const char *help;
    void *into;
    double least, most; /* of a number; both 0: any number */
};
struct bp_texts {
    const char *at[64];
    size_t n;
};
struct bp_usage {
    const char *command;
    const char *words; /* names of the other arguments in the help: "DEV"; or NULL */
    int min_words, max_words;
    const char *about;
    const struct bp_option *options; /* ends with a NULL name */
};

/* Stores the values of the options through `into`, and the other arguments in words (max_words
 * entries, NULL for absent ones). Returns BP_OPTIONS_GOOD, or the exit status after the help or an
 * error was printed. */
enum { BP_OPTIONS_GOOD = -1 };
int bp_options_parse(const struct bp_usage *usage, int argc, char **argv, const char **words);

/* Whether a word is the path of a file: it contains a '/' or ends with .so or .json. */
bool bp_word_is_path(const char *word);

/* Whether a word is the name or path of a library: it ends with .so. */
bool bp_word_is_library(const char *word);

/* Whether a word is the path of a file that does not exist; if so, prints an error. */
bool bp_path_is_missing(const char *command, const char *word);

/* Whether a word can be a device: its name, or the path of an existing library of a plugin. If not,
 * prints an error. */
bool bp_word_fits_device(const char *command, const char *word);

/* Returns the one of the n candidates that is most similar to word, or NULL. */
const char *bp_nearest(const char *word, const char *const *candidates, size_t n);

/* In text.c: printing for people. */

/* Prints a message to standard error, behind "bp COMMAND: ". */
void bp_complain(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns a copy in valid UTF-8 without control characters, which the text of a plugin may contain.
 * The caller frees it. */
char *bp_text_clean(const char *text);

/* printf into new memory, which the caller frees. Never returns NULL. */
char *bp_text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints text wrapped at the width of the terminal, at most 100 columns, with each line indented by
 * `indent` spaces. Ends with a newline. */
void bp_text_print(FILE *file, int indent, const char *text);

/* Prints a progress note to standard error, if that is a terminal. The next note replaces it; ""
 * removes it. */
void bp_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A table of text. The first row has headings, if there are any. A row may have a note, which is
 * printed below it. Cells are copied. */
struct bp_table {
    size_t columns, rows, room;
    char **cell; /* rows * columns cells */
    char **note; /* one for each row; NULL: none */
};
void bp_table_init(struct bp_table *table, size_t n_columns, const char *const *headings_or_null);
void bp_table_row(struct bp_table *table, const char *const *cells, const char *note);
void bp_table_print(const struct bp_table *table, int indent); /* prints to standard output */
void bp_table_write(const struct bp_table *table, FILE *file, int indent);
void bp_table_finish(struct bp_table *table);

/* Text such as "f32 f64", or "none". The caller frees it. */
char *bp_dtypes_text(uint64_t mask);

/* Text such as "62.8 GiB". The caller frees it. */
char *bp_bytes_text(uint64_t bytes);

/* A device's uuid as text "2f6a...-..."; "" if it is unknown. The caller frees it. */
char *bp_uuid_text(const uint8_t uuid[16]);
/* In json.c: */
void bp_json_text(cJSON *object, const char *key, const char *text); /* cleaned; NULL: "" */
void bp_json_dtypes(cJSON *object, const char *key, uint64_t mask);  /* ["f32", ...] */
const char *bp_json_get(const cJSON *object, const char *key); /* a text; "" if the key is absent */
/* A finite number; NaN if there is none of this key. */
double bp_json_number(const cJSON *object, const char *key);
int bp_json_print(cJSON *json); /* prints and deletes json; returns the exit status */

/* In installed.c: the path of a file that is installed at this path from the directory of bp; and a
 * text in which each page docs/PAGE has the path at which it is installed, unless the pages are not
 * installed. The caller frees both. */
char *bp_installed_path(const char *from_bindir);
char *bp_installed_pages(const char *text);

/* In crash.c. After bp_crash_watch, a crash prints a line to standard error before it ends this
 * process: the signal, and the plugin and call in which it occurred. bp_crash_ending: the command
 * has ended, and only exit handlers still run. */
void bp_crash_watch(const char *command);
void bp_crash_ending(void);

/* In core.c: creates a core for a command. The core prints only warnings of its log, unless BP_LOG
 * is set, because the command itself prints errors. Returns NULL after printing an error. options
 * may be NULL. */
struct bp_core *bp_tool_core(const char *command, const struct bp_core_options *options);

/* Opens the device of this name, or the first device of the plugin whose library has this path.
 * The results are those of bp_device_create and bp_core_load_path. */
enum bp_status bp_tool_device(struct bp_core *core, const char *word,
                              struct bp_device **out_device);

/* In watch.c: from now on standard error reports each call of a plugin and each wait for a device
 * that lasts longer than 5 s, 30 s, 60 s and so on. This uses no thread, because processes with one
 * thread are faster, which `bp bench` measures. */
void bp_watch_begin(const char *command);

/* The name of a plugin's state: "unprobed", "ready", ... */
const char *bp_state_name(uint32_t state);

#endif
