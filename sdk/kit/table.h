/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: writes the table of functions of a library (library.h) from the list of these functions.
 * A source file includes it once for each table, and defines before:
 *
 *   KIT_LIST   the file of the list, in quotes, as the folders of -I have it: "mydev/vendor.def"
 *   KIT_TABLE  the name of the table: vendor
 *   KIT_CALLS  the struct with a member for each line of the list, in the same order: struct
 *              vendor_calls. If it is not defined, the members of an unnamed struct are made from
 *              the list.
 *   KIT_MORE   further members of the union, each with a semicolon; may be left out
 *
 * All are undefined at the end. This is what the file then has:
 *
 *   static const struct kit_symbol vendor_symbols[];
 *   static union vendor {
 *       void *function[];
 *       struct vendor_calls call;
 *   } vendor;
 *   KIT_LIBRARY(vendor_symbols, vendor.function, advice)   can be used from here
 *
 * The list has a line CALL(result, name, parameters) for each function that the plugin needs, and
 * CALL_OR_NONE(...) for each one that a library may lack. The macros of other lines are defined by
 * the file, to the kit_symbol of a line: {#name, true}, with a comma; CALL and CALL_OR_NONE too, if
 * their lines have another form, or other names than the library's functions. KIT_CALLS is needed
 * then. */
#include "library.h"

#ifndef CALL
#define CALL(result, name, parameters) {#name, true},
#define CALL_OR_NONE(result, name, parameters) {#name, false},
#endif
#define KIT_JOINED(table, end) table##end
#define KIT_SYMBOLS(table) KIT_JOINED(table, _symbols)

static const struct kit_symbol KIT_SYMBOLS(KIT_TABLE)[] = {
#include KIT_LIST
};
#undef CALL
#undef CALL_OR_NONE

static union KIT_TABLE {
    void *function[sizeof KIT_SYMBOLS(KIT_TABLE) / sizeof(struct kit_symbol)];
#ifdef KIT_CALLS
    KIT_CALLS call;
#else
    struct {
#define CALL(result, name, parameters) result(*name) parameters;
#define CALL_OR_NONE CALL
#include KIT_LIST
#undef CALL
#undef CALL_OR_NONE
    } call;
#endif
#ifdef KIT_MORE
    KIT_MORE
#endif
} KIT_TABLE;
_Static_assert(sizeof KIT_TABLE.call == sizeof KIT_TABLE.function, "a function for each line");

#undef KIT_JOINED
#undef KIT_SYMBOLS
#undef KIT_LIST
#undef KIT_TABLE
#undef KIT_CALLS
#undef KIT_MORE
