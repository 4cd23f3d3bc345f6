/* SPDX-License-Identifier: Apache-2.0 */
/* net_module.c: the network module: found where plugins are, opened once and for good, with the
 * process's signal handlers left as they were. */
#include "net_comm.h"

#include "../../plugin/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const folders[] = {"", "ucx/"}; /* of an install, and of the build */
#define LIBRARY "bp_net_ucx.so"
#define ADVICE \
    "ranks on several hosts need UCX: Debian's libucx0, and a Backplane built with libucx-dev"

/* Whether the file is there. */
static char *find_in(const char *directory)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path;
        if (asprintf(&path, "%s/%s" LIBRARY, directory, folders[i]) < 0) return NULL;
        if (!access(path, F_OK)) {
            char *whole = realpath(path, NULL);
            free(path);
            return whole;
        }
        free(path);
    }
    return NULL;
}

static char *find_library(void)
{
    const char *list = bp_env("BP_PLUGIN_PATH");
    char *own = bp_path_own(), *beside = own ? bp_path_join(own, "backplane") : NULL, *found = NULL;

    while (list && *list && !found) {
        size_t length = strcspn(list, ":");
        char *word = *list == '/' ? strndup(list, length) : NULL;
        if (word) found = find_in(word);
        free(word);
        list += length + (list[length] == ':');
    }
    if (!found && beside) found = find_in(beside);
    free(beside);
    free(own);
    return found;
}

/* UCX puts handlers of its own in front of the app's when it is opened. */
static void take_back_signals(const struct sigaction *before)
{
    for (int i = 1; i < NSIG; i++) {
        struct sigaction now;
        Dl_info info;
        if (sigaction(i, NULL, &now) || now.sa_handler == before[i].sa_handler) continue;
        if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) continue;
        if (dladdr((void *)(uintptr_t)now.sa_handler, &info) && info.dli_fname &&
            strstr(info.dli_fname, "/libuc"))
            sigaction(i, &before[i], NULL);
    }
}

static void *open_quietly(const char *path, bool *out_opened, char **out_why)
{
    struct sigaction before[NSIG];
    void *symbol;

    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &before[i])) before[i].sa_handler = SIG_DFL;
    symbol = bp_library_symbol(path, "bp_net_get", out_opened, out_why);
    take_back_signals(before);
    return symbol;
}

static enum bp_status open_module(const struct bp_net **out_net)
{
    const struct bp_net *(*get)(uint32_t);
    struct bp_refusal refusal = {0};
    char *path = find_library(), *why = NULL;
    enum bp_status status = BP_OK;
    struct stat file;
    bool opened = false;
    void *symbol = NULL;

    if (!path)
        return bp_error(BP_ERR_NOT_FOUND, "bp_comm_create: there is no " LIBRARY ": " ADVICE);
    if (!bp_trust_check(path, &file, &refusal))
        status = bp_error(BP_ERR_UNSUPPORTED, "bp_comm_create: %s",
                          refusal.text ? refusal.text : path);
    else
        symbol = open_quietly(path, &opened, &why);
    *(void **)&get = symbol;
    if (!status && !opened)
        status = bp_error(BP_ERR_NOT_FOUND, "bp_comm_create: %s; " ADVICE, why ? why : path);
    else if (!status && (!symbol || !(*out_net = get(BP_NET_VERSION))))
        status = bp_error(BP_ERR_UNSUPPORTED, "bp_comm_create: %s is of another version", path);
    free(refusal.text);
    free(path);
    free(why);
    return status;
}

enum bp_status bp_net_open(const struct bp_net **out_net)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct bp_net *net;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&lock);
    if (!net) status = open_module(&net);
    if (status == BP_OK) *out_net = net;
    pthread_mutex_unlock(&lock);
    return status;
}
