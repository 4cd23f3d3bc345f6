/* SPDX-License-Identifier: Apache-2.0 */
/* program_cache.c: stores compiled programs in a cache on disk. Each program has one file:
 *
 *     magic | length of key | length of binary | hash of binary | key | binary
 *
 * The key contains everything that the binary depends on: sources, options, device and driver. The
 * file's name is a hash of the key. A file is written under a temporary name and then renamed, so
 * that a reader sees a complete file or none. A file that is truncated, damaged or of another
 * program is not used, and is replaced. If several processes need a missing program, one of them
 * compiles it and holds a lock on <file>.turn meanwhile.
 *
 * The folder is BP_<PLUGIN>_CACHE, or else backplane/<plugin> in XDG_CACHE_HOME or ~/.cache.
 * BP_<PLUGIN>_CACHE= (empty) disables the cache. A program with more rights than its user has no
 * cache. The build passes the plugin's name, as to rows.c: -DPORTABLE_PLUGIN="xpu". */
#include "program_cache.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct head {
    char magic[8];              /* "bpxpu1\n" */
    uint64_t key, binary, hash; /* sizes in bytes; hash of the binary */
};
static const uint64_t largest = UINT64_C(1) << 28;

enum {
    PATH = 1024,
    SETTING = 48
};

static void cache_magic(char out[8])
{
    char text[SETTING] = "";

    snprintf(text, sizeof text, "bp%s1\n", PORTABLE_PLUGIN);
    memcpy(out, text, 8);
}

uint64_t portable_hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < size; i++) h = (h ^ at[i]) * UINT64_C(1099511628211);
    return h;
}

void program_key_add(struct program_key *key, const char *value, size_t size)
{
    enum {
        SHOWN = 120
    };

    key->size += (uint32_t)snprintf(
        key->text + key->size, sizeof key->text - key->size, " | %.*s #%016llx",
        (int)(size < SHOWN ? size : SHOWN), value,
        (unsigned long long)portable_hash(PORTABLE_HASH_BEGIN, value, size));
}

/* Writes the folder's path. false: the cache is disabled. */
static bool cache_folder(char *out)
{
    const char *own, *base = secure_getenv("XDG_CACHE_HOME"),
                     *user_directory = secure_getenv("HOME");
    char setting[SETTING];
    int n = -1;

    snprintf(setting, sizeof setting, "BP_%s_CACHE", PORTABLE_PLUGIN);
    for (char *c = setting; *c; c++) *c = (char)toupper(*c);
    own = secure_getenv(setting);
    if (own) n = *own ? snprintf(out, PATH, "%s", own) : -1;
    else if (base && *base == '/')
        n = snprintf(out, PATH, "%s/backplane/%s", base, PORTABLE_PLUGIN);
    else if (user_directory && *user_directory == '/')
        n = snprintf(out, PATH, "%s/.cache/backplane/%s", user_directory, PORTABLE_PLUGIN);
    return n > 0 && n < PATH - 64;
}

static bool cache_file(const struct program_key *key, char *out)
{
    if (!cache_folder(out)) return false;
    snprintf(out + strlen(out), 32, "/%016llx.bin",
             (unsigned long long)portable_hash(PORTABLE_HASH_BEGIN, key->text, key->size));
    return true;
}

static bool cache_read_all(int fd, void *to, size_t size)
{
    for (char *at = to; size;) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t size)
{
    for (const char *at = from; size;) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static unsigned char *read_binary(int fd, const struct program_key *key, size_t *out_size)
{
    struct head head;
    char text[sizeof key->text], magic[8];
    unsigned char *binary;

    cache_magic(magic);
    if (!cache_read_all(fd, &head, sizeof head) || memcmp(head.magic, magic, sizeof magic) ||
        head.key != key->size || !head.binary || head.binary > largest ||
        !cache_read_all(fd, text, key->size) || memcmp(text, key->text, key->size))
        return NULL;
    binary = malloc((size_t)head.binary);
    if (!binary) return NULL;
    if (cache_read_all(fd, binary, (size_t)head.binary) &&
        portable_hash(PORTABLE_HASH_BEGIN, binary, (size_t)head.binary) == head.hash) {
        *out_size = (size_t)head.binary;
        return binary;
    }
    free(binary);
    return NULL;
}

unsigned char *program_cache_read(const struct program_key *key, size_t *out_size)
{
    char path[PATH];
    unsigned char *binary;
    int fd;

    if (!cache_file(key, path)) return NULL;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    binary = read_binary(fd, key, out_size);
    close(fd);
    return binary;
}

/* Creates each folder of the path, for the user only. A failure is noticed when the file is
 * created. */
static void make_folders(const char *path)
{
    char part[PATH];

    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(part, 0700);
        *at = '/';
    }
}

void program_cache_write(const struct program_key *key, const unsigned char *binary, size_t size)
{
    struct head head = {
        .key = key->size, .binary = size, .hash = portable_hash(PORTABLE_HASH_BEGIN, binary, size)};
    char path[PATH], beside[PATH + 16];
    bool good;
    int fd;

    if (!cache_file(key, path)) return;
    cache_magic(head.magic);
    make_folders(path);
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) return;
    good = write_all(fd, &head, sizeof head) && write_all(fd, key->text, key->size) &&
           write_all(fd, binary, size);
    good = !close(fd) && good;
    if (!good || rename(beside, path)) unlink(beside);
}

/* The path of the lock file beside the program's file. The system releases the lock when its
 * process ends. */
static bool lock_file(const struct program_key *key, char *out)
{
    if (!cache_file(key, out)) return false;
    strcat(out, ".turn");
    return true;
}

int program_cache_begin(const struct program_key *key)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    char path[PATH];
    int fd;

    if (!lock_file(key, path)) return -1;
    make_folders(path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); i++) {
        if (i == 12000 || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(fd);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return fd;
}

/* Processes that wait for the lock have the file open, and then find the program. Processes that
 * arrive later find the program before they open this file. */
void program_cache_end(const struct program_key *key, int lock)
{
    char path[PATH];

    if (lock < 0) return;
    if (lock_file(key, path)) unlink(path);
    close(lock);
}

void program_cache_remove(const struct program_key *key)
{
    char path[PATH];

    if (cache_file(key, path)) unlink(path);
}
