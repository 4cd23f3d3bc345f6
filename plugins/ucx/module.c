/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: implements bp_net_ucx.so, the network module over UCX: workers exchange tagged
 * messages, and each worker has its own UCX context. */
#include <backplane/net.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

struct peer {
    struct peer *next;
    struct worker *worker;
    ucp_ep_h ep;
    const char *lost;
    bool met; /* a message was sent to this peer */
};

struct worker {
    ucp_context_h context;
    ucp_worker_h worker;
    struct peer *peers;
    ucp_datatype_t copied; /* the datatype that copies a struct bp_net_message */
};

enum {
    ROUNDS = 100000,      /* of progress: a limit for operations that end by themselves */
    ONE_PIECE = 40 << 10, /* bytes that UCX sends as one segment, of the 48 KiB that ucx_set sets */
};

/* The callbacks by which UCX takes a message from the app, and writes one to it: segments at
 * offsets. */
static void *begin_sent(void *context, const void *message, size_t count)
{
    (void)context;
    (void)count;
    return (void *)(uintptr_t)message;
}

static void *begin_received(void *context, void *message, size_t count)
{
    (void)context;
    (void)count;
    return message;
}

/* Returns the size of a message that is sent; for a message that is received, which may have any
 * size, a very large number. */
static size_t count_bytes(void *message)
{
    const struct bp_net_message *m = message;

    return m->want ? SIZE_MAX / 2 : m->header_bytes + m->bytes;
}

static size_t ucx_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t ucx_give(void *message, size_t offset, void *dest, size_t room)
{
    const struct bp_net_message *m = message;
    size_t head = offset < m->header_bytes ? ucx_smaller(room, m->header_bytes - offset) : 0;
    size_t at = offset + head - m->header_bytes, n = 0;

    if (head) memcpy(dest, (const char *)m->header + offset, head);
    if (offset + head >= m->header_bytes) n = ucx_smaller(room - head, m->bytes - at);
    if (n) memcpy((char *)dest + head, (const char *)m->data + at, n);
    return head + n;
}

/* Segments arrive in order, because there is only one connection. */
static ucs_status_t ucx_take(void *message, size_t offset, const void *src, size_t length)
{
    struct bp_net_message *m = message;
    size_t head = offset < m->header_bytes ? ucx_smaller(length, m->header_bytes - offset) : 0;
    size_t at = offset + head - m->header_bytes;

    if (offset != m->module[0]) return UCS_ERR_IO_ERROR;
    m->module[0] += length;
    if (head) memcpy((char *)m->header + offset, src, head);
    if (m->module[0] <= m->header_bytes || at >= m->bytes) return UCS_OK;
    if (memcmp(m->header, m->want, m->header_bytes)) return UCS_OK;
    memcpy((char *)m->data + at, (const char *)src + head,
           ucx_smaller(length - head, m->bytes - at));
    return UCS_OK;
}

static void end_message(void *message)
{
    (void)message;
}

static enum bp_status status_of(ucs_status_t status)
{
    switch (status) {
    case UCS_OK: return BP_OK;
    case UCS_ERR_NO_MEMORY: return BP_ERR_MEMORY;
    case UCS_ERR_MESSAGE_TRUNCATED:
    case UCS_ERR_INVALID_PARAM: return BP_ERR_INVALID;
    default: return BP_ERR_PEER;
    }
}

static enum bp_status ucx_fail(ucs_status_t status, const char *call, char *out_why)
{
    snprintf(out_why, BP_NET_WHY, "%s: %s", call, ucs_status_string(status));
    return status == UCS_ERR_NO_MEMORY ? BP_ERR_MEMORY : BP_ERR_UNSUPPORTED;
}

/* Over TCP, a put is acknowledged when the other side calls progress: a send would wait until that
 * rank returns from the app's code. TCP has no get, so UCX sends large messages as plain ones. UCX
 * 1.13 ends the process (comp->count > 0) if a peer dies while segments of a message are sent from
 * the app's memory: messages of several segments are therefore copied. Each segment is a system
 * call, which costs more than the copy: segments are larger than the default of 8 KiB, unless the
 * environment sets their size. Messages up to the size of one reduction step are sent without a
 * handshake with the other side. */
static ucs_status_t ucx_set(ucp_config_t *config)
{
    static const char *const setting[][3] = {
        {"RNDV_SCHEME", "get_zcopy", NULL},
        {"ZCOPY_THRESH", "256", NULL},
        {"RNDV_THRESH", "264kb", "UCX_RNDV_THRESH"},
        {"TX_SEG_SIZE", "48kb", "UCX_TCP_TX_SEG_SIZE"},
        {"RX_SEG_SIZE", "128kb", "UCX_TCP_RX_SEG_SIZE"},
    };
    ucs_status_t status = UCS_OK;

    for (size_t i = 0; i < sizeof setting / sizeof *setting && status == UCS_OK; i++)
        if (!setting[i][2] || !secure_getenv(setting[i][2]))
            status = ucp_config_modify(config, setting[i][0], setting[i][1]);
    return status;
}

static ucs_status_t make_context(struct worker *w)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK) return status;
    status = ucx_set(config);
    if (status == UCS_OK) status = ucp_init(&params, config, &w->context);
    ucp_config_release(config);
    return status;
}

static ucs_status_t make_worker(struct worker *w)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};

    static const ucp_generic_dt_ops_t ops = {begin_sent, begin_received, count_bytes,
                                             ucx_give,       ucx_take,           end_message};
    ucs_status_t status = ucp_dt_create_generic(&ops, NULL, &w->copied);

    if (status != UCS_OK) return status;
    status = ucp_worker_create(w->context, &params, &w->worker);
    if (status != UCS_OK) ucp_dt_destroy(w->copied);
    return status;
}

/* UCX starts a thread for its timers: this thread must not receive the app's signals, so all are
 * blocked. */
static enum bp_status worker_create(void **out_worker, char *out_why)
{
    struct worker *w = calloc(1, sizeof *w);
    sigset_t all, before;
    ucs_status_t status;

    if (!w) return ucx_fail(UCS_ERR_NO_MEMORY, "calloc", out_why);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    status = make_context(w);
    if (status == UCS_OK) status = make_worker(w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == UCS_OK) {
        *out_worker = w;
        return BP_OK;
    }
    ucx_fail(status, w->context ? "ucp_worker_create" : "ucp_init", out_why);
    if (w->context) ucp_cleanup(w->context);
    free(w);
    return status == UCS_ERR_NO_MEMORY ? BP_ERR_MEMORY : BP_ERR_UNSUPPORTED;
}

/* Without force the connection is closed in order: messages that were sent before arrive. */
static void close_peer(struct peer *p, bool force)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    void *request;

    if (!p->ep) return;
    request = ucp_ep_close_nbx(p->ep, &param);
    p->ep = NULL;
    if (!UCS_PTR_IS_PTR(request)) return;
    for (int i = 0; i < ROUNDS && ucp_request_check_status(request) == UCS_INPROGRESS; i++)
        ucp_worker_progress(p->worker->worker);
    ucp_request_free(request);
}

/* Drops messages that no rank received: replies that were not needed any more; after a failure also
 * data. UCX would warn of each of them. A message whose rest has not arrived stays, and so do all
 * behind it. */
static void drop_messages(struct worker *w)
{
    char nowhere[33 << 10]; /* larger than any message with a header that the core sends as one */
    static const ucp_request_param_t param = {0};
    ucp_tag_recv_info_t info;

    while (ucp_tag_probe_nb(w->worker, 0, 0, 0, &info) && info.length <= sizeof nowhere) {
        ucp_tag_message_h message = ucp_tag_probe_nb(w->worker, 0, 0, 1, &info);
        void *request = ucp_tag_msg_recv_nbx(w->worker, nowhere, info.length, message, &param);
        if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
    }
}

static void worker_destroy(void *worker)
{
    struct worker *w = worker;

    for (struct peer *p = w->peers, *next; p; p = next) {
        next = p->next;
        close_peer(p, p->lost != NULL);
        free(p);
    }
    drop_messages(w);
    ucp_worker_destroy(w->worker);
    ucp_dt_destroy(w->copied);
    ucp_cleanup(w->context);
    free(w);
}

static enum bp_status worker_address(void *worker, void *out_bytes, uint64_t *out_size)
{
    struct worker *w = worker;
    ucp_address_t *address;
    size_t size;

    if (ucp_worker_get_address(w->worker, &address, &size) != UCS_OK) return BP_ERR_INTERNAL;
    if (size <= BP_NET_ADDRESS_MAX) memcpy(out_bytes, address, size);
    ucp_worker_release_address(w->worker, address);
    *out_size = size;
    return size <= BP_NET_ADDRESS_MAX ? BP_OK : BP_ERR_UNSUPPORTED;
}

static void ucx_lose(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct peer *p = arg;

    (void)ep;
    if (!p->lost) p->lost = ucs_status_string(status);
}

static enum bp_status worker_connect(void *worker, const void *bytes, uint64_t size,
                                     void **out_peer, char *out_why)
{
    struct worker *w = worker;
    struct peer *p = calloc(1, sizeof *p);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = bytes, .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {ucx_lose, p}};
    ucs_status_t status;

    (void)size;
    if (!p) return ucx_fail(UCS_ERR_NO_MEMORY, "calloc", out_why);
    p->worker = w;
    status = ucp_ep_create(w->worker, &params, &p->ep);
    if (status != UCS_OK) {
        free(p);
        ucx_fail(status, "ucp_ep_create", out_why);
        return status_of(status);
    }
    p->next = w->peers;
    w->peers = p;
    *out_peer = p;
    return BP_OK;
}

static const char *peer_lost(void *peer)
{
    return ((const struct peer *)peer)->lost;
}

static void end_op(struct bp_net_op *op, ucs_status_t status)
{
    op->status = status_of(status);
    op->request = NULL;
    op->done = 1;
}

static void ucx_sent(void *request, ucs_status_t status, void *op)
{
    end_op(op, status);
    ucp_request_free(request);
}

static void ucx_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                         void *op)
{
    ((struct bp_net_op *)op)->bytes = info->length;
    end_op(op, status);
    ucp_request_free(request);
}

static void ucx_begun(struct bp_net_op *op, void *request)
{
    if (UCS_PTR_IS_PTR(request)) op->request = request;
    else
        end_op(op, UCS_PTR_STATUS(request));
}

/* The receiver acknowledges the first message (synchronous send): the control messages of UCX for a
 * new connection have been sent by then. UCX 1.13 ends the process (ucp_request.c:684) if such
 * control messages are still unsent when the worker is destroyed, as when a first large message and
 * a failure coincide. */
static void begin_send(struct peer *p, uint64_t tag, const void *data, size_t count,
                       ucp_datatype_t datatype, struct bp_net_op *out_op)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_DATATYPE,
                                 .cb.send = ucx_sent, .user_data = out_op, .datatype = datatype};

    *out_op = (struct bp_net_op){0};
    if (!p->ep || p->lost) end_op(out_op, UCS_ERR_CONNECTION_RESET);
    else if (p->met)
        ucx_begun(out_op, ucp_tag_send_nbx(p->ep, data, count, tag, &param));
    else
        ucx_begun(out_op, ucp_tag_send_sync_nbx(p->ep, data, count, tag, &param));
    p->met = true;
}

/* A message of one segment is sent from the app's memory, and is done when the system has it. A
 * message of several segments is copied: see ucx_set. */
static void peer_send(void *peer, uint64_t tag, struct bp_net_message *message,
                      struct bp_net_op *out_op)
{
    const ucp_dt_iov_t parts[] = {{message->header, message->header_bytes},
                                  {message->data, message->bytes}};
    struct peer *p = peer;

    _Static_assert(sizeof message->module == sizeof parts, "room for the parts");
    memcpy(message->module, parts, sizeof parts);
    if (message->header_bytes + message->bytes > ONE_PIECE)
        begin_send(p, tag, message, 1, p->worker->copied, out_op);
    else
        begin_send(p, tag, message->module, 2, ucp_dt_make_iov(), out_op);
}

static void begin_recv(struct worker *w, uint64_t tag, void *data, size_t count,
                       ucp_datatype_t datatype, struct bp_net_op *out_op)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_DATATYPE,
                                 .cb.recv = ucx_received,
                                 .user_data = out_op,
                                 .datatype = datatype};

    *out_op = (struct bp_net_op){0};
    ucx_begun(out_op, ucp_tag_recv_nbx(w->worker, data, count, tag, UINT64_MAX, &param));
}

static void worker_recv(void *worker, uint64_t tag, void *data, uint64_t bytes,
                        struct bp_net_op *out_op)
{
    begin_recv(worker, tag, data, bytes, ucp_dt_make_contig(1), out_op);
}

static void recv_headed(void *worker, uint64_t tag, struct bp_net_message *message,
                        struct bp_net_op *out_op)
{
    struct worker *w = worker;

    message->module[0] = 0; /* bytes that have arrived */
    begin_recv(w, tag, message, 1, w->copied, out_op);
    if (out_op->done) out_op->bytes = message->module[0];
}

static uint32_t worker_progress(void *worker)
{
    return ucp_worker_progress(((struct worker *)worker)->worker);
}

static bool all_done(struct bp_net_op *const *ops, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!ops[i]->done) return false;
    return true;
}

/* Ends all operations: closing by force ends sends, and receives are cancelled. But UCX does not
 * cancel a message of which a part has arrived, and the rest may never arrive, because its sender
 * may be dead. Such a receive is left to UCX: UCX writes to its memory only within progress, which
 * is not called any more. */
static void worker_abandon(void *worker, struct bp_net_op *const *ops, uint32_t n)
{
    struct worker *w = worker;

    for (uint32_t i = 0; i < n; i++)
        if (!ops[i]->done) ucp_request_cancel(w->worker, ops[i]->request);
    for (struct peer *p = w->peers; p; p = p->next) {
        if (!p->lost) p->lost = "given up";
        close_peer(p, true);
    }
    for (int i = 0; i < ROUNDS && !all_done(ops, n); i++) ucp_worker_progress(w->worker);
    for (uint32_t i = 0; i < n; i++)
        if (!ops[i]->done) end_op(ops[i], UCS_ERR_CONNECTION_RESET);
}

static const struct bp_net table = {
    .size = sizeof table,
    .name = "ucx",
    .create = worker_create,
    .destroy = worker_destroy,
    .address = worker_address,
    .connect = worker_connect,
    .peer_lost = peer_lost,
    .send = peer_send,
    .recv = worker_recv,
    .progress = worker_progress,
    .abandon = worker_abandon,
    .recv_headed = recv_headed,
};

__attribute__((visibility("default"))) const struct bp_net *bp_net_get(uint32_t version)
{
    return version == BP_NET_VERSION ? &table : NULL;
}
