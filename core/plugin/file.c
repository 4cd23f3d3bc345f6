/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: checks whether a file is a shared object for this machine and has the expected hash. Its
 * messages are better than the dynamic linker's, which reports a library for another processor as a
 * missing file. */
#include "loader.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Returns the name of an ELF machine that Backplane may meet, or its number as text. */
static const char *machine_name(unsigned machine, char text[32])
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"},   {EM_386, "x86"},
                 {EM_AARCH64, "aarch64"}, {EM_ARM, "arm"},
                 {EM_RISCV, "riscv"},     {EM_PPC64, "powerpc64"},
                 {EM_S390, "s390"},       {EM_LOONGARCH, "loongarch"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].machine == machine) return names[i].name;
    snprintf(text, 32, "machine %u", machine);
    return text;
}

/* The ELF machine of this process. */
#if defined(__x86_64__)
enum {
    OWN_MACHINE = EM_X86_64
};
#elif defined(__aarch64__)
enum {
    OWN_MACHINE = EM_AARCH64
};
#elif defined(__riscv)
enum {
    OWN_MACHINE = EM_RISCV
};
#elif defined(__powerpc64__)
enum {
    OWN_MACHINE = EM_PPC64
};
#elif defined(__s390x__)
enum {
    OWN_MACHINE = EM_S390
};
#elif defined(__loongarch__)
enum {
    OWN_MACHINE = EM_LOONGARCH
};
#else
#error "say here which ELF machine this is"
#endif
enum {
    OWN_CLASS = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32,
    OWN_DATA = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB,
};

/* Checks that the file contains all its segments. A file that was cut short, by a full disk or a
 * broken copy, may still have a valid header; the dynamic linker would map the missing part and
 * crash with SIGBUS. */
static bool check_length(const char *path, int fd, const ElfW(Ehdr) * header,
                         struct bp_refusal *why)
{
    struct stat file;
    uint64_t needed = header->e_phoff;

    if (fstat(fd, &file))
        return bp_broken(why, path,
                         "cannot be examined: expected a shared object, got \"%s\"; try again",
                         strerror(errno));
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) part;
        off_t at = (off_t)(header->e_phoff + i * sizeof part);

        if (pread(fd, &part, sizeof part, at) != sizeof part) needed = UINT64_MAX;
        else if (part.p_type == PT_LOAD && part.p_filesz > UINT64_MAX - part.p_offset)
            needed = UINT64_MAX;
        else if (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > needed)
            needed = part.p_offset + part.p_filesz;
    }
    if ((uint64_t)file.st_size >= needed) return true;
    return bp_broken(
        why, path,
        "the file is cut short: expected at least %llu bytes, got %llu; build or install it "
        "again",
        (unsigned long long)(needed == UINT64_MAX ? (uint64_t)file.st_size + 1 : needed),
        (unsigned long long)file.st_size);
}

static bool check_elf(const char *path, int fd, struct bp_refusal *why)
{
    ElfW(Ehdr) header;
    char text[32], own[32];
    ssize_t n = pread(fd, &header, sizeof header, 0);

    if (n < 0)
        return bp_broken(
            why, path,
            "cannot be read: expected a shared object, got \"%s\"; correct its permissions",
            strerror(errno));
    if (n == 0)
        return bp_broken(why, path,
                         "the file is empty: expected a shared object, got 0 bytes; build or "
                         "install it again");
    if ((size_t)n < sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG))
        return bp_broken(why, path,
                         "not a library: expected a shared object, got a file that is not ELF; "
                         "build or install it again");
    if (header.e_ident[EI_CLASS] != OWN_CLASS || header.e_ident[EI_DATA] != OWN_DATA ||
        header.e_machine != OWN_MACHINE)
        return bp_broken(why, path,
                         "built for another machine: expected %s, got %s%s; install the build "
                         "for this machine",
                         machine_name(OWN_MACHINE, own), machine_name(header.e_machine, text),
                         header.e_ident[EI_CLASS] != OWN_CLASS ? " of another word size"
                         : header.e_ident[EI_DATA] != OWN_DATA ? " of another byte order"
                                                             : "");
    if (header.e_type != ET_DYN)
        return bp_broken(why, path,
                         "not a shared object: expected ELF type %d, got %d; link it with -shared",
                         ET_DYN, header.e_type);
    return check_length(path, fd, &header, why);
}

/* Opens the file that was checked before, and no other one; -1 if it was replaced or cannot be
 * opened. */
static int open_checked(const char *path, const struct stat *checked, struct bp_refusal *why)
{
    struct stat file = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        bp_broken(why, path,
                  "cannot be opened: expected a shared object, got \"%s\"; correct its permissions",
                  strerror(errno));
    else if (fstat(fd, &file) || file.st_dev != checked->st_dev || file.st_ino != checked->st_ino) {
        bp_broken(why, path,
                  "replaced while it was being checked: expected inode %llu, got %llu; try again",
                  (unsigned long long)checked->st_ino, (unsigned long long)file.st_ino);
        close(fd);
        fd = -1;
    }
    return fd;
}

bool bp_file_elf(const char *path, const struct stat *checked, struct bp_refusal *why)
{
    int fd = open_checked(path, checked, why);
    bool good = fd >= 0 && check_elf(path, fd, why);

    if (fd >= 0) close(fd);
    return good;
}

bool bp_file_hash(const char *path, const struct stat *checked, const char *sha256,
                  struct bp_refusal *why)
{
    char got[65];
    int fd = open_checked(path, checked, why);
    bool good;

    if (fd < 0) return false;
    if (!bp_sha256_fd(fd, got))
        good = bp_broken(why, path,
                         "cannot be read: expected a shared object, got \"%s\"; install it again",
                         strerror(errno));
    else if (strcasecmp(got, sha256))
        good = bp_broken(why, path,
                         "the SHA-256 is not that of the manifest: expected %s, got %s; "
                         "install the plugin again, or write the manifest anew",
                         sha256, got);
    else good = true;
    close(fd);
    return good;
}
