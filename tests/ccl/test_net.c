/* SPDX-License-Identifier: Apache-2.0 */
/* test_net.c: tests the network module alone: data behind a message's header is received only if
 * the header is the expected one; incomplete messages of a process that has died are cancelled.
 *
 *   test_net MODULE [CASE] */
#include "kit.h"
#include <backplane/net.h>
#include <dlfcn.h>
#include <time.h>

enum { MESSAGES = 200, BYTES = 200 << 10, HELLO = 1000 };

static const struct bp_net *net;

/* A rank's worker, and its connection to the other rank. Addresses are exchanged by pipes, which
 * work between namespaces. */
struct side {
    void *worker, *peer;
};

struct pipes {
    int to[2][2]; /* of each rank: the end to read, the end for others to write */
};

static struct side connect_side(const struct pipes *p, uint32_t rank)
{
    char address[BP_NET_ADDRESS_MAX], why[BP_NET_WHY];
    struct side s;
    uint64_t size;

    CHECK(!net->create(&s.worker, why), "%s", why);
    CHECK(!net->address(s.worker, address, &size), "no address");
    CHECK(write(p->to[!rank][1], &size, sizeof size) == sizeof size &&
              write(p->to[!rank][1], address, size) == (ssize_t)size &&
              read(p->to[rank][0], &size, sizeof size) == sizeof size &&
              read(p->to[rank][0], address, size) == (ssize_t)size,
          "a pipe");
    CHECK(!net->connect(s.worker, address, size, &s.peer, why), "%s", why);
    return s;
}

/* Waits until both ranks have exchanged a message. */
static void exchange_greetings(const struct side *s)
{
    struct bp_net_op out, in;
    char word = 1, other = 0;
    struct bp_net_message hello = {.data = &word, .bytes = 1};

    net->send(s->peer, HELLO, &hello, &out);
    net->recv(s->worker, HELLO, &other, 1, &in);
    while (!out.done || !in.done) net->progress(s->worker);
    CHECK(!out.status && !in.status && other == 1, "%u, %u", out.status, in.status);
}

static void wait_request(const struct side *s, const struct bp_net_op *op)
{
    while (!op->done) net->progress(s->worker);
    CHECK(!op->status, "status %u", op->status);
}

/* Messages by number: bytes sent, room of the receiver, and whether the header is the expected one.
 * The longest messages travel in several parts. */
enum { TEXT = 32 };
static const struct {
    uint32_t sent, room;
    bool wanted;
} headed[] = {
    {100, 100, true},    {100, 100, false},      {0, 0, true},           {100, 60, true},
    {60, 100, true},     {30000, 30000, true},   {30000, 30000, false},  {200000, 200000, true},
    {200000, 9, true},   {200000, 200000, false}, {100, 0, false},
};
enum { HEADED = sizeof headed / sizeof *headed };

static void send_headed(const struct side *s)
{
    static char data[1 << 18];
    char head[TEXT];

    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(1 + i % 125);
    for (uint64_t i = 0; i < HEADED; i++) {
        struct bp_net_message m = {.header = head, .header_bytes = TEXT, .data = data,
                                  .bytes = headed[i].sent};
        struct bp_net_op op;
        memset(head, (int)i + 1, sizeof head);
        if (!headed[i].wanted) head[TEXT - 1] = 0;
        net->send(s->peer, HELLO + 1 + i, &m, &op);
        wait_request(s, &op);
    }
}

static void recv_headed(const struct side *s, bool late)
{
    static char data[1 << 18];

    if (late) usleep(100000); /* messages that arrived earlier are taken from the buffer */
    for (uint64_t i = 0; i < HEADED; i++) {
        char head[TEXT] = {0}, want[TEXT];
        uint32_t taken = headed[i].sent < headed[i].room ? headed[i].sent : headed[i].room;
        struct bp_net_message m = {.header = head, .header_bytes = TEXT, .data = data,
                                  .bytes = headed[i].room, .want = want};
        struct bp_net_op op;
        memset(want, (int)i + 1, sizeof want);
        memset(data, 0, sizeof data);
        net->recv_headed(s->worker, HELLO + 1 + i, &m, &op);
        wait_request(s, &op);
        CHECK(op.bytes == TEXT + headed[i].sent, "message %d: %d bytes", (int)i, (int)op.bytes);
        CHECK(!memcmp(head, want, TEXT - 1) && head[TEXT - 1] == (headed[i].wanted ? want[0] : 0),
              "message %d has another head", (int)i);
        if (!headed[i].wanted) taken = 0;
        for (uint32_t j = 0; j < sizeof data; j++)
            CHECK(data[j] == (j < taken ? (char)(1 + j % 125) : 0), "message %d, byte %u is %d",
                  (int)i, j, data[j]);
    }
}

static void one_way(uint32_t rank, uint32_t size, void *ctx)
{
    struct side s = connect_side(ctx, rank);

    (void)size;
    for (int late = 0; late < 2; late++) {
        exchange_greetings(&s);
        if (rank) send_headed(&s);
        else recv_headed(&s, late);
    }
    exchange_greetings(&s);
    net->destroy(s.worker);
}

static void data_is_taken_behind_the_head_that_is_wanted(void)
{
    struct pipes p;

    CHECK(!pipe(p.to[0]) && !pipe(p.to[1]), "no pipe");
    kit_processes_for(20, 2, one_way, &p, UINT32_MAX, NULL);
}

/* Sends more than the systems' buffers hold, while the other rank does not read; then dies. */
static void send_and_die(const struct side *s, const struct pipes *p)
{
    static struct bp_net_op op[MESSAGES];
    static struct bp_net_message message[MESSAGES];
    static char bytes[BYTES];

    for (uint64_t i = 0; i < MESSAGES; i++) {
        message[i] = (struct bp_net_message){.data = bytes, .bytes = BYTES};
        net->send(s->peer, i, &message[i], &op[i]);
    }
    for (int i = 0; i < 1000; i++) net->progress(s->worker);
    CHECK(write(p->to[0][1], bytes, 1) == 1, "a pipe");
    kill(getpid(), SIGKILL);
}

static void abandon_requests(const struct side *s, const struct pipes *p)
{
    static struct bp_net_op op[MESSAGES], *ops[MESSAGES];
    char *bytes = calloc(MESSAGES, BYTES), word;
    uint32_t whole = 0;

    CHECK(bytes, "no memory");
    CHECK(read(p->to[0][0], &word, 1) == 1, "a pipe");
    usleep(100000);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        ops[i] = &op[i];
        net->recv(s->worker, i, bytes + i * BYTES, BYTES, ops[i]);
    }
    for (int i = 0; i < 100000; i++) net->progress(s->worker);
    for (int i = 0; i < MESSAGES; i++) whole += op[i].done && !op[i].status;
    CHECK(whole < MESSAGES, "all has come");
    CHECK(net->peer_lost(s->peer), "nobody says that the other is gone");
    net->abandon(s->worker, ops, MESSAGES);
    for (int i = 0; i < MESSAGES; i++) CHECK(op[i].done, "message %d is under way", i);
    net->destroy(s->worker);
    free(bytes);
}

static void one_side(uint32_t rank, uint32_t size, void *ctx)
{
    struct side s = connect_side(ctx, rank);

    (void)size;
    exchange_greetings(&s);
    if (rank) send_and_die(&s, ctx);
    else abandon_requests(&s, ctx);
}

static void parts_of_the_dead_are_given_up(void)
{
    struct pipes p;

    CHECK(!pipe(p.to[0]) && !pipe(p.to[1]), "no pipe");
    kit_processes_for(20, 2, one_side, &p, 1, NULL);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"data_is_taken_behind_the_head_that_is_wanted",
         data_is_taken_behind_the_head_that_is_wanted},
        {"parts_of_the_dead_are_given_up", parts_of_the_dead_are_given_up},
    };
    const struct bp_net *(*get)(uint32_t);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL, *symbol;

    CHECK(library, "%s", argc > 1 ? dlerror() : "which module?");
    symbol = dlsym(library, "bp_net_get");
    memcpy(&get, &symbol, sizeof get);
    net = get ? get(BP_NET_VERSION) : NULL;
    CHECK(net, "the module has no version %d", BP_NET_VERSION);
    return KIT_CASES(cases, argc - 1, argv + 1);
}
