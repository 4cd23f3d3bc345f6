/* SPDX-License-Identifier: Apache-2.0 */
/* test_cache.c: tests the xpu plugin's program cache alone: a program is found by its whole key;
 * one of several processes compiles; a full disk leaves no file behind. */
#include <dialect/program_cache.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/bp-cache-XXXXXX";

static void cache_begin(void)
{
    cr_assert(mkdtemp(folder));
    setenv("BP_XPU_CACHE", folder, 1);
}

static int cache_files(bool remove_them)
{
    DIR *dir = opendir(folder);
    int n = 0;

    cr_assert(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        n++;
        if (remove_them) unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
    return n;
}

static void cache_end(void)
{
    cache_files(true);
    rmdir(folder);
}

static struct program_key cache_key_of(const char *text)
{
    struct program_key key = {.size = (uint32_t)strlen(text)};

    memcpy(key.text, text, key.size);
    return key;
}

Test(cache, written_entries_are_found, .init = cache_begin, .fini = cache_end)
{
    struct program_key key = cache_key_of("a program"), other = cache_key_of("another");
    unsigned char binary[1000], *got;
    size_t size = 0;

    for (size_t i = 0; i < sizeof binary; i++) binary[i] = (unsigned char)i;
    cr_assert_null(program_cache_read(&key, &size));
    program_cache_write(&key, binary, sizeof binary);
    got = program_cache_read(&key, &size);
    cr_assert(got && size == sizeof binary && !memcmp(got, binary, size));
    cr_assert_null(program_cache_read(&other, &size));
    program_cache_remove(&key);
    cr_assert_null(program_cache_read(&key, &size));
    cr_assert_eq(cache_files(false), 0);
    free(got);
}

/* In a child process: takes the compile lock, writes a byte to the parent, and after a while writes
 * the program, or exits without it. */
static pid_t cache_compiler(const struct program_key *key, bool dies)
{
    int ready[2], turn;
    char byte = 0;
    pid_t child;

    cr_assert_eq(pipe(ready), 0);
    child = fork();
    if (child) {
        cr_assert_eq(read(ready[0], &byte, 1), 1);
        return child;
    }
    turn = program_cache_begin(key);
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    usleep(200000);
    if (dies) _exit(turn < 0);
    program_cache_write(key, (const unsigned char *)"binary", 6);
    program_cache_end(key, turn);
    _exit(turn < 0);
}

Test(cache, one_of_two_processes_compiles, .init = cache_begin, .fini = cache_end, .timeout = 30)
{
    struct program_key key = cache_key_of("a program"), other = cache_key_of("another");

    for (int dies = 0; dies < 2; dies++) {
        pid_t child = cache_compiler(&key, dies);
        int of_other = program_cache_begin(&other), turn, outcome;
        size_t size = 0;
        unsigned char *got;
        cr_assert(of_other >= 0 && waitpid(child, &outcome, WNOHANG) == 0, "another's is free");
        program_cache_end(&other, of_other);
        turn = program_cache_begin(&key);
        got = program_cache_read(&key, &size);
        cr_assert(turn >= 0 && (got == NULL) == (bool)dies, "it is there if it was made");
        program_cache_end(&key, turn);
        cr_assert_eq(waitpid(child, &outcome, 0), child);
        cr_assert_eq(outcome, 0);
        cr_assert_eq(cache_files(true), !dies, "no lock is left behind");
        free(got);
    }
}

Test(cache, without_a_folder_there_are_no_turns, .init = cache_begin, .fini = cache_end)
{
    struct program_key key = cache_key_of("a program");

    setenv("BP_XPU_CACHE", "/proc/self/cache", 1);
    cr_assert_eq(program_cache_begin(&key), -1);
    setenv("BP_XPU_CACHE", "", 1);
    cr_assert_eq(program_cache_begin(&key), -1);
}

Test(cache, a_full_disk_leaves_nothing_behind, .init = cache_begin, .fini = cache_end)
{
    struct rlimit limit = {4096, 4096};
    struct program_key key = cache_key_of("a program");
    unsigned char *binary = calloc(1, 65536);
    size_t size = 0;

    signal(SIGXFSZ, SIG_IGN); /* then write fails as on a full disk: it writes less, then fails */
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    program_cache_write(&key, binary, 65536);
    cr_assert_eq(cache_files(false), 0);
    cr_assert_null(program_cache_read(&key, &size));
    program_cache_write(&key, binary, 1024);
    cr_assert_eq(cache_files(false), 1);
    free(binary);
}
