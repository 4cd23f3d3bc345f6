/* SPDX-License-Identifier: Apache-2.0 */
/* test_nodes.c: tests the advice about device nodes that a user may not use. Prints TAP. */
#include "../../plugins/npu/nodes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    USER = 65534
};

static int number, failed;

static void node_check(bool good, const char *title)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++number, title);
    failed += !good;
}

static void node_make(const char *folder, const char *name, mode_t mode)
{
    char path[256];
    int file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = open(path, O_CREAT | O_WRONLY, mode);
    if (file < 0) exit(3);
    close(file);
    chmod(path, mode);
}

/* Runs the check as a user without rights: the administrator may use each node. */
static int checked_as_user(const char *folder, const char *expected)
{
    char text[600] = "";
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        if (geteuid() == 0 && setuid(USER)) _exit(3);
        if (!npu_nodes_advice(folder, text, sizeof text)) _exit(expected != NULL);
        _exit(!expected || !strstr(text, expected));
    }
    waitpid(child, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 4;
}

int main(void)
{
    static const char *const left[] = {"davinci0", "davinci1", "other"};
    char folder[] = "/tmp/npu-nodes-XXXXXX", path[300];

    if (!mkdtemp(folder)) return 3;
    chmod(folder, 0755);
    printf("1..4\n");
    node_check(!checked_as_user("/nowhere/at/all", NULL), "no folder, no advice");
    node_make(folder, "davinci0", 0666);
    node_make(folder, "other", 0);
    node_check(!checked_as_user(folder, NULL), "a node that everybody may use, no advice");
    node_make(folder, "davinci_manager", 0440);
    node_check(!checked_as_user(folder, "davinci_manager: add the user to the group"),
               "a node that may be read only");
    snprintf(path, sizeof path, "%s/davinci_manager", folder);
    unlink(path);
    node_make(folder, "davinci1", 0);
    node_check(!checked_as_user(folder, "davinci1"), "a node that may not be used");
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, left[i]);
        unlink(path);
    }
    rmdir(folder);
    return failed > 0;
}
