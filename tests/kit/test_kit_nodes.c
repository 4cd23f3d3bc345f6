/* SPDX-License-Identifier: Apache-2.0 */
/* test_kit_nodes.c: tests the advice about device nodes that a user may not use. Prints TAP. */
#include <kit/nodes.h>

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

/* Runs the check as a user without rights, because the administrator may use each node. */
static int checked_as_user(const char *nodes, const char *expected)
{
    char text[KIT_ADVICE_SIZE] = "not changed";
    int state = 0;
    pid_t child;

    fflush(stdout); /* ThreadSanitizer's _exit writes what the child has of it */
    child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(USER)) _exit(3);
        if (kit_nodes_advice("mydev", nodes, text) != (expected != NULL)) _exit(1);
        _exit(expected ? !strstr(text, expected) : *text != 0);
    }
    waitpid(child, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 4;
}

int main(void)
{
    static const char *const left[] = {"dev0", "dev1", "devctl", "other"};
    char folder[] = "/tmp/kit-nodes-XXXXXX", path[300], nodes[700], longer[KIT_PATH_SIZE + 300];

    if (!mkdtemp(folder)) return 3;
    chmod(folder, 0755);
    snprintf(nodes, sizeof nodes, "/nowhere/at/all:%s/dev[0-9c]*:%s", folder, folder);
    printf("1..7\n");
    node_check(!checked_as_user("/nowhere/at/all", NULL), "no node, no advice");
    node_make(folder, "dev0", 0666);
    node_make(folder, "other", 0);
    node_check(!checked_as_user(nodes, NULL), "a node that everybody may use, and a folder");
    node_make(folder, "devctl", 0440);
    node_check(!checked_as_user(nodes, "devctl: add the user to the group of the node"),
               "a node that may be read only");
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "/", 1);
    snprintf(longer + KIT_PATH_SIZE + 1, 299, ":%s/devctl", folder);
    node_check(!checked_as_user(longer, "devctl"), "a pattern that is too long is left out");
    snprintf(path, sizeof path, "%s/devctl", folder);
    setenv("BP_MYDEV_NODES", path, 1);
    node_check(!checked_as_user("/nowhere", "devctl"), "a setting replaces the patterns");
    unsetenv("BP_MYDEV_NODES");
    unlink(path);
    node_check(!checked_as_user(nodes, NULL), "without that node there is no advice");
    node_make(folder, "dev1", 0);
    node_check(!checked_as_user(nodes, "dev1: add"), "a node that may not be used");
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, left[i]);
        unlink(path);
    }
    rmdir(folder);
    return failed > 0;
}
