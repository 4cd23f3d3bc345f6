/* SPDX-License-Identifier: Apache-2.0 */
/* test_crowd.c: tests a store under overload: silent connections, wrong tokens, wills and values.
 * Ranks that have the token must still find each other, and the process that serves the store must
 * keep descriptors and processor time for its own work. */
#include "failing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { DESCRIPTORS = 64, OWN = 20, SILENT = 300 };
#define IDLE_MOST 0.05 /* of a processor, in 1 s; a spinning thread uses more on any machine */

static int connect_raw(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
    CHECK(fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof at), "no connection: %s",
          strerror(errno));
    return fd;
}

/* A process with few descriptors that serves a store. For each byte that it receives it opens
 * files, and replies how many it could open; after 'k' it keeps them open. */
struct server {
    pid_t pid;
    int request, reply;
    char address[BP_STORE_ADDRESS_MAX];
};

static void crowd_serve(int request, int reply)
{
    struct rlimit few = {DESCRIPTORS, DESCRIPTORS};
    int fd[DESCRIPTORS], n;
    char text[BP_STORE_ADDRESS_MAX] = "", c;
    struct bp_store *store;

    for (int i = 3; i < 1024; i++)
        if (i != request && i != reply) close(i);
    CHECK(!setrlimit(RLIMIT_NOFILE, &few), "no limit");
    OK(bp_store_serve(NULL, &store));
    strcpy(text, bp_store_address(store));
    CHECK(write(reply, text, sizeof text) == sizeof text, "pipe");
    while (read(request, &c, 1) == 1) {
        for (n = 0; n < (c == 'k' ? DESCRIPTORS : OWN); n++)
            if ((fd[n] = open("/dev/null", O_RDONLY)) < 0) break;
        for (int i = 0; i < n && c != 'k'; i++) close(fd[i]);
        CHECK(write(reply, &n, sizeof n) == sizeof n, "pipe");
    }
}

static struct server begin_server(void)
{
    struct server s;
    int to[2], from[2];

    CHECK(!pipe(to) && !pipe(from), "no pipe");
    fflush(stdout);
    s.pid = fork();
    CHECK(s.pid >= 0, "no process");
    if (!s.pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(100);
        crowd_serve(to[0], from[1]);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    s.request = to[1];
    s.reply = from[0];
    CHECK(read(s.reply, s.address, sizeof s.address) == sizeof s.address, "no address");
    return s;
}

static int open_there(const struct server *s, char how)
{
    int n = -1;

    CHECK(write(s->request, &how, 1) == 1 && read(s->reply, &n, sizeof n) == sizeof n, "no answer");
    return n;
}

static void end_server(const struct server *s)
{
    close(s->request);
    close(s->reply);
    CHECK(waitpid(s->pid, NULL, 0) == s->pid, "no server");
}

/* Processor time of another process, in seconds. */
static double used_by(pid_t pid)
{
    unsigned long user = 0, system = 0;
    char path[40], text[1000] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    CHECK(file && fgets(text, sizeof text, file), "%s", path);
    fclose(file);
    CHECK(sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                 &system) == 2, "%s", text);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void join_and_leave(const char *address, int n)
{
    struct bp_store *store[8];

    for (int i = 0; i < n; i++) {
        OK(bp_store_create(address, 20ull * SECOND, &store[i]));
        OK(bp_store_set(store[i], "here", "x", 1));
    }
    for (int i = 0; i < n; i++) bp_store_destroy(store[i]);
}

static void silent_connections_block_no_rank(void)
{
    struct server s = begin_server();
    double before, begin = seconds();
    int fd[SILENT];

    for (int i = 0; i < SILENT; i++) fd[i] = connect_raw(s.address);
    join_and_leave(s.address, 8);
    CHECK(seconds() - begin < 15, "%g s", seconds() - begin);
    CHECK(open_there(&s, 'o') == OWN, "the process has no descriptors left");
    before = used_by(s.pid);
    sleep(1);
    CHECK(used_by(s.pid) - before < IDLE_MOST, "%g s of a processor in 1 s",
          used_by(s.pid) - before);
    for (int i = 0; i < SILENT; i++) close(fd[i]);
    end_server(&s);
}

/* Another process opens connections as fast as it can, sends nothing on them, and closes them. */
static void ranks_join_in_a_flood(void)
{
    struct server s = begin_server();
    pid_t flood;

    fflush(stdout);
    flood = fork();
    CHECK(flood >= 0, "no process");
    if (!flood) {
        int fd[100];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0;; i++) {
            if (i >= 100) close(fd[i % 100]);
            fd[i % 100] = connect_raw(s.address);
        }
    }
    for (int i = 0; i < 5; i++) join_and_leave(s.address, 4);
    kill(flood, SIGKILL);
    waitpid(flood, NULL, 0);
    end_server(&s);
}

/* A store that closes the first connections before it has received the token. */
static void *cut_off_some(void *arg)
{
    char greeting[40], yes[16] = "";
    int listener = *(int *)arg, fd;

    for (int i = 0; i < 4; i++) {
        fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0, "nobody came the %dth time", i + 1);
        if (i < 3) close(fd);
    }
    CHECK(recv(fd, greeting, 40, MSG_WAITALL) == 40, "no greeting");
    CHECK(send(fd, yes, 16, MSG_NOSIGNAL) == 16, "nobody waits for the answer");
    recv(fd, greeting, 1, 0); /* until the other side ends */
    close(fd);
    return NULL;
}

static void ranks_that_are_cut_off_retry(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof at;
    struct bp_store *store;
    char address[60];
    pthread_t thread;

    CHECK(!bind(listener, (struct sockaddr *)&at, size) && !listen(listener, 10) &&
              !getsockname(listener, (struct sockaddr *)&at, &size), "no listener");
    snprintf(address, sizeof address, "127.0.0.1:%u/some-token", ntohs(at.sin_port));
    CHECK(!pthread_create(&thread, NULL, cut_off_some, &listener), "no thread");
    OK(bp_store_create(address, 20ull * SECOND, &store));
    bp_store_destroy(store);
    pthread_join(thread, NULL);
    close(listener);
}

/* The app has no descriptor left: one more rank can join, and the next one when a descriptor is
 * available again. */
static void the_app_uses_all_descriptors(void)
{
    struct server s = begin_server();
    struct bp_store *store[2];
    double before;
    int silent[6];

    CHECK(open_there(&s, 'k') < DESCRIPTORS, "no end of descriptors");
    for (int i = 0; i < 6; i++) silent[i] = connect_raw(s.address);
    OK(bp_store_create(s.address, 20ull * SECOND, &store[0]));
    before = used_by(s.pid);
    FAILS(BP_ERR_TIMEOUT, "does not answer", bp_store_create(s.address, SECOND, &store[1]));
    CHECK(used_by(s.pid) - before < IDLE_MOST, "%g s of a processor in 1 s",
          used_by(s.pid) - before);
    bp_store_destroy(store[0]);
    OK(bp_store_create(s.address, 20ull * SECOND, &store[0]));
    bp_store_destroy(store[0]);
    for (int i = 0; i < 6; i++) close(silent[i]);
    end_server(&s);
}

/* Clients with the token receive only their share of the descriptors; further ones receive an
 * error. */
static void full_of_ranks(void)
{
    struct server s = begin_server();
    struct bp_store *store[DESCRIPTORS];
    enum bp_status status = BP_OK;
    int n = 0;

    while (n < DESCRIPTORS && status == BP_OK) {
        status = bp_store_create(s.address, 5ull * SECOND, &store[n]);
        n += status == BP_OK;
    }
    CHECK(n >= 16 && n <= 32 && status == BP_ERR_BUSY, "%d connections, %s", n,
          bp_status_name(status));
    CHECK(strstr(bp_error_message(), "ulimit -n"), "%s", bp_error_message());
    CHECK(open_there(&s, 'o') == OWN, "the process has no descriptors left");
    bp_store_destroy(store[--n]);
    for (int i = 0; i < 200 && status; i++) { /* until the store has noticed */
        status = bp_store_create(s.address, 5ull * SECOND, &store[n]);
        if (status) usleep(10000);
    }
    CHECK(!status, "%s", bp_error_message());
    for (int i = 0; i <= n; i++) bp_store_destroy(store[i]);
    end_server(&s);
}

static bool is_closed(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    char bytes[256];

    while (poll(&p, 1, 8000) == 1)
        if (recv(fd, bytes, sizeof bytes, 0) <= 0) return true;
    return false;
}

/* A connection allows one attempt, and a store a thousand attempts per second. */
static void tokens_cannot_be_tried_fast(void)
{
    struct bp_store *store, *other;
    char greeting[40] = "bpstore1wrongwrongwrongwrongwrongwrongwr";
    double begin = seconds();
    int fd[60];

    OK(bp_store_serve(NULL, &store));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 60; i++) fd[i] = connect_raw(bp_store_address(store));
        for (int i = 0; i < 60; i++)
            CHECK(send(fd[i], greeting, 40, MSG_NOSIGNAL) == 40, "no greeting");
        for (int i = 0; i < 60; i++) {
            CHECK(is_closed(fd[i]), "a second try");
            close(fd[i]);
        }
    }
    OK(bp_store_create(bp_store_address(store), 20ull * SECOND, &other));
    CHECK(seconds() - begin > 0.25, "300 tries in %g s", seconds() - begin);
    bp_store_destroy(other);
    bp_store_destroy(store);
}

/* Sends one request of a verb for the key "ended" on a connection with a valid token. Returns the
 * status of the reply. */
static uint32_t send_request(int fd, uint16_t verb, const void *value, uint32_t size)
{
    struct {
        uint16_t verb, key_size;
        uint32_t value_size;
        uint64_t number;
        char text[5];
    } r = {verb, 5, size, 0, "ended"};
    uint32_t reply[4];

    CHECK(send(fd, &r, 21, MSG_NOSIGNAL | MSG_MORE) == 21, "no request");
    CHECK(send(fd, value, size, MSG_NOSIGNAL) == (ssize_t)size, "no value");
    CHECK(recv(fd, reply, sizeof reply, MSG_WAITALL) == sizeof reply, "no answer");
    return reply[0];
}

static int send_greeting(struct bp_store *store)
{
    int fd = connect_raw(bp_store_address(store));
    char greeting[40] = "bpstore1", reply[16];

    memcpy(greeting + 8, strchr(bp_store_address(store), '/') + 1, 32);
    CHECK(send(fd, greeting, 40, 0) == 40, "no greeting");
    CHECK(recv(fd, reply, 16, MSG_WAITALL) == 16 && !*reply, "no answer");
    return fd;
}

enum { WILLS = 200, WILL_BYTES = 8000 };

/* A will that does not fit into its key's value is refused when it is set, rather than lost when
 * its connection ends. */
static void wills_are_kept_or_refused(void)
{
    static char got[BP_STORE_VALUE_MAX], will[BP_STORE_VALUE_MAX];
    struct bp_store *store;
    int fd[WILLS], kept = 0;
    uint64_t size = 0;

    OK(bp_store_serve(NULL, &store));
    for (int i = 0; i < WILLS; i++) {
        fd[i] = send_greeting(store);
        kept += send_request(fd[i], 4, will, WILL_BYTES) == BP_OK;
    }
    CHECK(send_request(fd[0], 1, will, sizeof will - 100) == BP_ERR_INVALID,
          "a value that leaves no room for the wills");
    CHECK(send_request(fd[0], 4, will, WILL_BYTES) == BP_OK, "a will in place of an earlier one");
    for (int i = 0; i < WILLS; i++) close(fd[i]);
    for (int i = 0; i < 1000 && size != (uint64_t)kept * WILL_BYTES; i++) {
        usleep(10000);
        if (bp_store_get(store, "ended", 0, got, sizeof got, &size)) size = 0;
    }
    CHECK(size == (uint64_t)kept * WILL_BYTES && kept == BP_STORE_VALUE_MAX / WILL_BYTES,
          "%d wills kept, %llu bytes", kept, (unsigned long long)size);
    FAILS(BP_ERR_INVALID, "no number", bp_store_add(store, "ended", 1, &(int64_t){0}));
    bp_store_destroy(store);
}

/* A store keeps at most 256 MiB, of large values or of many keys. */
static void a_store_is_full(void)
{
    static char value[BP_STORE_VALUE_MAX];
    struct bp_store *store;
    enum bp_status status = BP_OK;
    char key[BP_STORE_KEY_MAX], why[200];
    uint64_t size;
    int n;

    OK(bp_store_serve(NULL, &store));
    for (n = 0; n < 400 && status == BP_OK; n++) {
        snprintf(key, sizeof key, "key%d", n);
        status = bp_store_set(store, key, value, sizeof value);
    }
    snprintf(why, sizeof why, "%s", bp_error_message());
    CHECK(status == BP_ERR_MEMORY && n > 200 && n <= 257, "%s after %d", bp_status_name(status), n);
    CHECK(strstr(why, "256 MiB"), "%s", why);
    OK(bp_store_get(store, "key0", 0, value, sizeof value, &size));
    OK(bp_store_set(store, "key0", value, 1)); /* makes room */
    OK(bp_store_set(store, key, value, sizeof value / 2));
    bp_store_destroy(store);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"silent_connections_block_no_rank", silent_connections_block_no_rank},
        {"ranks_join_in_a_flood", ranks_join_in_a_flood},
        {"ranks_that_are_cut_off_retry", ranks_that_are_cut_off_retry},
        {"the_app_uses_all_descriptors", the_app_uses_all_descriptors},
        {"full_of_ranks", full_of_ranks},
        {"tokens_cannot_be_tried_fast", tokens_cannot_be_tried_fast},
        {"wills_are_kept_or_refused", wills_are_kept_or_refused},
        {"a_store_is_full", a_store_is_full},
    };

    return KIT_CASES(cases, argc, argv);
}
