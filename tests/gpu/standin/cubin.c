/* SPDX-License-Identifier: Apache-2.0 */
/* cubin.c: reads kernels in code for one architecture, which is ELF. The section .nv.info.<name> of
 * each kernel has a list of attributes: the number of bytes of its parameters, and one attribute
 * for each parameter. */
#include "standin.h"
#include <elf.h>
#include <string.h>

enum {
    MACHINE = 190, /* EM_CUDA */
    NONE = 1, /* forms of attributes: no value, one byte, two, or a number of bytes that follow */
    BYTE = 2,
    HALF = 3,
    SEVERAL = 4,
    PARAMETERS = 0x19, /* EIATTR_CBANK_PARAM_SIZE */
    PARAMETER = 0x17 /* EIATTR_KPARAM_INFO */
};

struct attribute {
    uint8_t form, number;
    uint16_t value; /* or the number of bytes that follow */
};

/* The description of one parameter. */
struct parameter {
    uint32_t index;
    uint16_t number, offset;
    uint32_t rest; /* from bit 18 on: the parameter's bytes */
};

static bool read_parameter(const unsigned char *at, struct standin_kernel *kernel)
{
    struct parameter p;

    memcpy(&p, at, sizeof p);
    if (p.number >= STANDIN_PARAMETERS) return false;
    kernel->parameter[p.number].offset = p.offset;
    kernel->parameter[p.number].size = p.rest >> 18;
    kernel->n++;
    return true;
}

/* Reads a list of attributes; the list belongs to a kernel if it has a size of parameters. */
static bool read_kernel(const unsigned char *at, size_t size, struct standin_kernel *kernel)
{
    struct attribute a;
    bool found = false;

    for (size_t i = 0; i + sizeof a <= size; i += sizeof a + (a.form == SEVERAL ? a.value : 0)) {
        memcpy(&a, at + i, sizeof a);
        if (a.form == HALF && a.number == PARAMETERS) {
            kernel->size = a.value;
            found = true;
        }
        if (a.form == SEVERAL && a.number == PARAMETER &&
            (a.value != sizeof(struct parameter) || i + sizeof a + a.value > size ||
             !read_parameter(at + i + sizeof a, kernel)))
            return false;
    }
    return found;
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
        struct standin_kernel kernel = {.name = name + strlen(prefix)};
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        if (read_kernel(file + section[i].sh_offset, section[i].sh_size, &kernel))
            code = standin_add(out, &kernel);
    }
    if (!code && !out->n) code = standin_refuse(SIM_INVALID_IMAGE, "code without a kernel");
    if (code) standin_forget(out);
    return code;
}
