/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: prints text for people: messages, wrapped text, tables. Plain text without colours. */
#include "tools.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MAX = 100, WIDTH_MIN = 40 };

static void *text_must(void *memory)
{
    if (memory) return memory;
    fprintf(stderr, "bp: out of memory\n");
    exit(BP_EXIT_BROKEN);
}

void bp_complain(const char *command, const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bp_progress("%s", "");
    char *clean = bp_text_clean(text);
    fprintf(stderr, "bp%s%s: %s\n", *command ? " " : "", command, clean);
    free(clean);
}

/* Bytes of the UTF-8 character at s, or 0 if there is no valid one. */
static size_t utf8_length(const unsigned char *s)
{
    if (*s < 0x80) return 1;
    size_t n = *s < 0xc2 || *s > 0xf4 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0))) return 0;
    if (n == 4 && ((*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] >= 0x90))) return 0;
    return n;
}

char *bp_text_clean(const char *text)
{
    char *clean = text_must(malloc(strlen(text) + 1)), *to = clean;

    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = utf8_length(s);
        if (*s == '\n' || *s == '\t') *to++ = ' ';
        else if (!n || *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) *to++ = '?';
        else {
            memcpy(to, s, n);
            to += n;
        }
        s += n ? n : 1;
    }
    *to = 0;
    return clean;
}

char *bp_text_format(const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    return text_must(text);
}

/* The number of columns of a text: its characters. */
static int text_columns(const char *text, size_t bytes)
{
    int n = 0;

    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static int text_width(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col > WIDTH_MAX || !size.ws_col)
        return WIDTH_MAX;
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

void bp_text_print(FILE *file, int indent, const char *text)
{
    int column = indent, room = text_width();
    char *clean = bp_text_clean(text);

    fprintf(file, "%*s", indent, "");
    for (const char *word = clean + strspn(clean, " "); *word;) {
        size_t n = strcspn(word, " ");
        int length = text_columns(word, n);
        bool first = column == indent;
        if (!first && column + 1 + length > room) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        fprintf(file, "%s%.*s", first ? "" : " ", (int)n, word);
        column += length + !first;
        word += n;
        word += strspn(word, " ");
    }
    fprintf(file, "\n");
    free(clean);
}

void bp_progress(const char *format, ...)
{
    static bool shown;
    va_list args;

    if (!isatty(STDERR_FILENO)) return;
    if (shown) fprintf(stderr, "\r\033[K");
    va_start(args, format);
    shown = vfprintf(stderr, format, args) > 0;
    va_end(args);
    fflush(stderr);
}

static void table_add(struct bp_table *table, const char *const *cells, const char *note)
{
    if (table->rows == table->room) {
        table->room = table->room ? table->room * 2 : 16;
        table->cell = text_must(
            realloc(table->cell, table->room * table->columns * sizeof *table->cell));
        table->note = text_must(realloc(table->note, table->room * sizeof *table->note));
    }
    for (size_t i = 0; i < table->columns; i++)
        table->cell[table->rows * table->columns + i] = bp_text_clean(cells[i] ? cells[i] : "");
    table->note[table->rows++] = note && *note ? bp_text_clean(note) : NULL;
}

void bp_table_init(struct bp_table *table, size_t n_columns, const char *const *headings)
{
    *table = (struct bp_table){.columns = n_columns};
    if (headings) table_add(table, headings, NULL);
}

void bp_table_row(struct bp_table *table, const char *const *cells, const char *note)
{
    table_add(table, cells, note);
}

/* The last column is not padded; text that does not fit continues below it. */
static void print_row(const struct bp_table *table, FILE *file, size_t row, const int *widths,
                      int indent)
{
    char *const *cell = &table->cell[row * table->columns];
    size_t filled = table->columns;
    int at = indent;

    while (filled > 1 && !*cell[filled - 1]) filled--;
    fprintf(file, "%*s", indent, "");
    for (size_t i = 0; i + 1 < filled; i++) {
        int used = text_columns(cell[i], strlen(cell[i]));
        fprintf(file, "%s%*s", cell[i], widths[i] - used + 2, "");
        at += widths[i] + 2;
    }
    if (filled < table->columns || text_width() - at < 20) {
        fprintf(file, "%s\n", cell[filled - 1]);
        return;
    }
    char *text = NULL;
    size_t size = 0;
    FILE *memory = text_must(open_memstream(&text, &size));
    bp_text_print(memory, at, cell[filled - 1]);
    fclose(memory);
    fprintf(file, "%s", text + at); /* the first line has begun already */
    free(text);
}

void bp_table_write(const struct bp_table *table, FILE *file, int indent)
{
    int *widths = text_must(calloc(table->columns, sizeof *widths));

    for (size_t i = 0; i < table->rows * table->columns; i++) {
        int used = text_columns(table->cell[i], strlen(table->cell[i]));
        if (used > widths[i % table->columns]) widths[i % table->columns] = used;
    }
    for (size_t row = 0; row < table->rows; row++) {
        print_row(table, file, row, widths, indent);
        if (table->note[row]) bp_text_print(file, indent + 4, table->note[row]);
    }
    free(widths);
}

void bp_table_print(const struct bp_table *table, int indent)
{
    bp_table_write(table, stdout, indent);
}

void bp_table_finish(struct bp_table *table)
{
    for (size_t i = 0; i < table->rows * table->columns; i++) free(table->cell[i]);
    for (size_t i = 0; i < table->rows; i++) free(table->note[i]);
    free(table->cell);
    free(table->note);
    *table = (struct bp_table){0};
}

char *bp_uuid_text(const uint8_t uuid[16])
{
    static const uint8_t none[16];
    char text[40] = "";
    size_t n = 0;

    for (int i = 0; i < 16 && memcmp(uuid, none, sizeof none) != 0; i++) {
        bool begins = i == 4 || i == 6 || i == 8 || i == 10;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%02x", begins ? "-" : "", uuid[i]);
    }
    return bp_text_format("%s", text);
}

char *bp_dtypes_text(uint64_t mask)
{
    char *text = bp_text_format("%s", mask ? "" : "none");

    for (uint32_t i = 0; i < 64; i++) {
        if (!(mask >> i & 1)) continue;
        char *more = bp_text_format("%s%s%s", text, *text ? " " : "", bp_dtype_name(i));
        free(text);
        text = more;
    }
    return text;
}

char *bp_bytes_text(uint64_t bytes)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t i = 0;

    for (; value >= 1024 && i < 5; i++) value /= 1024;
    return bp_text_format(i ? "%.1f %s" : "%.0f %s", value, unit[i]);
}
