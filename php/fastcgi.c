/*
 * The wire: FastCGI 1.0 as a responder, one request at a time on a connection.
 *
 * A request is read with as few calls as it comes in, an answer that fits the buffer leaves in one write. A connection that serves no
 * further request is shut down for reading before the last answer's end is sent: from then on the kernel refuses whatever the server
 * would write to it (EPIPE), so no request can get lost between the server's decision to use the connection and its end.
 */
#include "brisk_php.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    BEGIN_REQUEST = 1, ABORT_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, STDERR, DATA, GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE
};
enum { ROLE_RESPONDER = 1, FLAG_KEEP = 1, STATUS_COMPLETE = 0, STATUS_OVERLOADED = 2, STATUS_UNKNOWN_ROLE = 3, HEAD_BYTES = 8 };

struct exchange exchange = {.fd = -1};

static char input[INPUT_BYTES];
static size_t input_at, input_end;

static char output[OUTPUT_BYTES];
static size_t output_end;
/* Where the open record of the output begins, and its type; -1: none is open. */
static ssize_t open_at = -1;
static int open_type;

/* The parameters as they came, and with ends of strings. */
static char *raw, *texts;
static size_t raw_end, raw_room, texts_room;

/* Values that were set here: freed with the next request. */
struct own_text {
    struct own_text *next;
    char text[];
};
static struct own_text *own_texts;

void fastcgi_begin(int fd)
{
    exchange.fd = fd;
    exchange.is_broken = false;
    exchange.is_ended = true;
    input_at = input_end = output_end = 0;
    open_at = -1;
}

/* Reads more. False at the end of the connection. */
static bool fill(void)
{
    if (input_at == input_end) {
        input_at = input_end = 0;
    } else if (input_end == sizeof input) {
        memmove(input, input + input_at, input_end - input_at);
        input_end -= input_at;
        input_at = 0;
    }
    for (;;) {
        ssize_t count = recv(exchange.fd, input + input_end, sizeof input - input_end, 0);
        if (count > 0) {
            input_end += (size_t)count;
            return true;
        }
        if (count == 0 || errno != EINTR)
            return false;
    }
}

static bool have(size_t count)
{
    while (input_end - input_at < count)
        if (!fill())
            return false;
    return true;
}

/* Takes bytes of the input, to where they are wanted if `to` is not null. Gives how many: less only at the end of the connection. */
static size_t take(char *to, size_t count)
{
    size_t done = 0;
    while (done < count) {
        if (input_at == input_end && !fill())
            break;
        size_t part = input_end - input_at;
        if (part > count - done)
            part = count - done;
        if (to)
            memcpy(to + done, input + input_at, part);
        input_at += part;
        done += part;
    }
    return done;
}

static bool skip(size_t count)
{
    return take(NULL, count) == count;
}

struct head {
    int type;
    uint16_t id;
    uint32_t length;
    uint32_t padding;
};

static bool next_head(struct head *head)
{
    if (!have(HEAD_BYTES))
        return false;
    const unsigned char *at = (const unsigned char *)input + input_at;
    *head = (struct head){at[1], (uint16_t)(at[2] << 8 | at[3]), (uint32_t)(at[4] << 8 | at[5]), at[6]};
    bool is_version_1 = at[0] == 1;
    input_at += HEAD_BYTES;
    return is_version_1;
}

static void put_head(char *to, int type, uint16_t id, size_t length, size_t padding)
{
    const unsigned char head[HEAD_BYTES] = {
        1, (unsigned char)type, (unsigned char)(id >> 8), (unsigned char)id, (unsigned char)(length >> 8), (unsigned char)length,
        (unsigned char)padding, 0,
    };
    memcpy(to, head, HEAD_BYTES);
}

static bool send_pieces(struct iovec *pieces, int count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    while (message.msg_iovlen > 0) {
        ssize_t sent = sendmsg(exchange.fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            exchange.is_broken = true;
            return false;
        }
        size_t left = (size_t)sent;
        while (message.msg_iovlen > 0 && left >= message.msg_iov->iov_len) {
            left -= message.msg_iov->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (message.msg_iovlen > 0) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + left;
            message.msg_iov->iov_len -= left;
        }
    }
    return true;
}

static void close_record(void)
{
    if (open_at < 0)
        return;
    size_t length = output_end - (size_t)open_at - HEAD_BYTES;
    size_t padding = (8 - length % 8) % 8;
    put_head(output + open_at, open_type, exchange.id, length, padding);
    memset(output + output_end, 0, padding);
    output_end += padding;
    open_at = -1;
}

static bool send_output(void)
{
    close_record();
    if (exchange.is_broken || output_end == 0) {
        output_end = 0;
        return !exchange.is_broken;
    }
    struct iovec piece = {output, output_end};
    output_end = 0;
    return send_pieces(&piece, 1);
}

/* Room that every record may need behind its content: padding, and the end of the request. */
#define TAIL_BYTES (8 + 2 * HEAD_BYTES)

/* Takes the end of the request's body, if it has come: it says that the server sends nothing more of this request. */
static void take_stdin_end(void)
{
    struct head head;
    size_t there = input_end - input_at;
    if (exchange.is_stdin_ended || exchange.stdin_left > 0 || there < exchange.padding_left + HEAD_BYTES)
        return;
    size_t before = input_at;
    if (skip(exchange.padding_left) && next_head(&head) && head.type == STDIN && head.length == 0 && head.padding == 0) {
        exchange.is_stdin_ended = true;
        exchange.padding_left = 0;
    } else {
        input_at = before;
    }
}

/*
 * The server has closed its side: it wants no more of this answer. It keeps the connection until the worker closes it, so writing alone
 * does not tell. Looked at only when bytes leave before the end of an answer, and not by a worker that drains: that has closed its own
 * side for reading.
 */
static bool server_is_gone(void)
{
    char byte;
    if (is_draining || !exchange.is_stdin_ended || input_at < input_end || recv(exchange.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        return false;
    exchange.is_broken = true;
    return true;
}

static bool put(int type, const char *bytes, size_t count)
{
    if (exchange.is_ended || exchange.is_broken)
        return false;
    if (open_at >= 0 && open_type != type)
        close_record();
    if (output_end + HEAD_BYTES + count + TAIL_BYTES <= sizeof output) {
        if (open_at < 0) {
            open_at = (ssize_t)output_end;
            open_type = type;
            output_end += HEAD_BYTES;
        }
        memcpy(output + output_end, bytes, count);
        output_end += count;
        return true;
    }
    /* What is too long for the buffer leaves from where it lies, together with what is in the buffer. */
    take_stdin_end();
    if (server_is_gone())
        return false;
    close_record();
    struct iovec pieces[4] = {{output, output_end}};
    output_end = 0;
    int first = pieces[0].iov_len > 0 ? 0 : 1;
    static const char zeros[8];
    while (count > 0) {
        size_t part = count > RECORD_BYTES_MAX ? RECORD_BYTES_MAX : count;
        size_t padding = (8 - part % 8) % 8;
        char head[HEAD_BYTES];
        put_head(head, type, exchange.id, part, padding);
        pieces[1] = (struct iovec){head, HEAD_BYTES};
        pieces[2] = (struct iovec){(char *)bytes, part};
        pieces[3] = (struct iovec){(char *)zeros, padding};
        if (!send_pieces(pieces + first, (padding ? 4 : 3) - first))
            return false;
        first = 1;
        bytes += part;
        count -= part;
    }
    return true;
}

bool fastcgi_write(const char *bytes, size_t count)
{
    return put(STDOUT, bytes, count);
}

bool fastcgi_log(const char *bytes, size_t count)
{
    return put(STDERR, bytes, count);
}

bool fastcgi_flush(void)
{
    if (exchange.is_ended)
        return !exchange.is_broken;
    take_stdin_end();
    return !server_is_gone() && send_output();
}

static void put_end(uint32_t status, int protocol_status, bool goes_on)
{
    close_record();
    if (output_end + 2 * HEAD_BYTES > sizeof output)
        send_output();
    put_head(output + output_end, END_REQUEST, exchange.id, 8, 0);
    const unsigned char body[8] = {
        (unsigned char)(status >> 24), (unsigned char)(status >> 16), (unsigned char)(status >> 8), (unsigned char)status,
        (unsigned char)protocol_status, goes_on, 0, 0,
    };
    memcpy(output + output_end + HEAD_BYTES, body, sizeof body);
    output_end += 2 * HEAD_BYTES;
}

bool fastcgi_end(uint32_t status, bool goes_on)
{
    if (exchange.is_ended)
        return !exchange.is_broken;
    take_stdin_end();
    if (is_draining)
        exchange.is_kept = false;
    /* Only when all of the request has come: what the server still sends would be refused. */
    if (!exchange.is_kept && exchange.is_stdin_ended)
        shutdown(exchange.fd, SHUT_RD);
    put_end(status, STATUS_COMPLETE, goes_on);
    bool is_sent = send_output();
    exchange.is_ended = true;
    return is_sent;
}

void fastcgi_refuse(void)
{
    exchange.is_kept = false;
    put_end(0, STATUS_OVERLOADED, false);
    send_output();
    exchange.is_ended = true;
}

void fastcgi_close(void)
{
    if (exchange.fd >= 0)
        close(exchange.fd);
    exchange.fd = -1;
}

bool fastcgi_has_all(void)
{
    int queued = 0;
    size_t here = input_end - input_at;
    if (ioctl(exchange.fd, FIONREAD, &queued) != 0 || queued < 0)
        return false;
    unsigned char *bytes = malloc(here + (size_t)queued + 1);
    if (!bytes)
        return false;
    memcpy(bytes, input + input_at, here);
    ssize_t peeked = queued > 0 ? recv(exchange.fd, bytes + here, (size_t)queued, MSG_PEEK | MSG_DONTWAIT) : 0;
    size_t end = here + (peeked > 0 ? (size_t)peeked : 0);
    bool is_ended = false;
    for (size_t at = 0; !is_ended && at + HEAD_BYTES <= end;) {
        size_t length = (size_t)bytes[at + 4] << 8 | bytes[at + 5];
        bool is_last = bytes[at + 1] == STDIN && length == 0;
        at += HEAD_BYTES + length + bytes[at + 6];
        is_ended = is_last && at <= end;
    }
    free(bytes);
    return is_ended;
}

bool fastcgi_peer_is_gone(void)
{
    char byte;
    /* Bytes that were taken from the kernel may be all of the request that has come. */
    ssize_t count = recv(exchange.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

/* Parameters. */

static bool keep_raw(size_t count)
{
    if (raw_end + count > PARAMS_BYTES_MAX)
        return false;
    if (raw_end + count > raw_room) {
        raw_room = (raw_end + count) * 2;
        raw = realloc(raw, raw_room);
        if (!raw)
            fail("no memory for a request's parameters");
    }
    size_t taken = take(raw + raw_end, count);
    raw_end += taken;
    return taken == count;
}

static bool pair_length(size_t *at, uint32_t *length)
{
    const unsigned char *bytes = (const unsigned char *)raw;
    if (*at >= raw_end)
        return false;
    *length = bytes[(*at)++];
    if (*length < 128)
        return true;
    if (raw_end - *at < 3)
        return false;
    *length = (*length & 127) << 24 | (uint32_t)bytes[*at] << 16 | (uint32_t)bytes[*at + 1] << 8 | bytes[*at + 2];
    *at += 3;
    return true;
}

/* Takes the parameters apart. False if they are malformed, or too many. */
static bool parse_params(void)
{
    /* A pair has at least two bytes of lengths: that is the room for the ends of its strings. */
    if (texts_room < raw_end + 1) {
        texts_room = raw_room + 1;
        texts = realloc(texts, texts_room);
        if (!texts)
            fail("no memory for a request's parameters");
    }
    char *to = texts;
    for (size_t at = 0; at < raw_end;) {
        uint32_t name_length, value_length;
        if (!pair_length(&at, &name_length) || !pair_length(&at, &value_length))
            return false;
        if (name_length > raw_end - at || value_length > raw_end - at - name_length || exchange.param_count == PARAMS_MAX)
            return false;
        struct param *param = &exchange.params[exchange.param_count++];
        *param = (struct param){to, name_length, to + name_length + 1, value_length};
        memcpy(to, raw + at, name_length);
        to[name_length] = 0;
        memcpy(param->value, raw + at + name_length, value_length);
        param->value[value_length] = 0;
        to += name_length + value_length + 2;
        at += name_length + value_length;
        /* A name that comes twice counts once, with its last value. */
        for (size_t before = 0; before + 1 < exchange.param_count; before++) {
            struct param *other = &exchange.params[before];
            if (other->name_length == name_length && memcmp(other->name, param->name, name_length) == 0) {
                other->value = param->value;
                other->value_length = param->value_length;
                exchange.param_count--;
                break;
            }
        }
    }
    return true;
}

struct param *param_find(const char *name)
{
    size_t length = strlen(name);
    for (size_t at = 0; at < exchange.param_count; at++) {
        struct param *param = &exchange.params[at];
        if (param->name_length == length && memcmp(param->name, name, length) == 0)
            return param;
    }
    return NULL;
}

char *param_get(const char *name)
{
    struct param *param = param_find(name);
    return param ? param->value : NULL;
}

static char *own_text(const char *text)
{
    size_t length = strlen(text) + 1;
    struct own_text *own = malloc(sizeof *own + length);
    if (!own)
        fail("no memory for a request's parameters");
    memcpy(own->text, text, length);
    own->next = own_texts;
    own_texts = own;
    return own->text;
}

char *param_put(const char *name, const char *value)
{
    struct param *param = param_find(name);
    if (!param && !value)
        return NULL;
    if (!param) {
        if (exchange.param_count == PARAMS_MAX)
            return NULL;
        param = &exchange.params[exchange.param_count++];
        param->name = own_text(name);
        param->name_length = (uint32_t)strlen(name);
    }
    param->value = value ? own_text(value) : NULL;
    param->value_length = value ? (uint32_t)strlen(value) : 0;
    return param->value;
}

/* FCGI_GET_VALUES: what a server may ask before it decides how many connections it makes. */
static bool answer_values(const struct head *head)
{
    raw_end = 0;
    exchange.param_count = 0;
    if (!keep_raw(head->length) || !skip(head->padding) || !parse_params())
        return false;
    char body[128];
    size_t end = 0;
    static const struct { const char *name, *value; } KNOWN[] = {
        {"FCGI_MAX_CONNS", "1"}, {"FCGI_MAX_REQS", "1"}, {"FCGI_MPXS_CONNS", "0"},
    };
    for (size_t at = 0; at < sizeof KNOWN / sizeof *KNOWN; at++) {
        if (!param_find(KNOWN[at].name))
            continue;
        size_t length = strlen(KNOWN[at].name);
        body[end++] = (char)length;
        body[end++] = 1;
        memcpy(body + end, KNOWN[at].name, length);
        end += length;
        body[end++] = KNOWN[at].value[0];
    }
    char reply[HEAD_BYTES];
    put_head(reply, GET_VALUES_RESULT, 0, end, 0);
    struct iovec pieces[2] = {{reply, HEAD_BYTES}, {body, end}};
    return send_pieces(pieces, end ? 2 : 1);
}

/* The record that begins a request. False: malformed. */
static bool begin_request(const struct head *head)
{
    if (head->length != 8 || !have(8))
        return false;
    const unsigned char *body = (const unsigned char *)input + input_at;
    int role = body[0] << 8 | body[1];
    exchange.id = head->id;
    exchange.is_kept = body[2] & FLAG_KEEP;
    input_at += 8;
    if (!skip(head->padding))
        return false;
    if (role == ROLE_RESPONDER) {
        /* As FPM has it among its variables. */
        static char name[] = "FCGI_ROLE", value[] = "RESPONDER";
        exchange.params[0] = (struct param){name, sizeof name - 1, value, sizeof value - 1};
        exchange.param_count = 1;
        return true;
    }
    put_end(0, STATUS_UNKNOWN_ROLE, false);
    send_output();
    return false;
}

enum received fastcgi_receive(void)
{
    while (own_texts) {
        struct own_text *next = own_texts->next;
        free(own_texts);
        own_texts = next;
    }
    exchange.param_count = 0;
    exchange.stdin_left = exchange.padding_left = 0;
    exchange.is_stdin_ended = false;
    raw_end = 0;
    bool has_begun = false;
    struct head head;
    for (;;) {
        if (input_at == input_end && !fill())
            return has_begun ? RECEIVED_CUT : RECEIVED_END;
        if (own_slot->state != SLOT_READING) {
            own_slot->idle_since_ms = now_ms();
            own_slot->state = SLOT_READING;
        }
        if (!next_head(&head))
            return has_begun ? RECEIVED_CUT : RECEIVED_END;
        if (head.type == BEGIN_REQUEST && !has_begun) {
            if (!begin_request(&head))
                return RECEIVED_END;
            has_begun = true;
            exchange.is_ended = false;
        } else if (head.type == PARAMS && has_begun && head.id == exchange.id) {
            if (head.length == 0)
                return skip(head.padding) && parse_params() ? RECEIVED_REQUEST : RECEIVED_CUT;
            if (!keep_raw(head.length) || !skip(head.padding))
                return RECEIVED_CUT;
        } else if (head.type == GET_VALUES && !has_begun) {
            if (!answer_values(&head))
                return RECEIVED_END;
            raw_end = 0;
            exchange.param_count = 0;
        } else if (head.type == ABORT_REQUEST && has_begun) {
            return RECEIVED_END;
        } else if (!skip(head.length + head.padding)) {
            return has_begun ? RECEIVED_CUT : RECEIVED_END;
        }
    }
}

size_t fastcgi_read(char *buffer, size_t count)
{
    size_t done = 0;
    while (done < count && !exchange.is_stdin_ended && !exchange.is_broken) {
        if (exchange.stdin_left > 0) {
            size_t part = exchange.stdin_left < count - done ? exchange.stdin_left : count - done;
            size_t taken = take(buffer ? buffer + done : NULL, part);
            done += taken;
            exchange.stdin_left -= (uint32_t)taken;
            exchange.is_broken = taken < part;
            continue;
        }
        struct head head;
        if (!skip(exchange.padding_left) || !next_head(&head)) {
            exchange.is_broken = true;
            break;
        }
        exchange.padding_left = head.padding;
        if (head.type == STDIN && head.id == exchange.id && head.length > 0) {
            exchange.stdin_left = head.length;
        } else if (head.type == STDIN && head.id == exchange.id) {
            exchange.is_stdin_ended = true;
            if (!skip(head.padding))
                exchange.is_broken = true;
            exchange.padding_left = 0;
        } else if (head.type == ABORT_REQUEST || !skip(head.length)) {
            exchange.is_broken = true;
        }
    }
    return done;
}

bool fastcgi_rest(void)
{
    while (!exchange.is_stdin_ended && !exchange.is_broken)
        fastcgi_read(NULL, SIZE_MAX);
    return !exchange.is_broken;
}
