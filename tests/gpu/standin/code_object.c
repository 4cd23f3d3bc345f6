/* SPDX-License-Identifier: Apache-2.0 */
/* code_object.c: reads AMD's code objects. They are ELF, with a symbol <kernel>.kd for each kernel,
 * whose 64 bytes describe it: memory of a team, memory of a lane, bytes of its arguments; and a
 * note with the metadata. */
#include "standin.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
    MACHINE = 224,
    SYSTEM = 64,
    DESCRIPTOR = 64
}; /* EM_AMDGPU, ELFOSABI_AMDGPU_HSA */
enum {
    MOST_LOCAL = 65536,
    METADATA = 32 /* NT_AMDGPU_METADATA */
};

/* The architectures, by the bits of e_flags. */
static const struct arch {
    const char *name;
    unsigned flags;
} archs[] = {
    {"gfx900", 0x2c},  {"gfx906", 0x2f},  {"gfx908", 0x30},  {"gfx90a", 0x3f},  {"gfx942", 0x4c},
    {"gfx1030", 0x36}, {"gfx1100", 0x41}, {"gfx1101", 0x46}, {"gfx1200", 0x48}, {"gfx1201", 0x4e},
};

static const char *arch_name(unsigned flags)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (archs[i].flags == (flags & 0xff)) return archs[i].name;
    return "another architecture";
}

/* Adds a kernel whose descriptor is at an address of a section. */
static int add_kernel(const unsigned char *file, const Elf64_Shdr *section, const Elf64_Sym *symbol,
                      char *name, struct standin_image *out)
{
    uint64_t at = symbol->st_value - section->sh_addr;
    uint32_t value[3]; /* local memory, private memory, arguments */

    if (symbol->st_size != DESCRIPTOR || symbol->st_value < section->sh_addr ||
        at + DESCRIPTOR > section->sh_size)
        return standin_refuse(SIM_INVALID_IMAGE, "%s has no descriptor of %d bytes", name,
                              DESCRIPTOR);
    memcpy(value, file + section->sh_offset + at, sizeof value);
    if (value[0] > MOST_LOCAL)
        return standin_refuse(SIM_INVALID_IMAGE, "%s has %u bytes of local memory", name, value[0]);
    name[strlen(name) - strlen(".kd")] = '\0';
    return standin_add(out, &(struct standin_kernel){.name = name, .size = value[2]});
}

/* Adds the kernels of a table of symbols. */
static int read_symbols(const unsigned char *file, const Elf64_Shdr *section,
                        const Elf64_Shdr *table, struct standin_image *out)
{
    const Elf64_Sym *symbol = (const void *)(file + table->sh_offset);
    const Elf64_Shdr *strings = &section[table->sh_link];
    int code = SIM_SUCCESS;

    out->names = malloc(strings->sh_size);
    if (!out->names) return SIM_OUT_OF_MEMORY;
    memcpy(out->names, file + strings->sh_offset, strings->sh_size);
    for (size_t i = 1; i < table->sh_size / sizeof *symbol && !code; i++) {
        char *name = out->names + symbol[i].st_name;
        size_t length = strlen(name);
        if (length > 3 && !strcmp(name + length - 3, ".kd"))
            code = add_kernel(file, &section[symbol[i].st_shndx], &symbol[i], name, out);
    }
    return code;
}

static size_t code_object_padded(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

/* Reads the metadata, if a section of notes has any. */
static int read_notes(const unsigned char *at, size_t size, struct standin_image *out)
{
    const unsigned char *end = at + size;
    Elf64_Nhdr note;

    for (; (size_t)(end - at) >= sizeof note; at += code_object_padded(note.n_descsz)) {
        memcpy(&note, at, sizeof note);
        at += sizeof note;
        if (code_object_padded(note.n_namesz) + code_object_padded(note.n_descsz) >
            (size_t)(end - at))
            break;
        at += code_object_padded(note.n_namesz);
        if (note.n_type == METADATA) return standin_read_metadata(at, note.n_descsz, out);
    }
    return standin_refuse(SIM_INVALID_IMAGE, "a code object has no metadata");
}

int standin_read(const void *image, struct standin_image *out)
{
    const Elf64_Ehdr *head = image;
    const Elf64_Shdr *section;
    int code = SIM_SUCCESS;

    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != MACHINE ||
        head->e_ident[EI_OSABI] != SYSTEM)
        return standin_refuse(SIM_INVALID_IMAGE, "an image is no code object");
    if (strcmp(arch_name(head->e_flags), standin_arch()) != 0) return SIM_NO_IMAGE;
    section = (const void *)((const unsigned char *)image + head->e_shoff);
    for (int i = 0; i < head->e_shnum && !code && !out->names; i++)
        if (section[i].sh_type == SHT_DYNSYM) code = read_symbols(image, section, &section[i], out);
    if (!code && !out->n) code = standin_refuse(SIM_INVALID_IMAGE, "a code object has no kernel");
    for (int i = 0; i < head->e_shnum && !code; i++)
        if (section[i].sh_type == SHT_NOTE)
            code = read_notes((const unsigned char *)image + section[i].sh_offset,
                              section[i].sh_size, out);
    if (code) standin_forget(out);
    return code;
}
