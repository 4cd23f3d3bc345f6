/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: makes the file of a recording, and extends it by chunks, which are mapped. */
#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t default_bytes = UINT64_C(4) << 30;

/* Writes the arguments of the process into the header, separated by spaces. */
static void header_write_command(struct bp_profile_header *header)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, header->command, BP_PROFILE_COMMAND - 1);

    if (fd >= 0) close(fd);
    while (n > 0 && !header->command[n - 1]) n--;
    for (ssize_t i = 0; i < n; i++)
        if (!header->command[i]) header->command[i] = ' ';
}

static void header_init(struct bp_profile_header *header)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    memcpy(header->magic, BP_PROFILE_MAGIC, sizeof BP_PROFILE_MAGIC);
    header->version = BP_PROFILE_VERSION;
    header->header_bytes = BP_PROFILE_HEADER;
    header->chunk_bytes = BP_PROFILE_CHUNK;
    header->record_bytes = sizeof(struct bp_profile_record);
    header->process = (uint32_t)getpid();
    header->start_unix_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    header_write_command(header);
}

/* Extends the file to `bytes`, all of which has room on the disk: a write to the mapping cannot
 * fail. Returns an error number. A file beyond the process's limit would end the process by a
 * signal. Zeros are written, because pages that a file system has in memory are mapped in a third
 * of the time that it needs for room which posix_fallocate has reserved. */
static int file_extend(int fd, uint64_t from, uint64_t bytes)
{
    static const char zeros[32768];
    struct rlimit limit;

    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        bytes > limit.rlim_cur)
        return EFBIG;
    while (from < bytes) {
        uint64_t left = bytes - from;
        ssize_t n = pwrite(fd, zeros, left < sizeof zeros ? left : sizeof zeros, (off_t)from);
        if (n < 0 && errno != EINTR) return errno;
        if (n > 0) from += (uint64_t)n;
    }
    return 0;
}

static void *file_map(int fd, uint64_t from, uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);

    if (at == MAP_FAILED) return NULL;
#ifdef MADV_POPULATE_WRITE
    madvise(at, bytes, MADV_POPULATE_WRITE); /* so that no write of a record is a page fault */
#endif
    return at;
}

/* Opens a new file, in place of a regular one of this name and with its permissions. The old file
 * is not cut off: a process that still records to it, or reads it, has it mapped, and would be
 * ended by SIGBUS. Returns -1 with errno. */
static int file_open_new(const char *path)
{
    enum {
        ATTEMPTS = 100 /* other processes may make the file meanwhile */
    };
    mode_t mode = 0666;

    for (int i = 0; i < ATTEMPTS; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        struct stat old;
        if (fd >= 0 || errno != EEXIST) return fd;
        if (stat(path, &old)) continue;
        if (!S_ISREG(old.st_mode)) break;
        mode = old.st_mode & 0777;
        if (unlink(path) && errno != ENOENT) break;
    }
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
}

enum bp_status bp_profile_file_create(struct bp_profile_file *file, const char *path,
                                      uint64_t max_bytes)
{
    int failure;

    file->fd = path ? file_open_new(path) : memfd_create("backplane-profile", MFD_CLOEXEC);
    if (file->fd < 0)
        return bp_error(BP_ERR_INVALID, "bp_profiler_start: %.900s cannot be written: %s",
                        path ? path : "memory", strerror(errno));
    failure = file_extend(file->fd, 0, BP_PROFILE_HEADER);
    if (!failure) {
        file->header = file_map(file->fd, 0, BP_PROFILE_HEADER);
        if (!file->header) failure = errno;
    }
    if (failure) {
        close(file->fd);
        return bp_error(BP_ERR_INVALID, "bp_profiler_start: %.900s cannot be extended: %s",
                        path ? path : "memory", strerror(failure));
    }
    file->max_bytes = max_bytes ? max_bytes : default_bytes;
    file->bytes = BP_PROFILE_HEADER;
    file->full = false;
    file->why = "";
    pthread_mutex_init(&file->lock, NULL);
    header_init(file->header);
    return BP_OK;
}

static void file_set_full(struct bp_profile_file *file, int failure)
{
    file->full = true;
    file->why = failure == ENOSPC   ? "no space is left on the file's disk"
                : failure == EFBIG  ? "the file would exceed the process's limit of sizes"
                : failure == ENOMEM ? "no memory is left to map the file"
                                    : "the file cannot be extended";
}

struct bp_profile_chunk *bp_profile_file_chunk(struct bp_profile_file *file, uint32_t kind,
                                               uint32_t thread, uint32_t thread_name)
{
    struct bp_profile_chunk *chunk = NULL;
    int failure;

    pthread_mutex_lock(&file->lock);
    if (!file->full && file->bytes + BP_PROFILE_CHUNK > file->max_bytes) {
        file->full = true;
        file->why = "the file has reached its largest size";
    }
    if (!file->full) {
        failure = file_extend(file->fd, file->bytes, file->bytes + BP_PROFILE_CHUNK);
        if (!failure && !(chunk = file_map(file->fd, file->bytes, BP_PROFILE_CHUNK)))
            failure = errno;
        if (failure) file_set_full(file, failure);
        else file->bytes += BP_PROFILE_CHUNK;
    }
    pthread_mutex_unlock(&file->lock);
    if (!chunk) return NULL;
    chunk->thread = thread;
    chunk->thread_name = thread_name;
    atomic_signal_fence(memory_order_seq_cst); /* a reader of a killed process's file: kind last */
    chunk->kind = kind;
    return chunk;
}

void bp_profile_chunk_release(struct bp_profile_chunk *chunk)
{
    if (chunk) munmap(chunk, BP_PROFILE_CHUNK);
}

static int copy_bytes(int from, int to)
{
    char bytes[65536];
    off_t at = 0;
    ssize_t n;

    while ((n = pread(from, bytes, sizeof bytes, at)) > 0) {
        at += n;
        for (ssize_t done = 0, wrote; done < n; done += wrote) {
            wrote = write(to, bytes + done, (size_t)(n - done));
            if (wrote < 0 && errno == EINTR) wrote = 0;
            if (wrote < 0) return errno;
        }
    }
    return n < 0 ? errno : 0;
}

enum bp_status bp_profile_file_save(struct bp_profile_file *file, const char *path)
{
    int fd = file_open_new(path), failure;

    failure = fd < 0 ? errno : copy_bytes(file->fd, fd);
    if (fd >= 0 && close(fd) && !failure) failure = errno;
    if (!failure) return BP_OK;
    return bp_error(BP_ERR_INVALID, "bp_profiler_save: %.900s cannot be written: %s", path,
                    strerror(failure));
}

uint64_t bp_profile_file_records(struct bp_profile_file *file)
{
    struct bp_profile_chunk chunk;
    uint64_t records = 0, bytes;

    pthread_mutex_lock(&file->lock);
    bytes = file->bytes;
    pthread_mutex_unlock(&file->lock);
    for (uint64_t at = BP_PROFILE_HEADER; at < bytes; at += BP_PROFILE_CHUNK)
        if (pread(file->fd, &chunk, sizeof chunk, (off_t)at) == (ssize_t)sizeof chunk &&
            chunk.kind == BP_PROFILE_CHUNK_RECORDS)
            records += atomic_load(&chunk.used);
    return records;
}

void bp_profile_file_finish(struct bp_profile_file *file)
{
    munmap(file->header, BP_PROFILE_HEADER);
    close(file->fd);
    pthread_mutex_destroy(&file->lock);
}
