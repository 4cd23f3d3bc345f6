/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_kit.c: implements plugin_kit.h. HOSTILE_DIR is the build folder of the hostile plugins. */
#include "plugin_kit.h"
#include "../../core/plugin/loader.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <link.h>
#include <stdarg.h>
#include <unistd.h>

char *kit_keep(char *text)
{
    static char **kept;
    static size_t count;

    kept = realloc(kept, (count + 1) * sizeof *kept);
    cr_assert(kept && text);
    return kept[count++] = text;
}

char *kit_format(const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    cr_assert(vasprintf(&text, format, args) >= 0);
    va_end(args);
    return kit_keep(text);
}

char *kit_create(void)
{
    const char *base = getenv("TMPDIR");
    char *real = realpath(base && *base ? base : "/tmp", NULL);
    char *directory;

    cr_assert(real, "no directory for temporary files");
    directory = kit_format("%s/bp-test-XXXXXX", real);
    cr_assert(mkdtemp(directory), "no directory can be made in %s", real);
    free(real);
    return directory;
}

static int remove_one(const char *path, const struct stat *file, int type, struct FTW *where)
{
    (void)file;
    (void)type;
    (void)where;
    return remove(path);
}

void kit_destroy(const char *directory)
{
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

bool kit_is_refused(int result)
{
    cr_assert(!result || errno == EPERM || errno == EINVAL, "%s", strerror(errno));
    return result != 0;
}

void kit_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "we");

    cr_assert(file, "%s cannot be written", path);
    cr_assert_eq(fwrite(data, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(chmod(path, 0644), 0);
}

void kit_copy(const char *from, const char *to)
{
    FILE *file = fopen(from, "re");
    char *data;
    long size;

    cr_assert(file, "%s is not there", from);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    data = malloc((size_t)size + 1);
    cr_assert(data && fread(data, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    kit_write(to, data, (size_t)size);
    free(data);
}

void kit_patch(const char *path, long at, const void *data, size_t size)
{
    FILE *file = fopen(path, "r+e");

    cr_assert(file && !fseek(file, at, SEEK_SET) && fwrite(data, 1, size, file) == size &&
              !fclose(file));
}

void kit_library(const char *directory, const char *name)
{
    kit_copy(kit_format("%s/bp_%s.so", HOSTILE_DIR, name),
             kit_format("%s/bp_%s.so", directory, name));
}

void kit_manifest(const char *directory, const char *name)
{
    kit_copy(kit_format("%s/bp_%s.json", HOSTILE_DIR, name),
             kit_format("%s/bp_%s.json", directory, name));
}

void kit_plugin(const char *directory, const char *name)
{
    kit_library(directory, name);
    kit_manifest(directory, name);
}

static void take_log(void *ctx, uint32_t level, const char *text)
{
    struct kit_log *log = ctx;

    log->count[level & 3]++;
    snprintf(log->text[level & 3], sizeof log->text[0], "%s", text);
}

struct bp_core *kit_core(struct kit_log *log, const char *path, const char *plugins)
{
    struct bp_core_options options = {.size = sizeof options,
                                      .log = take_log,
                                      .log_ctx = log,
                                      .plugin_path = path,
                                      .plugins = plugins};
    struct bp_core *core;

    *log = (struct kit_log){0};
    setenv("BP_LOG", "info", 1);
    OK(bp_core_create(&options, &core));
    return core;
}

uint32_t kit_find(struct bp_core *core, const char *name)
{
    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        OK(bp_core_plugin(core, i, &info));
        if (!strcmp(info.name, name)) return i;
    }
    return UINT32_MAX;
}

struct bp_plugin_info kit_info(struct bp_core *core, const char *name)
{
    struct bp_plugin_info info = {.size = sizeof info};

    OK(bp_core_plugin(core, kit_find(core, name), &info));
    return info;
}

static const char *own_machine(void)
{
#if defined(__x86_64__)
    return "x86-64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "?";
#endif
}

static const char *sanitizer_name(unsigned build)
{
    return build & BP_BUILD_ASAN   ? "AddressSanitizer"
           : build & BP_BUILD_TSAN ? "ThreadSanitizer"
                                   : "no sanitizer";
}

/* Returns the end of the last part of a built plugin that the loader maps. */
static unsigned long long needed_bytes(const char *name)
{
    FILE *file = fopen(kit_format("%s/bp_%s.so", HOSTILE_DIR, name), "re");
    unsigned long long needed = 0;
    ElfW(Ehdr) head;
    ElfW(Phdr) part;

    cr_assert(file && fread(&head, sizeof head, 1, file) == 1 &&
              !fseek(file, (long)head.e_phoff, SEEK_SET));
    for (unsigned i = 0; i < head.e_phnum; i++) {
        cr_assert_eq(fread(&part, sizeof part, 1, file), 1);
        if (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > needed)
            needed = part.p_offset + part.p_filesz;
    }
    fclose(file);
    return needed;
}

/* Returns the expected message with its placeholders filled in. */
static char *plugin_kit_expand(const struct kit_case *hostile, const char *directory)
{
    char *library = kit_format("%s/bp_%s.so", directory, hostile->name), hash[65] = "",
         *text = kit_format("%s", "");
    int fd = open(library, O_RDONLY | O_CLOEXEC);

    if (strstr(hostile->message, "{H}")) cr_assert(bp_sha256_fd(fd, hash));
    if (fd >= 0) close(fd);
    for (const char *at = hostile->message; *at; at++) {
        if (at[0] != '{' || !at[1] || at[2] != '}') {
            text = kit_format("%s%c", text, *at);
            continue;
        }
        at += 2;
        text = at[-1] == 'D'   ? kit_format("%s%s", text, directory)
               : at[-1] == 'L' ? kit_format("%s%s", text, library)
               : at[-1] == 'J' ? kit_format("%s%s/bp_%s.json", text, directory, hostile->name)
               : at[-1] == 'U' ? kit_format("%s%u", text, (unsigned)geteuid())
               : at[-1] == 'S' ? kit_format("%s%s", text, sanitizer_name(BP_BUILD_FLAGS))
               : at[-1] == 'O'
                   ? kit_format("%s%s", text, sanitizer_name(BP_BUILD_FLAGS ^ BP_BUILD_ASAN))
               : at[-1] == 'N' ? kit_format("%s%llu", text, needed_bytes(hostile->name))
               : at[-1] == 'M' ? kit_format("%s%s", text, own_machine())
                               : kit_format("%s%s", text, hash);
    }
    return text;
}

static void check_good(struct bp_core *core, const struct kit_log *log, int errors)
{
    struct bp_device *device;

    OK(bp_device_create(core, "h_good:0", &device));
    OK(bp_device_synchronize(device));
    bp_device_destroy(device);
    cr_assert_eq(kit_info(core, "h_good").state, BP_PLUGIN_READY);
    cr_assert_eq(log->count[BP_LOG_ERROR], errors, "the good plugin: %s", log->text[BP_LOG_ERROR]);
}

void kit_check(const struct kit_case *hostile)
{
    char *directory = kit_create(), *expected;
    bool broken = hostile->status == BP_ERR_PLUGIN;
    struct kit_log log;
    struct bp_core *core;
    uint32_t index;

    if (hostile->make) hostile->make(directory);
    else kit_plugin(directory, hostile->name);
    kit_plugin(directory, "h_good");
    expected = plugin_kit_expand(hostile, directory);

    core = kit_core(&log, directory, "h_*");
    index = kit_find(core, hostile->name);
    cr_assert_neq(index, UINT32_MAX, "%s is not listed", hostile->name);
    for (int again = 0; again < 2; again++) {
        enum bp_status status = bp_core_load(core, index);
        struct bp_plugin_info info = kit_info(core, hostile->name);

        cr_assert_eq(status, hostile->status, "%s: %s", bp_status_name(status), bp_error_message());
        cr_assert_str_eq(bp_error_message(), expected);
        cr_assert_str_eq(info.reason, expected);
        cr_assert_eq(info.state, broken ? BP_PLUGIN_BROKEN : BP_PLUGIN_ABSENT);
        cr_assert_eq(info.devices, 0);
        cr_assert_eq(log.count[BP_LOG_ERROR], broken, "%d messages at error level",
                     log.count[BP_LOG_ERROR]);
        cr_assert_str_eq(log.text[broken ? BP_LOG_ERROR : BP_LOG_INFO], expected);
    }
    check_good(core, &log, broken);
    bp_core_destroy(core);
    kit_destroy(directory);
}
