/* SPDX-License-Identifier: Apache-2.0 */
/* trust.c: checks which users can write to a plugin's file, before any of its contents are used.
 *
 * The check covers the path, not only one open file. If the file and every directory above it
 * belong to root or to the user of this process, and no other user can write to them, then no other
 * user can replace the file between the check and its use, nor put another library beside it. Links
 * are refused, because the target of each link would need the same check. */
#include "loader.h"
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Whether the file may have an access control list. In that case the group bits of the mode are the
 * maximum of the rights that the list grants. (For NFSv4 lists the mode is as the server reports
 * it.) */
static bool trust_may_have_acl(const char *part)
{
    if (lgetxattr(part, "system.posix_acl_access", NULL, 0) >= 0) return true;
    return errno != ENODATA && errno != ENOTSUP;
}

/* Whether gid is the user's private group, with the user's name and no other member. Distributions
 * that create one for each user make new files writable by this group. Always false in a set-uid
 * process. */
static bool trust_is_private_group(gid_t gid)
{
    char user_text[4096], group_text[4096];
    struct passwd user, *got_user;
    struct group group, *got_group;

    if (getauxval(AT_SECURE)) return false;
    if (getpwuid_r(geteuid(), &user, user_text, sizeof user_text, &got_user) || !got_user)
        return false;
    if (user.pw_gid != gid) return false;
    if (getgrgid_r(gid, &group, group_text, sizeof group_text, &got_group) || !got_group)
        return false;
    if (strcmp(group.gr_name, user.pw_name)) return false;
    for (char **member = group.gr_mem; *member; member++)
        if (strcmp(*member, user.pw_name)) return false;
    return true;
}

static bool refuse_link(const char *path, const char *part, struct bp_refusal *why)
{
    char to[1024], *full = realpath(part, NULL);
    char shown[BP_SHOWN_PATH], shown_to[BP_SHOWN_PATH], shown_full[BP_SHOWN_PATH];
    ssize_t length = readlink(part, to, sizeof to - 1);

    to[length < 0 ? 0 : length] = 0;
    bp_broken(why, path,
              "%s is a symbolic link: expected a path without links, got a link to %s; name %s "
              "instead",
              bp_show(shown, sizeof shown, part), bp_show(shown_to, sizeof shown_to, to),
              bp_show(shown_full, sizeof shown_full, full ? full : "what it should lead to"));
    free(full);
    return false;
}

/* Checks that only root and the user can write to a file or directory. */
static bool check_writers(const char *path, const char *part, bool holds, const struct stat *file,
                          struct bp_refusal *why)
{
    mode_t others = file->st_mode & (S_IWGRP | S_IWOTH);
    char shown[BP_SHOWN_PATH];

    if (file->st_uid != 0 && file->st_uid != geteuid())
        return bp_broken(why, path,
                         "%s belongs to another user: expected user 0 or %u, got user %u; "
                         "install the plugin as root or as yourself",
                         bp_show(shown, sizeof shown, part), (unsigned)geteuid(),
                         (unsigned)file->st_uid);

    if (others == S_IWGRP && trust_is_private_group(file->st_gid) && !trust_may_have_acl(part))
        others = 0;
    /* In a sticky directory only the owner of a file and the directory's owner can replace the
     * file; the check of the next component covers the file's owner. But in the directory that
     * holds the plugin any user could put a library beside the plugin. */
    if (others && S_ISDIR(file->st_mode) && file->st_mode & S_ISVTX && !holds) others = 0;
    if (!others) return true;
    bp_show(shown, sizeof shown, part);
    return bp_broken(why, path,
                     "%s can be changed by other users: expected mode %04o, got %04o; %s %s", shown,
                     (unsigned)(file->st_mode & 07777 & ~(mode_t)(S_IWGRP | S_IWOTH)),
                     (unsigned)(file->st_mode & 07777),
                     file->st_mode & S_ISVTX ? "keep plugins in a directory of their own, not in"
                                             : "run: chmod go-w",
                     shown);
}

/* Checks one component of the path. last: it is the file; holds: it is the directory of the
 * file. */
static bool check_part(const char *path, const char *part, bool last, bool holds, struct stat *file,
                       struct bp_refusal *why)
{
    char shown[BP_SHOWN_PATH];

    if (lstat(part, file))
        return bp_broken(why, path,
                         "%s cannot be examined: expected a %s, got \"%s\"; install it there "
                         "or correct the path",
                         bp_show(shown, sizeof shown, part), last ? "regular file" : "directory",
                         strerror(errno));
    if (S_ISLNK(file->st_mode)) return refuse_link(path, part, why);
    if (last ? !S_ISREG(file->st_mode) : !S_ISDIR(file->st_mode))
        return bp_broken(why, path,
                         "%s is of the wrong type: expected a %s, got %s; correct the path",
                         bp_show(shown, sizeof shown, part), last ? "regular file" : "directory",
                         S_ISDIR(file->st_mode)   ? "a directory"
                         : S_ISREG(file->st_mode) ? "a regular file"
                                                  : "a special file");
    return check_writers(path, part, holds, file, why);
}

/* Checks the path itself. A control character could split a message into two lines, or forge a line
 * of /proc/self/maps. */
static bool trust_check_path(const char *path, struct bp_refusal *why)
{
    char shown[BP_SHOWN_PATH];

    if (path[0] != '/' || bp_path_has_parent(path))
        return bp_broken(why, path,
                         "its path does not lead down from the root: expected an absolute path "
                         "without \"..\", got \"%s\"; write it out",
                         bp_show(shown, sizeof shown, path));
    if (bp_path_has_control(path))
        return bp_broken(why, path,
                         "its path has control characters: expected a path without, got one with; "
                         "rename what is called so");
    return true;
}

bool bp_trust_check(const char *path, struct stat *out_file, struct bp_refusal *why)
{
    size_t length = strlen(path), base = (size_t)(bp_path_basename(path) - path);
    char *part = strdup(path);
    struct stat file;
    bool good;

    if (!part) return bp_no_memory(why, path);
    good = trust_check_path(path, why);

    /* Checks "/", "/a", "/a/b": each prefix that ends before a '/', and the whole path. */
    for (size_t at = 1; good && at <= length; at++) {
        if (at != 1 && path[at] != '/' && path[at]) continue;
        memcpy(part, path, at);
        part[at] = 0;
        good = check_part(path, part, at == length, at == (base > 1 ? base - 1 : 1), &file, why);
    }
    free(part);
    if (good) *out_file = file;
    return good;
}
