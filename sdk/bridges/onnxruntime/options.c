/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: reads the options of a session: those of the provider, by names that begin with its
 * prefix, and those about models of compiled nodes. */
#include "ort.h"

#include <stdio.h>
#include <string.h>

/* Reads an option; it keeps its value if the session does not have it. */
static struct ort_status *option_read(const struct ort_session_options *from, const char *prefix,
                                      const char *name, char *out, size_t size)
{
    char key[96], text[1024];
    size_t n = sizeof text;
    int32_t has = 0;

    snprintf(key, sizeof key, "%s%s", prefix, name);
    TRY(ort.option_has(from, key, &has));
    if (!has) return NULL;
    TRY(ort.option_get(from, key, text, &n));
    text[sizeof text - 1] = 0;
    if (strlen(text) >= size)
        return ort_error(ORT_INVALID_ARGUMENT, "Backplane: option %s: the value is too long", key);
    memcpy(out, text, strlen(text) + 1);
    return NULL;
}

/* Whether a text is one of the words, which '|' separates. */
static bool word_find(const char *words, const char *text)
{
    size_t n = strlen(text);

    for (const char *at = words; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == n && !memcmp(at, text, n)) return true;
    }
    return false;
}

static struct ort_status *option_check(const char *name, const char *text, const char *words)
{
    if (word_find(words, text)) return NULL;
    return ort_error(ORT_INVALID_ARGUMENT, "Backplane: option %s is '%.40s', expected one of %s",
                     name, text, words);
}

static struct ort_status *option_flag(const struct ort_session_options *from, const char *prefix,
                                      const char *name, bool *out)
{
    char text[8] = "";

    TRY(option_read(from, prefix, name, text, sizeof text));
    if (!*text) return NULL;
    TRY(option_check(name, text, "0|1"));
    *out = *text == '1';
    return NULL;
}

/* Fails if the session has an option of the provider that is not one of the words. */
static struct ort_status *options_check_names(const struct ort_session_options *from,
                                              const char *words)
{
    const char *const *key = NULL, *const *value = NULL;
    struct ort_status *status = NULL;
    struct ort_pairs *all = NULL;
    size_t n = 0;

    TRY(ort.options_list(from, &all));
    ort.pairs_list(all, &key, &value, &n);
    for (size_t i = 0; i < n && !status; i++) {
        const char *name = key[i] + sizeof ORT_PREFIX - 1;
        if (strncmp(key[i], ORT_PREFIX, sizeof ORT_PREFIX - 1) || word_find(words, name)) continue;
        status = ort_error(ORT_INVALID_ARGUMENT, "Backplane: there is no option '%.40s'; expected "
                           "one of %s", name, words);
    }
    ort.pairs_release(all);
    return status;
}

struct ort_status *ort_options_read(const struct ort_session_options *from, struct ort_options *out)
{
    TRY(options_check_names(from, "device|fallback|precision|cache|tune"));
    *out = (struct ort_options){.fallback = "allow", .precision = "exact"};
    TRY(option_read(from, ORT_PREFIX, "device", out->device, sizeof out->device));
    TRY(option_read(from, ORT_PREFIX, "fallback", out->fallback, sizeof out->fallback));
    TRY(option_check("fallback", out->fallback, "allow|deny"));
    TRY(option_read(from, ORT_PREFIX, "precision", out->precision, sizeof out->precision));
    TRY(option_check("precision", out->precision, "exact|winograd"));
    TRY(option_read(from, ORT_PREFIX, "cache", out->cache, sizeof out->cache));
    TRY(option_flag(from, ORT_PREFIX, "tune", &out->tune));
    TRY(option_flag(from, "ep.", "context_enable", &out->context_enable));
    TRY(option_flag(from, "ep.", "context_embed_mode", &out->context_embed));
    return option_read(from, "ep.", "context_file_path", out->context_path,
                       sizeof out->context_path);
}
