/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c: reads the JSON file that announces a plugin. The file is untrusted: it must be small,
 * flat and complete, otherwise the message names the key, the expected value and the actual
 * value. */
#include "loader.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_SIZE = 64 * 1024,
    MAX_LEVELS = 8,
    MAX_FEATURES = 64,
    MANIFEST_FORMAT = 1,
};

bool bp_name_is_valid(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

bool bp_version_is_valid(const char *text)
{
    size_t length = 0;

    for (; text[length]; length++)
        if (text[length] <= ' ' || text[length] > '~' || length == 63) return false;
    return length > 0;
}

static bool library_is_valid(const char *path)
{
    return !bp_path_has_control(path) && bp_path_has_suffix(path, ".so") &&
           strcmp(bp_path_basename(path), ".so") && strlen(path) < 4096 &&
           !bp_path_has_parent(path);
}

/* The result of reading one value. READ_BAD: the value is not valid for its key. */
enum outcome {
    READ_GOOD,
    READ_BAD,
    READ_MEMORY
};

static bool read_whole(const cJSON *item, int64_t low, int64_t high, int64_t *out)
{
    if (!cJSON_IsNumber(item) ||
        !(item->valuedouble >= (double)low && item->valuedouble <= (double)high))
        return false;
    *out = (int64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

static enum outcome read_string(const cJSON *item, bool (*is_valid)(const char *), char **out)
{
    if (!cJSON_IsString(item) || !is_valid(item->valuestring)) return READ_BAD;
    *out = strdup(item->valuestring);
    return *out ? READ_GOOD : READ_MEMORY;
}

static enum outcome read_format(const cJSON *item, struct bp_manifest *out)
{
    int64_t format;
    (void)out;
    return read_whole(item, MANIFEST_FORMAT, MANIFEST_FORMAT, &format) ? READ_GOOD : READ_BAD;
}

static enum outcome read_name(const cJSON *item, struct bp_manifest *out)
{
    return read_string(item, bp_name_is_valid, &out->name);
}

static enum outcome read_kind(const cJSON *item, struct bp_manifest *out)
{
    return read_string(item, bp_name_is_valid, &out->kind);
}

static enum outcome read_adds_to(const cJSON *item, struct bp_manifest *out)
{
    return read_string(item, bp_name_is_valid, &out->adds_to);
}

static enum outcome read_library(const cJSON *item, struct bp_manifest *out)
{
    return read_string(item, library_is_valid, &out->library);
}

static enum outcome read_abi(const cJSON *item, struct bp_manifest *out)
{
    int64_t major, minor;

    if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 2) return READ_BAD;
    if (!read_whole(cJSON_GetObjectItemCaseSensitive(item, "major"), 0, 65535, &major))
        return READ_BAD;
    if (!read_whole(cJSON_GetObjectItemCaseSensitive(item, "minor"), 0, 65535, &minor))
        return READ_BAD;
    out->abi_major = (uint32_t)major;
    out->abi_minor = (uint32_t)minor;
    return READ_GOOD;
}

static enum outcome read_version(const cJSON *item, struct bp_manifest *out)
{
    return read_string(item, bp_version_is_valid, &out->version);
}

static enum outcome read_priority(const cJSON *item, struct bp_manifest *out)
{
    return read_whole(item, -1000000, 1000000, &out->priority) ? READ_GOOD : READ_BAD;
}

static enum outcome read_features(const cJSON *item, struct bp_manifest *out)
{
    int count = cJSON_GetArraySize(item);
    const cJSON *word;

    if (!cJSON_IsArray(item) || count > MAX_FEATURES) return READ_BAD;
    if (!count) return READ_GOOD;
    out->cpu_features = calloc((size_t)count, sizeof *out->cpu_features);
    if (!out->cpu_features) return READ_MEMORY;
    cJSON_ArrayForEach(word, item)
    {
        enum outcome outcome = read_string(word, bp_version_is_valid,
                                           &out->cpu_features[out->n_cpu_features]);
        if (outcome) return outcome;
        out->n_cpu_features++;
    }
    return READ_GOOD;
}

static bool hash_is_valid(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdefABCDEF") == 64;
}

static enum outcome read_sha256(const cJSON *item, struct bp_manifest *out)
{
    return read_string(item, hash_is_valid, &out->sha256);
}

#define ANEW "write it anew with: bp manifest FILE.so"
static const struct key {
    const char *name, *expected, *advice;
    bool required;
    enum outcome (*read)(const cJSON *item, struct bp_manifest *out);
} keys[] = {
    {"manifest", "1", "install a library that is as new as the plugin, or " ANEW, true,
     read_format},
    {"name", "lower-case letters, digits and '_', at most 63", ANEW, true, read_name},
    {"kind", "lower-case letters, digits and '_', at most 63", ANEW, false, read_kind},
    {"adds_to", "the kind of another plugin's devices", ANEW, false, read_adds_to},
    {"library", "a path that ends in .so, without \"..\"",
     "name the library beside the manifest, or its absolute path", true, read_library},
    {"abi", "{\"major\": number, \"minor\": number}", ANEW, true, read_abi},
    {"version", "1 to 63 characters without spaces", ANEW, true, read_version},
    {"priority", "a whole number from -1000000 to 1000000", "correct it or leave it out", false,
     read_priority},
    {"cpu_features", "at most 64 words as in the flags of /proc/cpuinfo",
     "correct it or leave it out", false, read_features},
    {"sha256", "64 hexadecimal digits", "correct it with: sha256sum FILE.so", false, read_sha256},
};
enum {
    KEYS = sizeof keys / sizeof *keys
};

/* Describes a value of a manifest for a message. */
static const char *manifest_describe(const cJSON *item, struct bp_quote *quote)
{
    if (!item) return "nothing";
    if (cJSON_IsString(item)) return bp_quote(quote, item->valuestring);
    if (cJSON_IsNumber(item)) {
        snprintf(quote->text, sizeof quote->text, "%.15g", item->valuedouble);
        return quote->text;
    }
    if (cJSON_IsObject(item)) return "another object";
    if (cJSON_IsArray(item)) return "another array";
    return cJSON_IsNull(item) ? "null" : cJSON_IsTrue(item) ? "true" : "false";
}

/* Checks that no key occurs twice. out_ignored: the first unknown key. */
static bool check_keys(const char *path, const cJSON *root, const char **out_ignored,
                       struct bp_refusal *why)
{
    uint32_t seen = 0;
    struct bp_quote quote;
    const cJSON *item;

    cJSON_ArrayForEach(item, root)
    {
        unsigned i = 0;
        while (i < KEYS && strcmp(keys[i].name, item->string)) i++;
        if (i == KEYS && !*out_ignored) *out_ignored = item->string;
        if (i < KEYS && seen & 1u << i)
            return bp_broken(
                why, path,
                "the key %s stands there twice: expected it once, got %s as well; remove one",
                keys[i].name, manifest_describe(item, &quote));
        if (i < KEYS) seen |= 1u << i;
    }
    return true;
}

static bool read_keys(const char *path, const cJSON *root, struct bp_manifest *out,
                      struct bp_refusal *why)
{
    for (const struct key *key = keys; key < keys + KEYS; key++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key->name);
        enum outcome outcome = READ_BAD;
        struct bp_quote quote;

        if (!item && !key->required) continue;
        if (item) outcome = key->read(item, out);
        if (outcome == READ_MEMORY) return bp_no_memory(why, path);
        if (outcome == READ_BAD)
            return bp_broken(why, path, "the key %s is %s: expected %s, got %s; %s", key->name,
                             item ? "wrong" : "missing", key->expected,
                             manifest_describe(item, &quote), key->advice);
    }
    return true;
}

/* A plugin has devices of a kind, or it is an add-on: exactly one of two keys is there. */
static bool check_kind(const char *path, struct bp_manifest *out, struct bp_refusal *why)
{
    if (out->kind && out->adds_to)
        return bp_broken(why, path,
                         "the keys kind and adds_to exclude each other: expected adds_to alone in "
                         "the manifest of an add-on, got both; " ANEW);
    if (!out->kind && !out->adds_to)
        return bp_broken(why, path,
                         "the key kind is missing: expected lower-case letters, digits and '_', at "
                         "most 63, or adds_to in its place, got nothing; " ANEW);
    if (!out->kind) out->kind = strdup("");
    return out->kind || bp_no_memory(why, path);
}

/* Makes library an absolute path: a relative one is relative to the manifest's directory. */
static bool place_library(const char *path, struct bp_manifest *out, struct bp_refusal *why)
{
    char *directory = bp_path_dirname(path), *joined = NULL, *clean;

    if (out->library[0] != '/' && directory) joined = bp_path_join(directory, out->library);
    clean = out->library[0] == '/' ? bp_path_normalize(out->library)
            : joined               ? bp_path_normalize(joined)
                                   : NULL;
    free(directory);
    free(joined);
    if (!clean) return bp_no_memory(why, path);
    free(out->library);
    out->library = clean;
    return true;
}

/* Checks the nesting before parsing, because cJSON recurses once for each level. Brackets in
 * strings do not count. */
static bool check_levels(const char *path, const char *text, size_t size, struct bp_refusal *why)
{
    bool quoted = false;
    int level = 0;

    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\') i++;
        else if (text[i] == '"') quoted = !quoted;
        else if (!quoted && (text[i] == '{' || text[i] == '[')) level++;
        else if (!quoted && (text[i] == '}' || text[i] == ']')) level--;
        if (level > MAX_LEVELS)
            return bp_broken(
                why, path,
                "nested too deeply: expected at most %d levels, got more at byte %zu; " ANEW,
                MAX_LEVELS, i);
    }
    return true;
}

/* cJSON returns a string only up to its first NUL: without this check "m\\u0000x" would count as
 * "m". */
static bool check_nul(const char *path, const char *text, size_t size, struct bp_refusal *why)
{
    bool quoted = false;

    for (size_t i = 0; i < size; i++) {
        size_t left = size - i;
        bool escaped = quoted && text[i] == '\\';
        if (!text[i] || (escaped && left >= 6 && !memcmp(text + i, "\\u0000", 6)))
            return bp_broken(why, path,
                             "a NUL character is in it: expected text without one, got one at "
                             "byte %zu; " ANEW,
                             i);
        if (escaped) i++;
        else if (text[i] == '"') quoted = !quoted;
    }
    return true;
}

static pthread_mutex_t json_lock = PTHREAD_MUTEX_INITIALIZER;

void bp_manifest_after_fork(void)
{
    pthread_mutex_init(&json_lock, NULL);
}

static cJSON *parse_json(const char *path, const char *text, size_t size, struct bp_refusal *why)
{
    const char *end = text;
    size_t line = 1, at;
    cJSON *root;

    /* cJSON also writes the position of an error to a global variable, so calls are serialized. It
     * reports a lack of memory by errno only. */
    errno = 0;
    pthread_mutex_lock(&json_lock);
    root = cJSON_ParseWithLengthOpts(text, size, &end, false);
    pthread_mutex_unlock(&json_lock);

    at = (size_t)(end - text);
    if (root)
        while (at < size && text[at] && strchr(" \t\r\n", text[at])) at++;
    if (root && at == size && cJSON_IsObject(root)) return root;
    if (!root && errno == ENOMEM) {
        bp_no_memory(why, path);
        return NULL;
    }
    for (size_t i = 0; i < at && i < size; i++) line += text[i] == '\n';
    bp_broken(why, path, "not a manifest: expected one JSON object, got %s at line %zu; " ANEW,
              !size                ? "an empty file"
              : root && at == size ? "another value"
              : root               ? "more text"
                                   : "an error",
              line);
    cJSON_Delete(root);
    return NULL;
}

bool bp_manifest_parse(const char *path, const char *text, size_t size, struct bp_manifest *out,
                       struct bp_refusal *why)
{
    const char *ignored = NULL;
    cJSON *root = NULL;
    bool good;

    *out = (struct bp_manifest){0};
    if (size > MAX_SIZE)
        return bp_broken(why, path, "too large: expected at most %d bytes, got %zu; " ANEW,
                         MAX_SIZE, size);
    good = check_levels(path, text, size, why) && check_nul(path, text, size, why) &&
           (root = parse_json(path, text, size, why)) && check_keys(path, root, &ignored, why) &&
           read_keys(path, root, out, why) && check_kind(path, out, why) &&
           place_library(path, out, why);
    if (good && ignored && !(out->ignored = strdup(ignored))) good = bp_no_memory(why, path);
    cJSON_Delete(root);
    if (!good) bp_manifest_finish(out);
    return good;
}

bool bp_manifest_read(const char *path, struct bp_manifest *out, struct bp_refusal *why)
{
    struct stat file = {0};
    char *text = NULL;
    bool good = false;
    ssize_t size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    *out = (struct bp_manifest){0};
    if (fd < 0 || fstat(fd, &file))
        bp_broken(why, path,
                  "cannot be opened: expected a readable manifest, got \"%s\"; correct its "
                  "permissions",
                  strerror(errno));
    else if (file.st_size > MAX_SIZE)
        bp_broken(why, path, "too large: expected at most %d bytes, got %lld; " ANEW, MAX_SIZE,
                  (long long)file.st_size);
    else if (!(text = malloc(MAX_SIZE + 1))) bp_no_memory(why, path);
    else if ((size = read(fd, text, MAX_SIZE + 1)) <
             0) /* one call reads all of a small regular file */
        bp_broken(
            why, path,
            "cannot be read: expected a readable manifest, got \"%s\"; correct its permissions",
            strerror(errno));
    else good = bp_manifest_parse(path, text, (size_t)size, out, why);
    free(text);
    if (fd >= 0) close(fd);
    return good;
}

void bp_manifest_finish(struct bp_manifest *manifest)
{
    for (uint32_t i = 0; i < manifest->n_cpu_features; i++) free(manifest->cpu_features[i]);
    free(manifest->cpu_features);
    free(manifest->name);
    free(manifest->kind);
    free(manifest->adds_to);
    free(manifest->version);
    free(manifest->library);
    free(manifest->sha256);
    free(manifest->ignored);
    *manifest = (struct bp_manifest){0};
}
