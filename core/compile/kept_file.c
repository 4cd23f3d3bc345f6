/* SPDX-License-Identifier: Apache-2.0 */
/* kept_file.c: reads and writes the files in which the compiler keeps its work. */
#include "kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEPT_LARGEST = 1 << 28
};

struct kept_head {
    char kind[8];
    struct bp_digest key, contents;
    uint64_t size;
};

/* ---- contents ---- */

void bp_kept_bytes(struct bp_kept_writer *w, const void *bytes, size_t n)
{
    if (w->failed) return;
    if (n > w->room - w->n) {
        size_t room = 2 * w->room + n + 256;
        unsigned char *grown = realloc(w->bytes, room);
        w->failed = !grown;
        if (!grown) return;
        w->bytes = grown;
        w->room = room;
    }
    if (n) memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

void bp_kept_u32(struct bp_kept_writer *w, uint32_t number)
{
    bp_kept_bytes(w, &number, sizeof number);
}

void bp_kept_u64(struct bp_kept_writer *w, uint64_t number)
{
    bp_kept_bytes(w, &number, sizeof number);
}

void bp_kept_text(struct bp_kept_writer *w, const char *text)
{
    size_t n = text ? strlen(text) : 0;

    bp_kept_u32(w, (uint32_t)n);
    bp_kept_bytes(w, text ? text : "", n + 1);
}

const void *bp_kept_get_bytes(struct bp_kept_reader *r, size_t n)
{
    const void *at = r->at;

    if (r->failed || n > (size_t)(r->end - r->at)) {
        r->failed = true;
        return NULL;
    }
    r->at += n;
    return at;
}

uint32_t bp_kept_get_u32(struct bp_kept_reader *r)
{
    const void *at = bp_kept_get_bytes(r, sizeof(uint32_t));
    uint32_t number = 0;

    if (at) memcpy(&number, at, sizeof number);
    return number;
}

uint64_t bp_kept_get_u64(struct bp_kept_reader *r)
{
    const void *at = bp_kept_get_bytes(r, sizeof(uint64_t));
    uint64_t number = 0;

    if (at) memcpy(&number, at, sizeof number);
    return number;
}

uint32_t bp_kept_get_count(struct bp_kept_reader *r, size_t least)
{
    uint32_t n = bp_kept_get_u32(r);

    if (!r->failed && n <= (size_t)(r->end - r->at) / least) return n;
    r->failed = true;
    return 0;
}

const char *bp_kept_get_text(struct bp_kept_reader *r)
{
    size_t n = bp_kept_get_count(r, 1);
    const char *text = bp_kept_get_bytes(r, n + 1);

    if (text && !text[n] && !memchr(text, 0, n)) return text;
    r->failed = true;
    return "";
}

/* ---- files ---- */

static enum bp_status kept_errno(const char *path, const char *what)
{
    int code = errno;

    return bp_error(code == ENOENT ? BP_ERR_NOT_FOUND : BP_ERR_INVALID, "%s cannot be %s: %s", path,
                    what, strerror(code));
}

static bool kept_read_all(int fd, void *to, size_t n)
{
    for (char *at = to; n;) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static bool kept_write_all(int fd, const void *from, size_t n)
{
    for (const char *at = from; n;) {
        ssize_t got = write(fd, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static struct bp_digest contents_digest(const void *bytes, size_t n)
{
    struct bp_digest digest = bp_digest_begin();

    bp_digest_add(&digest, bytes, n);
    return digest;
}

/* The contents decide what runs, so only the user may have written them. */
static const char *kept_refused(int fd, off_t *out_size)
{
    struct stat s;

    if (fstat(fd, &s)) return "cannot be examined";
    *out_size = s.st_size;
    if (!S_ISREG(s.st_mode)) return "is no regular file";
    if (s.st_uid != geteuid()) return "belongs to another user";
    if (s.st_mode & (S_IWGRP | S_IWOTH)) return "may be written by other users";
    if (s.st_size > KEPT_LARGEST) return "has more than 256 MiB";
    return NULL;
}

static enum bp_status kept_read(int fd, const char *path, const char *kind, struct bp_digest key,
                                unsigned char **out_bytes, size_t *out_n)
{
    struct kept_head head;
    off_t size = 0;
    const char *why = kept_refused(fd, &size);
    unsigned char *bytes;

    if (why) return bp_error(BP_ERR_INVALID, "%s %s", path, why);
    if (!kept_read_all(fd, &head, sizeof head) || memcmp(head.kind, kind, sizeof head.kind))
        return bp_error(BP_ERR_INVALID, "%s has another format", path);
    if (!bp_digest_same(head.key, key))
        return bp_error(BP_ERR_INVALID,
                        "%s is stale: the graph, its frozen constants, the device, the plugin, the "
                        "library or a setting differ",
                        path);
    if (head.size != (uint64_t)size - sizeof head)
        return bp_error(BP_ERR_INVALID, "%s is truncated or damaged", path);
    bytes = malloc((size_t)head.size + 1);
    if (!bytes) return bp_error(BP_ERR_MEMORY, "no host memory to read %s", path);
    if (kept_read_all(fd, bytes, (size_t)head.size) &&
        bp_digest_same(contents_digest(bytes, (size_t)head.size), head.contents)) {
        *out_bytes = bytes;
        *out_n = (size_t)head.size;
        return BP_OK;
    }
    free(bytes);
    return bp_error(BP_ERR_INVALID, "%s is truncated or damaged", path);
}

enum bp_status bp_kept_file_read(const char *path, const char *kind, struct bp_digest key,
                                 unsigned char **out_bytes, size_t *out_n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    enum bp_status status;

    if (fd < 0) return kept_errno(path, "opened");
    status = kept_read(fd, path, kind, key, out_bytes, out_n);
    close(fd);
    return status;
}

/* Creates the folders of a path. A failure is noticed when the file is created. */
static void kept_folders(const char *path)
{
    char part[BP_KEPT_PATH];

    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(part, 0700);
        *at = '/';
    }
}

static enum bp_status kept_write(const char *path, const struct kept_head *head,
                                 const struct bp_kept_writer *w)
{
    char beside[BP_KEPT_PATH + 8];
    enum bp_status status = BP_OK;
    int fd;

    if ((size_t)snprintf(beside, sizeof beside, "%s.XXXXXX", path) >= sizeof beside)
        return bp_error(BP_ERR_INVALID, "the path of a file has more than %d characters",
                        BP_KEPT_PATH);
    kept_folders(path);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) return kept_errno(path, "written");
    if (!kept_write_all(fd, head, sizeof *head) || !kept_write_all(fd, w->bytes, w->n))
        status = kept_errno(path, "written");
    if (close(fd) && !status) status = kept_errno(path, "written");
    if (!status && rename(beside, path)) status = kept_errno(path, "written");
    if (status) unlink(beside);
    return status;
}

enum bp_status bp_kept_file_write(const char *path, const char *kind, struct bp_digest key,
                                  struct bp_kept_writer *w)
{
    struct kept_head head = {.key = key, .size = w->n};
    enum bp_status status;

    memcpy(head.kind, kind, sizeof head.kind);
    if (w->failed) status = bp_error(BP_ERR_MEMORY, "no host memory to write %s", path);
    else if (w->n > KEPT_LARGEST - sizeof head)
        status = bp_error(BP_ERR_INVALID, "%s would have more than 256 MiB", path);
    else {
        head.contents = contents_digest(w->bytes, w->n);
        status = kept_write(path, &head, w);
    }
    free(w->bytes);
    *w = (struct bp_kept_writer){0};
    return status;
}
