/* SPDX-License-Identifier: Apache-2.0 */
/* elf_symbols.c: reads the dynamic symbol table of a 64-bit ELF file. The file is not trusted:
 * every offset is checked before it is used. */
#include "elf_symbols.h"
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    const char *bytes;
    size_t size;
};

/* Returns the address of n structs of size bytes at offset, or NULL if they do not lie in the
 * file. */
static const void *elf_symbols_part(const struct file *file, uint64_t offset, uint64_t n,
                                    uint64_t size)
{
    if (offset > file->size || offset % 8 || (size && n > (file->size - offset) / size))
        return NULL;
    return file->bytes + offset;
}

static bool is_exported(const Elf64_Sym *s)
{
    unsigned char binding = ELF64_ST_BIND(s->st_info),
                  visibility = ELF64_ST_VISIBILITY(s->st_other);

    return s->st_shndx != SHN_UNDEF &&
           (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

static void elf_symbols_collect(const Elf64_Sym *symbol, uint64_t n, const char *names,
                                uint64_t names_size, char *text, size_t size, size_t *count)
{
    size_t used = 0;

    for (uint64_t i = 0; i < n; i++) {
        const char *name = names + symbol[i].st_name;
        if (!is_exported(&symbol[i]) || symbol[i].st_name >= names_size) continue;
        /* The linker adds an absolute symbol for each version of a version script. */
        if (symbol[i].st_shndx == SHN_ABS && ELF64_ST_TYPE(symbol[i].st_info) == STT_OBJECT &&
            !symbol[i].st_value)
            continue;
        int written = snprintf(text + used, size - used, "%s%.*s", *count ? " " : "",
                               (int)strnlen(name, names_size - symbol[i].st_name), name);
        used = used + (size_t)written < size ? used + (size_t)written : size - 1;
        (*count)++;
    }
}

static const char *read_table(const struct file *file, char *text, size_t size, size_t *count)
{
    const Elf64_Ehdr *head = elf_symbols_part(file, 0, 1, sizeof *head);
    const Elf64_Shdr *section;

    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG)) return "it is no ELF file";
    if (head->e_ident[EI_CLASS] != ELFCLASS64) return "it is no 64-bit ELF file";
    section = head->e_shentsize == sizeof *section
                  ? elf_symbols_part(file, head->e_shoff, head->e_shnum, sizeof *section)
                  : NULL;
    if (!section) return "its table of sections lies outside the file";
    for (int i = 0; i < head->e_shnum; i++) {
        const Elf64_Sym *symbol;
        const Elf64_Shdr *strings;
        if (section[i].sh_type != SHT_DYNSYM || section[i].sh_link >= head->e_shnum) continue;
        strings = &section[section[i].sh_link];
        symbol = elf_symbols_part(file, section[i].sh_offset, section[i].sh_size / sizeof *symbol,
                                  sizeof *symbol);
        if (!symbol || strings->sh_offset > file->size ||
            strings->sh_size > file->size - strings->sh_offset)
            return "its symbol table lies outside the file";
        elf_symbols_collect(symbol, section[i].sh_size / sizeof *symbol,
                            file->bytes + strings->sh_offset, strings->sh_size, text, size, count);
        return NULL;
    }
    return "it has no dynamic symbol table";
}

bool elf_exports(const char *path, char *text, size_t size, size_t *out_count)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    const char *why = "it cannot be read";

    *out_count = 0;
    text[0] = 0;
    if (fd >= 0 && !fstat(fd, &stat) && stat.st_size > 0) {
        struct file file = {mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0),
                            (size_t)stat.st_size};
        if (file.bytes != MAP_FAILED) {
            why = read_table(&file, text, size, out_count);
            munmap((void *)file.bytes, file.size);
        }
    }
    if (fd >= 0) close(fd);
    if (why) snprintf(text, size, "%s", why);
    return !why;
}
