/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c: tests the store through which ranks find each other, clients that misbehave, and
 * the launchers' environment. */
#include "kit.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static double clock_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void values_come_back(void)
{
    struct bp_store *store, *other;
    static char big[BP_STORE_VALUE_MAX], got[BP_STORE_VALUE_MAX];
    uint64_t size;

    OK(bp_store_serve(NULL, &store));
    OK(bp_store_create(bp_store_address(store), 20ull * SECOND, &other));
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i * 7 + i / 251);
    OK(bp_store_set(store, "big", big, sizeof big));
    OK(bp_store_get(other, "big", 0, got, sizeof got, &size));
    CHECK(size == sizeof big && !memcmp(big, got, size), "%llu bytes", (unsigned long long)size);
    OK(bp_store_set(other, "a", "first", 5));
    OK(bp_store_set(other, "a", "second!", 7));
    memset(got, '.', 8);
    OK(bp_store_get(store, "a", 0, got, 3, &size));
    CHECK(size == 7 && !memcmp(got, "sec.....", 8), "%.8s", got);
    OK(bp_store_set(store, "none", NULL, 0));
    OK(bp_store_get(other, "none", 0, NULL, 0, &size));
    CHECK(size == 0, "%llu", (unsigned long long)size);
    FAILS(BP_ERR_TIMEOUT, "nobody set later", bp_store_get(other, "later", 0, got, 1, &size));
    FAILS(BP_ERR_INVALID, "a value has at most", bp_store_set(store, "a", big, sizeof big + 1));
    bp_store_destroy(other);
    bp_store_destroy(store);
}

static void *set_later(void *arg)
{
    usleep(50000);
    OK(bp_store_set(arg, "late", "x", 1));
    return NULL;
}

static void waits_end_in_time(void)
{
    struct bp_store *store, *other;
    pthread_t thread;
    uint64_t size;
    char c = 0;
    double begin;

    OK(bp_store_serve("127.0.0.1", &store));
    OK(bp_store_create(bp_store_address(store), 20ull * SECOND, &other));
    CHECK(!pthread_create(&thread, NULL, set_later, other), "no thread");
    OK(bp_store_get(store, "late", 10ull * SECOND, &c, 1, &size));
    CHECK(c == 'x' && size == 1, "%c", c);
    pthread_join(thread, NULL);
    begin = clock_seconds();
    FAILS(BP_ERR_TIMEOUT, "never", bp_store_get(store, "never", SECOND / 10, &c, 1, &size));
    CHECK(clock_seconds() - begin >= 0.1 && clock_seconds() - begin < 5, "%g s",
          clock_seconds() - begin);
    OK(bp_store_get(store, "late", 0, &c, 1, &size)); /* the handle still works */
    bp_store_destroy(other);
    bp_store_destroy(store);
}

static void add_many(uint32_t rank, uint32_t size, void *address)
{
    struct bp_store *store;
    int64_t sum, last = 0;

    (void)size;
    (void)rank;
    OK(bp_store_create(address, 20ull * SECOND, &store));
    for (int i = 0; i < 50; i++) {
        OK(bp_store_add(store, "n", 2, &sum));
        CHECK(sum > last, "%lld after %lld", (long long)sum, (long long)last);
        last = sum;
        if (i % 10 == 0) OK(bp_store_barrier(store, "meet", size, 20ull * SECOND));
    }
    OK(bp_store_add(store, "n", 0, &sum));
    bp_store_destroy(store);
}

static void sums_and_barriers_are_shared(void)
{
    struct bp_store *store;
    int64_t sum;

    OK(bp_store_serve(NULL, &store));
    kit_threads(8, add_many, (void *)(uintptr_t)bp_store_address(store));
    OK(bp_store_add(store, "n", 0, &sum));
    CHECK(sum == 8 * 50 * 2, "%lld", (long long)sum);
    OK(bp_store_set(store, "text", "abc", 3));
    FAILS(BP_ERR_INVALID, "no number", bp_store_add(store, "text", 1, &sum));
    FAILS(BP_ERR_TIMEOUT, "1 of 2 came",
          bp_store_barrier(store, "alone", 2, (uint64_t)SECOND / 20));
    bp_store_destroy(store);
}

static void strangers_are_refused(void)
{
    struct bp_store *store, *other;
    char address[BP_STORE_ADDRESS_MAX], *slash;

    OK(bp_store_serve(NULL, &store));
    strcpy(address, bp_store_address(store));
    slash = strchr(address, '/');
    slash[1] = slash[1] == '0' ? '1' : '0';
    FAILS(BP_ERR_INVALID, "refused the token", bp_store_create(address, 20ull * SECOND, &other));
    strcpy(slash + 1, "short-one");
    FAILS(BP_ERR_INVALID, "refused the token", bp_store_create(address, 20ull * SECOND, &other));
    CHECK(!strstr(bp_error_message(), "short-one"), "a token is in %s", bp_error_message());
    *slash = 0;
    FAILS(BP_ERR_INVALID, "HOST:PORT/TOKEN", bp_store_create(address, 20ull * SECOND, &other));
    FAILS(BP_ERR_INVALID, "HOST:PORT/TOKEN", bp_store_create("host/0123456789", SECOND, &other));
    FAILS(BP_ERR_INVALID, "HOST:PORT/TOKEN", bp_store_create(":1/0123456789", SECOND, &other));
    FAILS(BP_ERR_INVALID, "HOST:PORT/TOKEN", bp_store_create("h:99999/0123456789", 0, &other));
    OK(bp_store_create(bp_store_address(store), 20ull * SECOND, &other));
    bp_store_destroy(other);
    bp_store_destroy(store);
}

/* Connects a socket to the store, without a greeting. */
static int connect_raw(struct bp_store *store)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_port = htons((uint16_t)atoi(strchr(bp_store_address(store), ':') + 1));
    CHECK(!connect(fd, (struct sockaddr *)&at, sizeof at), "no connection");
    return fd;
}

static bool is_closed(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    char bytes[256];
    ssize_t n;

    while (poll(&p, 1, 8000) == 1) {
        n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) return true;
    }
    return false;
}

static void garbage_harms_no_client(void)
{
    struct bp_store *store;
    const char *token;
    char bytes[4096];
    unsigned seed = 7;
    int quiet, fd;

    OK(bp_store_serve(NULL, &store));
    quiet = connect_raw(store); /* sends nothing: closed after a while */
    for (int round = 0; round < 40; round++) {
        fd = connect_raw(store);
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)rand_r(&seed);
        if (round % 2) { /* a client with the token that then sends garbage */
            token = strchr(bp_store_address(store), '/') + 1;
            memcpy(bytes, "bpstore1", 8);
            memcpy(bytes + 8, token, 32);
            if (send(fd, bytes, 40, MSG_NOSIGNAL) != 40) abort();
            if (recv(fd, bytes, 16, MSG_WAITALL) != 16) abort();
            memset(bytes, 0xff, 16);
        }
        if (send(fd, bytes, 1 + rand_r(&seed) % sizeof bytes, MSG_NOSIGNAL) < 0) abort();
        if (round % 3 == 0) CHECK(is_closed(fd) || round % 2, "round %d is not cut off", round);
        close(fd);
        OK(bp_store_set(store, "still", "here", 4));
    }
    CHECK(is_closed(quiet), "who says nothing is not cut off");
    close(quiet);
    bp_store_destroy(store);
}

/* Opens a connection with a will: the word is appended to "ended". An empty word removes the
 * will. */
static int leave_will(struct bp_store *store, const char *word)
{
    struct {
        uint16_t verb, key_size;
        uint32_t value_size;
        uint64_t number;
        char text[16];
    } request = {4, 5, (uint32_t)strlen(word), 0, "ended"};
    char greeting[40] = "bpstore1", reply[16];
    size_t size = 16 + 5 + strlen(word);
    int fd = connect_raw(store);

    memcpy(greeting + 8, strchr(bp_store_address(store), '/') + 1, 32);
    CHECK(send(fd, greeting, sizeof greeting, 0) == sizeof greeting, "no greeting");
    CHECK(recv(fd, reply, sizeof reply, MSG_WAITALL) == sizeof reply, "no answer");
    for (int i = 0; i < 2; i++) { /* the second one replaces the first */
        memcpy(request.text + 5, word, strlen(word));
        CHECK(send(fd, &request, size, 0) == (ssize_t)size, "no request");
        CHECK(recv(fd, reply, sizeof reply, MSG_WAITALL) == sizeof reply && !*reply, "no answer");
    }
    return fd;
}

static void *end_later(void *fd)
{
    usleep(100000);
    close(*(int *)fd);
    return NULL;
}

static void wills_are_done(void)
{
    struct bp_store *store;
    pthread_t thread;
    char got[16] = "";
    uint64_t size;
    int a, b, none;

    OK(bp_store_serve(NULL, &store));
    a = leave_will(store, "one");
    b = leave_will(store, "three");
    none = leave_will(store, "");
    close(none);
    FAILS(BP_ERR_TIMEOUT, "ended", bp_store_get(store, "ended", SECOND / 5, got, 16, &size));
    CHECK(!pthread_create(&thread, NULL, end_later, &a), "no thread");
    /* Waits until the server has appended the will. */
    OK(bp_store_get(store, "ended", UINT64_C(5) * SECOND, got, sizeof got, &size));
    CHECK(size == 3 && !memcmp(got, "one", 3), "'%.16s'", got);
    pthread_join(thread, NULL);
    close(b);
    for (int i = 0; i < 500 && size == 3; i++) {
        usleep(10000);
        OK(bp_store_get(store, "ended", 0, got, sizeof got, &size));
    }
    CHECK(size == 8 && !memcmp(got, "onethree", 8), "'%.16s'", got);
    b = leave_will(store, "never");
    bp_store_destroy(store); /* with its server */
    close(b);
}

static void an_ended_store_is_reported(void)
{
    char address[BP_STORE_ADDRESS_MAX] = "";
    struct bp_store *store, *other;
    uint64_t size;
    int pipes[2];
    pid_t child;
    char c;

    CHECK(!pipe(pipes), "no pipe");
    fflush(stdout);
    child = fork();
    if (!child) {
        OK(bp_store_serve(NULL, &store));
        if (write(pipes[1], bp_store_address(store), sizeof address) < 0) _exit(1);
        pause();
    }
    CHECK(read(pipes[0], address, sizeof address) > 0, "no address");
    OK(bp_store_create(address, 20ull * SECOND, &other));
    OK(bp_store_set(other, "a", "b", 1));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    FAILS(BP_ERR_PEER, "is gone", bp_store_get(other, "x", 60ull * SECOND, &c, 1, &size));
    FAILS(BP_ERR_PEER, "is gone", bp_store_set(other, "x", &c, 1));
    FAILS(BP_ERR_TIMEOUT, "nobody answers", bp_store_create(address, SECOND / 20, &store));
    bp_store_destroy(other);
    close(pipes[0]);
    close(pipes[1]);
}

/* A client that comes before the store's server waits for it. A port in use is reported. */
static void *serve_later(void *arg)
{
    struct bp_store *store;

    usleep(100000);
    OK(bp_store_serve(arg, &store));
    return store;
}

static void ports_are_found_or_refused(void)
{
    struct bp_store *store, *other;
    char address[BP_STORE_ADDRESS_MAX], *slash;
    pthread_t thread;
    void *served;

    OK(bp_store_serve(NULL, &store));
    strcpy(address, bp_store_address(store));
    slash = strchr(address, '/');
    *slash = 0;
    FAILS(BP_ERR_BUSY, "is in use: leave the port out", bp_store_serve(address, &other));
    OK(bp_store_serve("127.0.0.1", &other)); /* another port */
    bp_store_destroy(other);
    FAILS(BP_ERR_NOT_FOUND, "192.0.2.1", bp_store_serve("192.0.2.1", &other));
    FAILS(BP_ERR_INVALID, "expected HOST", bp_store_serve("a:b:c", &other));
    bp_store_destroy(store);
    *slash = '/';
    CHECK(!pthread_create(&thread, NULL, serve_later, address), "no thread");
    OK(bp_store_create(address, 10ull * SECOND, &other));
    pthread_join(thread, &served);
    bp_store_destroy(other);
    bp_store_destroy(served);
}

/* Replaces the C library's function for libbackplane: a resolver that hangs. */
int getaddrinfo(const char *restrict host, const char *restrict port,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out_list)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!strcmp(host, "slow.invalid") && !(hints->ai_flags & AI_NUMERICHOST)) sleep(30);
    return real(host, port, hints, out_list);
}

static void names_are_looked_up_in_time(void)
{
    struct bp_store *store;
    double begin = clock_seconds();

    FAILS(BP_ERR_TIMEOUT, "nobody answers at the store slow.invalid:1",
          bp_store_create("slow.invalid:1/0123456789", SECOND / 5, &store));
    CHECK(clock_seconds() - begin < 20, "%g s", clock_seconds() - begin);
    FAILS(BP_ERR_TIMEOUT, "nobody answers at the store nothing.invalid:1",
          bp_store_create("nothing.invalid:1/0123456789", SECOND / 5, &store));
}

static void clear_environment(void)
{
    static const char *const names[] = {"BP_RANK", "BP_WORLD_SIZE", "BP_STORE",
                                        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                        "SLURM_PROCID", "SLURM_NTASKS"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static void expect_job(const char *launcher, uint32_t rank, uint32_t ranks, const char *store)
{
    struct bp_job job = {.size = sizeof job};

    OK(bp_job_find(&job));
    CHECK(!strcmp(job.launcher, launcher) && job.rank == rank && job.ranks == ranks &&
              !strcmp(job.store, store),
          "%s %u of %u at %s", job.launcher, job.rank, job.ranks, job.store);
}

static void launchers_are_read(void)
{
    struct bp_job job = {.size = sizeof job};

    clear_environment();
    FAILS(BP_ERR_NOT_FOUND, "bp launch -n", bp_job_find(&job));
    setenv("SLURM_PROCID", "3", 1);
    setenv("SLURM_NTASKS", "4", 1);
    expect_job("slurm", 3, 4, "");
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    FAILS(BP_ERR_INVALID, "OMPI_COMM_WORLD_SIZE is not set", bp_job_find(&job));
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    expect_job("openmpi", 0, 2, "");
    setenv("BP_RANK", "1", 1);
    setenv("BP_WORLD_SIZE", "2", 1);
    setenv("BP_STORE", "h:1/tokentoken", 1);
    expect_job("bp", 1, 2, "h:1/tokentoken");
    setenv("BP_RANK", "2", 1);
    FAILS(BP_ERR_INVALID, "ranks count from 0", bp_job_find(&job));
    setenv("BP_RANK", "-1", 1);
    FAILS(BP_ERR_INVALID, "expected a number", bp_job_find(&job));
    setenv("BP_RANK", "1x", 1);
    FAILS(BP_ERR_INVALID, "expected a number", bp_job_find(&job));
    clear_environment();
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"values_come_back", values_come_back},
        {"waits_end_in_time", waits_end_in_time},
        {"sums_and_barriers_are_shared", sums_and_barriers_are_shared},
        {"strangers_are_refused", strangers_are_refused},
        {"garbage_harms_no_client", garbage_harms_no_client},
        {"wills_are_done", wills_are_done},
        {"an_ended_store_is_reported", an_ended_store_is_reported},
        {"ports_are_found_or_refused", ports_are_found_or_refused},
        {"names_are_looked_up_in_time", names_are_looked_up_in_time},
        {"launchers_are_read", launchers_are_read},
    };

    return KIT_CASES(cases, argc, argv);
}
