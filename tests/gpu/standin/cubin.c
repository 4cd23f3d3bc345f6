/* SPDX-License-Identifier: Apache-2.0 */
/* cubin.c: kernels in code for one architecture, which is ELF: of each the section .nv.info.<name>
 * has a list of attributes, one of which is the number of bytes of its parameters. */
#include "standin.h"
#include <elf.h>
#include <string.h>

enum {
    MACHINE = 190, /* EM_CUDA */
    NONE = 1, /* forms of attributes: without a value, in one byte, in two, as many as they say */
    BYTE = 2,
    HALF = 3,
    SEVERAL = 4,
    PARAMETERS = 0x19 /* EIATTR_CBANK_PARAM_SIZE */
};

struct attribute {
    uint8_t form, number;
    uint16_t value; /* or bytes that follow */
};

/* The size that a list has; -1: it has none, so that it is of no kernel. */
static long find_size(const unsigned char *at, size_t size)
{
    struct attribute a;

    for (size_t i = 0; i + sizeof a <= size; i += sizeof a + (a.form == SEVERAL ? a.value : 0)) {
        memcpy(&a, at + i, sizeof a);
        if (a.form == HALF && a.number == PARAMETERS) return a.value;
    }
    return -1;
}

int standin_read_cubin(const void *elf, size_t size, struct standin_image *out)
{
    static const char prefix[] = ".nv.info.";
    const unsigned char *file = elf;
    const Elf64_Ehdr *head = elf;
    const Elf64_Shdr *section;
    const char *names;
    int code = SIM_SUCCESS;

    if (size < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_machine != MACHINE || head->e_shoff + head->e_shnum * sizeof *section > size)
        return standin_refuse(SIM_INVALID_IMAGE, "a part of a fat binary is no code for a GPU");
    section = (const void *)(file + head->e_shoff);
    names = (const char *)file + section[head->e_shstrndx].sh_offset;
    for (int i = 0; i < head->e_shnum && !code; i++) {
        const char *name = names + section[i].sh_name;
        long bytes;
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        bytes = find_size(file + section[i].sh_offset, section[i].sh_size);
        if (bytes >= 0) code = standin_add(out, name + strlen(prefix), (size_t)bytes);
    }
    if (!code && !out->n) code = standin_refuse(SIM_INVALID_IMAGE, "code without a kernel");
    if (code) standin_forget(out);
    return code;
}
