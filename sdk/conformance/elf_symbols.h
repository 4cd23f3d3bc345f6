/* SPDX-License-Identifier: Apache-2.0 */
/* elf_symbols.h: the symbols that a shared object exports, read from the file. */
#ifndef BP_CONFORM_ELF_SYMBOLS_H
#define BP_CONFORM_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the names of exported symbols to text, a space between, and how many there are to
 * out_count. false: the file is no shared object that can be read; text says why. */
bool elf_exports(const char *path, char *text, size_t size, size_t *out_count);

#endif
