/* The pool's access log and slow log, in FPM's formats. */
#include "brisk_php.h"
#include "sapi.h"

#include "zend_execute.h"
#include "zend_llist.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int access_fd = -1;
static int slow_fd = -1;

/* Logs may go where the server's own output goes, as in containers: this process has another one. Gives the descriptor, or -1. */
static int standard_log(const char *path)
{
    static const char *const NAMES[][3] = {{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}, {"/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"}};
    for (int at = 0; at < 6; at++)
        if (strcmp(path, NAMES[at / 3][at % 3]) == 0)
            return at < 3 ? SERVER_OUT_FD : SERVER_ERROR_FD;
    return -1;
}

static int open_log(const char *path)
{
    if (!path)
        return -1;
    int standard = standard_log(path);
    /* A named pipe that nobody reads is an error, and nothing to wait for. */
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
    int fd = standard >= 0 ? fcntl(standard, F_DUPFD_CLOEXEC, 10) : open(path, flags, 0640);
    if (fd < 0)
        say(LEVEL_ERROR, "opening the log \"%s\" of pool %s failed (%s)", path, settings.pool, strerror(errno));
    return fd;
}

/* At the start: the process may still be root's. Workers have no use for the server's own descriptors. */
void logs_open(void)
{
    access_fd = open_log(settings.access_log);
    slow_fd = open_log(settings.slowlog);
    close(SERVER_OUT_FD);
    close(SERVER_ERROR_FD);
}

/* Logs that the server has opened again, since the pool's user may not. Workers have the old ones until they end. */
void log_replace(bool is_slow, int fd)
{
    int *have = is_slow ? &slow_fd : &access_fd;
    if (*have >= 0)
        close(*have);
    *have = fd;
}

struct line {
    char text[2048];
    size_t end;
};

static void put(struct line *line, const char *text)
{
    for (; text && *text && line->end + 1 < sizeof line->text; text++)
        line->text[line->end++] = (unsigned char)*text < 32 ? '.' : *text;
}

static void put_number(struct line *line, const char *format, double value)
{
    char text[64];
    snprintf(text, sizeof text, format, value);
    put(line, text);
}

static void put_time(struct line *line, const char *format)
{
    char text[128];
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    if (strftime(text, sizeof text, *format ? format : "%d/%b/%Y:%H:%M:%S %z", &parts))
        put(line, text);
}

/* A header of the answer, by its name. */
static void put_header(struct line *line, const char *name)
{
    zend_llist_position at;
    size_t length = strlen(name);
    for (sapi_header_struct *header = zend_llist_get_first_ex(&SG(sapi_headers).headers, &at); header;
         header = zend_llist_get_next_ex(&SG(sapi_headers).headers, &at)) {
        if (header->header_len > length && header->header[length] == ':' && strncasecmp(header->header, name, length) == 0) {
            const char *value = header->header + length + 1;
            put(line, value + strspn(value, " "));
            return;
        }
    }
}

static void put_item(struct line *line, char item, const char *argument)
{
    const struct slot *slot = own_slot;
    double seconds = (double)(now_us() - slot->began_us) / 1e6;
    const char *query = slot->query;
    switch (item) {
    case '%': put(line, "%"); break;
    case 'C': put_number(line, "%.2f", worker_cpu_percent()); break;
    case 'd':
        if (strncmp(argument, "milli", 5) == 0)
            put_number(line, "%.3f", seconds * 1e3);
        else if (strncmp(argument, "micro", 5) == 0)
            put_number(line, "%.0f", seconds * 1e6);
        else
            put_number(line, "%.3f", seconds);
        break;
    case 'e': put(line, param_get(argument)); break;
    case 'f': put(line, slot->script); break;
    case 'l': put_number(line, "%.0f", (double)slot->content_length); break;
    case 'm': put(line, slot->method); break;
    case 'M': {
        double bytes = (double)slot->memory_bytes;
        bool is_mega = argument[0] == 'm', is_kilo = argument[0] == 'k';
        put_number(line, "%.0f", is_mega ? bytes / 1048576 : is_kilo ? bytes / 1024 : bytes);
        break;
    }
    case 'n': put(line, settings.pool); break;
    case 'o': put_header(line, argument); break;
    case 'p': put_number(line, "%.0f", (double)getpid()); break;
    case 'P': put_number(line, "%.0f", (double)getppid()); break;
    case 'q': put(line, query); break;
    case 'Q': put(line, *query ? "?" : ""); break;
    case 'r': {
        const char *name = SG(request_info).request_uri;
        put(line, name ? name : "-");
        break;
    }
    case 'R': put(line, param_get("REMOTE_ADDR") ? param_get("REMOTE_ADDR") : "-"); break;
    case 's': put_number(line, "%.0f", SG(sapi_headers).http_response_code); break;
    case 't':
    case 'T': put_time(line, argument); break;
    case 'u': put(line, slot->user[0] ? slot->user : "-"); break;
    default: break;
    }
}

/* access.suppress_path: as in FPM only for plain requests that went well. Whatever brings a query, a body or an error is logged. */
static bool is_suppressed(void)
{
    const struct slot *slot = own_slot;
    const char *name = SG(request_info).request_uri;
    int code = SG(sapi_headers).http_response_code;
    bool is_read = strcmp(slot->method, "GET") == 0 || strcmp(slot->method, "HEAD") == 0;
    if (!name || !is_read || slot->query[0] || slot->content_length > 0 || code < 200 || code > 299)
        return false;
    for (size_t at = 0; at < settings.suppressed_count; at++)
        if (strcmp(settings.suppressed[at].name, name) == 0)
            return true;
    return false;
}

/* One write per request: lines of several workers do not mix. */
void access_log_write(void)
{
    if (access_fd < 0 || is_copy || is_suppressed())
        return;
    struct line line = {.end = 0};
    const char *format = settings.access_format ? settings.access_format : "%R - %u %t \"%m %r%Q%q\" %s";
    for (; *format; format++) {
        char argument[128] = "";
        if (*format != '%' || !format[1]) {
            char one[2] = {*format, 0};
            put(&line, one);
            continue;
        }
        format++;
        if (*format == '{') {
            const char *end = strchr(format, '}');
            if (!end || !end[1])
                break;
            snprintf(argument, sizeof argument, "%.*s", (int)(end - format - 1), format + 1);
            format = end + 1;
        }
        put_item(&line, *format, argument);
    }
    line.text[line.end++] = '\n';
    ssize_t ignored = write(access_fd, line.text, line.end);
    (void)ignored;
}

/*
 * The slow log: where a worker is. The master reads it out of the worker's memory without stopping it; it has forked the worker, so
 * both have the same layout, and what it reads may have changed meanwhile: each address is read by the kernel, which refuses a wrong one.
 */

static bool peek(pid_t pid, const void *from, void *to, size_t count)
{
    struct iovec here = {to, count}, there = {(void *)from, count};
    return from && process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)count;
}

static void peek_string(pid_t pid, const zend_string *from, char *to, size_t room)
{
    zend_string head;
    to[0] = 0;
    if (!peek(pid, from, &head, offsetof(zend_string, val)))
        return;
    size_t length = head.len < room - 1 ? head.len : room - 1;
    if (!peek(pid, (const char *)from + offsetof(zend_string, val), to, length))
        length = 0;
    to[length] = 0;
    for (char *at = to; *at; at++)
        if ((unsigned char)*at < 32)
            *at = '?';
}

/* One call of the trace; gives the one that has called it. */
static const zend_execute_data *trace_call(FILE *out, pid_t pid, const zend_execute_data *at, uint32_t *line)
{
    zend_execute_data call;
    zend_function function;
    char name[128] = "", class_name[128] = "", file[512] = "";
    if (!peek(pid, at, &call, sizeof call))
        return NULL;
    memset(&function, 0, sizeof function);
    if (!call.func || !peek(pid, call.func, &function.type, sizeof function.type))
        return call.prev_execute_data;
    size_t bytes = function.type == ZEND_USER_FUNCTION ? sizeof function.op_array : sizeof function.internal_function;
    if (!peek(pid, call.func, &function, bytes))
        return call.prev_execute_data;
    if (function.common.function_name)
        peek_string(pid, function.common.function_name, name, sizeof name);
    zend_class_entry scope;
    if (function.common.scope && peek(pid, function.common.scope, &scope, sizeof scope))
        peek_string(pid, scope.name, class_name, sizeof class_name);
    fprintf(out, "[%p] %s%s%s()", (const void *)at, class_name, class_name[0] ? "::" : "", name[0] ? name : "[INCLUDE_OR_EVAL]");
    if (function.type == ZEND_USER_FUNCTION) {
        zend_op operation;
        if (peek(pid, call.opline, &operation, sizeof operation))
            *line = operation.lineno;
        peek_string(pid, function.op_array.filename, file, sizeof file);
        fprintf(out, " %s:%u", file, *line);
    }
    fputc('\n', out);
    return call.prev_execute_data;
}

void slow_log_write(struct slot *slot)
{
    int fd = slow_fd >= 0 ? fcntl(slow_fd, F_DUPFD_CLOEXEC, 3) : -1;
    FILE *out = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (!out)
        return;
    char date[64];
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(date, sizeof date, "%d-%b-%Y %H:%M:%S", &parts);
    fprintf(out, "\n[%s]  [pool %s] pid %d\nscript_filename = %s\n", date, settings.pool, (int)slot->pid, slot->script);
    const zend_execute_data *call = NULL;
    uint32_t line = 0;
    if (peek(slot->pid, (const void *)slot->executing, &call, sizeof call))
        for (int depth = 0; call && depth < settings.slowlog_depth; depth++)
            call = trace_call(out, slot->pid, call, &line);
    fclose(out);
    say(LEVEL_WARN, "worker process %d of pool %s is slow: \"%s %s\", script \"%s\" has run for %.3f s", (int)slot->pid, settings.pool,
        slot->method, slot->uri, slot->script, (double)(now_us() - slot->began_us) / 1e6);
}
