/* SPDX-License-Identifier: Apache-2.0 */
/* test_kit_table.c: tests that sdk/kit/table.h writes tables that kit_library_load fills: of a
 * named struct, of an unnamed one, of a list with a form of its own, and two tables of one list.
 * The functions are those of the system's libm. */
#include "fixture.h"

struct math_calls {
    double (*cos)(double x);
    double (*no_such_function)(double x);
    double (*ldexp)(double x, int exponent);
};
struct math_first {
    double (*cosine)(double x);
};

#define KIT_LIST "table.def"
#define KIT_TABLE named
#define KIT_CALLS struct math_calls
#define KIT_MORE struct math_first first;
#include <kit/table.h>

#define KIT_LIST "table.def"
#define KIT_TABLE unnamed
#include <kit/table.h>

struct word_calls {
    double (*cos)(double x);
    double (*sin)(double x);
};

#define WORD(verb) {#verb, true},
#define KIT_LIST "table_words.def"
#define KIT_TABLE plain
#define KIT_CALLS struct word_calls
#include <kit/table.h>

struct word_calls_f {
    float (*cos)(float x);
    float (*sin)(float x);
};

#define WORD(verb) {#verb "f", true},
#define KIT_LIST "table_words.def"
#define KIT_TABLE narrow
#define KIT_CALLS struct word_calls_f
#include <kit/table.h>

/* A line that is not looked up: the table begins with the function. */
#define CALL(result, name, parameters) {#name, true},
#define CALL_OR_NONE(result, name, parameters) {NULL, true},
#define KIT_LIST "table.def"
#define KIT_TABLE filled
#define KIT_CALLS struct math_calls
#include <kit/table.h>

#if defined CALL || defined CALL_OR_NONE || defined KIT_LIST || defined KIT_TABLE || \
    defined KIT_CALLS || defined KIT_MORE || defined KIT_SYMBOLS || defined KIT_JOINED
#error a macro of kit/table.h is left
#endif

static double table_own(double x)
{
    return x + 1;
}

static union filled filled = {.call = {.no_such_function = table_own}};

static const enum kit_place in_loader[] = {KIT_LOADER, KIT_PLACES};
static const char *const libm[] = {"libm.so.6", NULL};
static const struct kit_wanted wanted = {"kittest", "LIBRARY", libm, "", in_loader};

static void symbols_are_those_of_the_list(void)
{
    CHECK(sizeof named_symbols / sizeof *named_symbols == 3, "%zu lines", sizeof named_symbols);
    CHECK(!strcmp(named_symbols[0].name, "cos") && named_symbols[0].needed, "the first line");
    CHECK(!strcmp(named_symbols[1].name, "no_such_function") && !named_symbols[1].needed,
          "the second line");
    CHECK(!strcmp(named_symbols[2].name, "ldexp") && named_symbols[2].needed, "the third line");
    CHECK(!strcmp(narrow_symbols[1].name, "sinf") && !strcmp(plain_symbols[1].name, "sin"),
          "the lines of a form of its own");
}

static void a_named_struct_is_filled(void)
{
    static struct kit_library library = KIT_LIBRARY(named_symbols, named.function, NULL);

    CHECK(library.n == 3 && kit_library_load(&library, &wanted) == BP_OK, "%s", library.why);
    CHECK(named.call.cos && named.call.cos(0) == 1 && named.call.ldexp(3, 4) == 48, "its calls");
    CHECK(!named.call.no_such_function, "a function that the library lacks");
    CHECK(named.first.cosine == named.call.cos, "further members see other functions");
}

static void an_unnamed_struct_is_filled(void)
{
    static struct kit_library library = KIT_LIBRARY(unnamed_symbols, unnamed.function, NULL);

    CHECK(library.n == 3 && kit_library_load(&library, &wanted) == BP_OK, "%s", library.why);
    CHECK(unnamed.call.cos(0) == 1 && unnamed.call.ldexp(3, 4) == 48, "its calls");
    CHECK(!unnamed.call.no_such_function, "a function that the library lacks");
}

static void one_list_has_two_tables(void)
{
    static struct kit_library of_f64 = KIT_LIBRARY(plain_symbols, plain.function, NULL),
                              of_f32 = KIT_LIBRARY(narrow_symbols, narrow.function, NULL);

    CHECK(kit_library_load(&of_f64, &wanted) == BP_OK, "%s", of_f64.why);
    CHECK(kit_library_load(&of_f32, &wanted) == BP_OK, "%s", of_f32.why);
    CHECK(plain.call.sin(0) == 0 && plain.call.cos(0) == 1, "the calls of f64");
    CHECK(narrow.call.sin(0) == 0 && narrow.call.cos(0) == 1, "the calls of f32");
}

static void a_line_without_a_name_keeps_its_function(void)
{
    static struct kit_library library = KIT_LIBRARY(filled_symbols, filled.function, NULL);

    CHECK(kit_library_load(&library, &wanted) == BP_OK, "%s", library.why);
    CHECK(filled.call.no_such_function == table_own && filled.call.cos(0) == 1, "its calls");
}

int main(void)
{
    static const struct kit_test tests[] = {
        {"symbols are those of the list", symbols_are_those_of_the_list},
        {"a named struct is filled", a_named_struct_is_filled},
        {"an unnamed struct is filled", an_unnamed_struct_is_filled},
        {"one list has two tables", one_list_has_two_tables},
        {"a line without a name keeps its function", a_line_without_a_name_keeps_its_function},
    };

    return kit_run(tests, sizeof tests / sizeof *tests);
}
