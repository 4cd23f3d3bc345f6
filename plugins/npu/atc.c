/* SPDX-License-Identifier: Apache-2.0 */
/* atc.c: runs the vendor's compiler of models, a program, in a child process: it may take minutes,
 * need gigabytes, or crash. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    ATC_PATH = 512,
    ATC_POLL_NS = 20000000,
    ATC_ARGUMENTS = 8
};

/* The files of one compilation, in a folder of their own. */
struct atc_files {
    char folder[ATC_PATH], model[ATC_PATH + 16], output[ATC_PATH + 16], result[ATC_PATH + 32],
        log[ATC_PATH + 16];
};

static enum bp_status atc_files_make(const struct npu *npu, struct atc_files *f)
{
    const char *base = secure_getenv("TMPDIR");

    snprintf(f->folder, sizeof f->folder, "%s/backplane-npu-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(f->folder))
        return bp_fail(npu->host, BP_ERR_DEVICE, "npu: %s: %s", f->folder, strerror(errno));
    snprintf(f->model, sizeof f->model, "%s/model.onnx", f->folder);
    snprintf(f->output, sizeof f->output, "%s/model", f->folder);
    snprintf(f->result, sizeof f->result, "%s.om", f->output);
    snprintf(f->log, sizeof f->log, "%s/log", f->folder);
    return BP_OK;
}

/* Removes the files; others that the compiler may have left stay, in the folder. */
static void atc_files_remove(const struct atc_files *f)
{
    unlink(f->model);
    unlink(f->result);
    unlink(f->log);
    rmdir(f->folder);
}

static enum bp_status atc_write(const struct npu *npu, const char *path, const void *at, size_t n)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(at, 1, n, file) == n;

    if (file && fclose(file)) good = false;
    return good ? BP_OK : bp_fail(npu->host, BP_ERR_DEVICE, "npu: %s: %s", path, strerror(errno));
}

/* Reads a file, of at most `most` bytes; with a zero byte behind them. NULL: it cannot be read. */
static char *atc_read(const char *path, size_t most, size_t *out_n)
{
    FILE *file = fopen(path, "rb");
    struct stat state;
    char *at = NULL;

    if (file && !fstat(fileno(file), &state) && (uint64_t)state.st_size <= most)
        at = malloc((size_t)state.st_size + 1);
    if (at) {
        *out_n = fread(at, 1, (size_t)state.st_size, file);
        at[*out_n] = 0;
    }
    if (file) fclose(file);
    return at;
}

/* The compiler failed: the message has the last line of its output. */
static enum bp_status atc_failed(const struct npu *npu, const struct atc_files *f, int state)
{
    size_t n = 0;
    char *text = atc_read(f->log, 1 << 20, &n), *line = text;

    while (n && (text[n - 1] == '\n' || text[n - 1] == ' ')) text[--n] = 0;
    if (text && strrchr(text, '\n')) line = strrchr(text, '\n') + 1;
    bp_fail(npu->host, BP_ERR_DEVICE, "npu: atc ends with %s %d: %s",
            WIFSIGNALED(state) ? "signal" : "status",
            WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state), line ? line : "no output");
    free(text);
    return BP_ERR_DEVICE;
}

static enum bp_status atc_start(const struct npu *npu, const struct atc_files *f, pid_t *out)
{
    char model[ATC_PATH + 32], output[ATC_PATH + 32], product[96];
    char framework[] = "--framework=5", exact[] = "--precision_mode=must_keep_origin_dtype";
    const char *program = kit_setting("npu", "ATC");
    char *words[ATC_ARGUMENTS] = {(char *)program, framework, model, output, product, exact, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code;

    snprintf(model, sizeof model, "--model=%s", f->model);
    snprintf(output, sizeof output, "--output=%s", f->output);
    snprintf(product, sizeof product, "--soc_version=%s", npu->product);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, f->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); /* atc has children of its own */
    posix_spawnattr_setpgroup(&attributes, 0);
    code = posix_spawn(out, program, &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (!code) return BP_OK;
    return bp_fail(npu->host, BP_ERR_DEVICE, "npu: %s cannot be run: %s", program, strerror(code));
}

/* Waits for the compiler. It ends early if no thread waits for the result any more. */
static enum bp_status atc_wait(const struct npu *npu, const struct bp_engine_compile *compile,
                               pid_t child, int *out_state)
{
    const struct timespec pause = {.tv_nsec = ATC_POLL_NS};
    enum bp_status status = BP_OK;
    pid_t ended;

    while ((ended = waitpid(child, out_state, WNOHANG)) == 0 && !status) {
        if (compile->progress && compile->progress(compile->ctx, -1, "atc"))
            status = bp_fail(npu->host, BP_ERR_CANCELLED, "npu: cancelled while atc compiled");
        else if (compile->deadline_ns && kit_now_ns() >= compile->deadline_ns)
            status = bp_fail(npu->host, BP_ERR_TIMEOUT,
                             "npu: the deadline passed while atc compiled");
        else nanosleep(&pause, NULL);
    }
    if (!status && ended == child) return BP_OK;
    if (!status) return bp_fail(npu->host, BP_ERR_DEVICE, "npu: atc: %s", strerror(errno));
    kill(-child, SIGKILL);
    waitpid(child, out_state, 0);
    return status;
}

static enum bp_status atc_run(struct npu *npu, const struct bp_engine_compile *compile,
                              const struct atc_files *f, const struct npu_onnx *model, void **out,
                              size_t *out_size)
{
    int state = 0;
    pid_t child;

    TRY(atc_write(npu, f->model, model->at, model->n));
    TRY(atc_start(npu, f, &child));
    TRY(atc_wait(npu, compile, child, &state));
    if (!WIFEXITED(state) || WEXITSTATUS(state)) return atc_failed(npu, f, state);
    *out = atc_read(f->result, SIZE_MAX - 1, out_size);
    if (*out) return BP_OK;
    return bp_fail(npu->host, BP_ERR_DEVICE, "npu: atc succeeds without writing %s", f->result);
}

enum bp_status npu_atc_compile(struct npu *npu, const struct bp_engine_compile *compile,
                               const struct npu_onnx *model, void **out, size_t *out_size)
{
    struct atc_files files;
    enum bp_status status;

    TRY(atc_files_make(npu, &files));
    status = atc_run(npu, compile, &files, model, out, out_size);
    atc_files_remove(&files);
    return status;
}
