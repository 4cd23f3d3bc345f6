/* SPDX-License-Identifier: Apache-2.0 */
/* elf_symbols.h: the symbols that a shared object exports, read from the file. */
#ifndef BP_CONFORM_ELF_SYMBOLS_H
#define BP_CONFORM_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the names of exported symbols to text, separated by spaces, and their number to out_count.
 * Returns false if the file is not a readable shared object; text then has the reason. */
bool elf_exports(const char *path, char *text, size_t size, size_t *out_count);

#endif
