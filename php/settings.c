/* What the server says of the pool. The server has read and checked it: here only what would be unsafe is refused. */
#include "brisk_php.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct settings settings = {
    .manager = PM_STATIC, .max_children = 1, .max_spawn_rate = 32, .idle_timeout_ms = 10000, .slowlog_depth = 20, .clear_env = true,
    .decorates_output = true,
};

static const char *const LEVELS[] = {"notice", "warn", "error", "alert"};

static int log_fd = STDERR_FILENO;
#define LOG_WAIT_MS 1000
#define LOG_TRIES_MAX 3

void say_begin(void)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    if (fd < 0)
        return;
    log_fd = fd;
    fcntl(log_fd, F_SETFL, O_NONBLOCK | fcntl(log_fd, F_GETFL));
}

/*
 * The log is a pipe that the server's master process reads. A log that is full or closed must not end the pool, and one that is not read (that process
 * was stopped) must not stop it: it is waited for once, and what does not fit then is lost until it is read again.
 */
static void log_write(const struct iovec *pieces, int count)
{
    static bool is_stuck;
    for (int tries = 0;; tries++) {
        bool is_full = writev(log_fd, pieces, count) < 0 && errno == EAGAIN;
        struct pollfd room = {log_fd, POLLOUT, 0};
        if (!is_full || is_stuck || tries == LOG_TRIES_MAX || poll(&room, 1, LOG_WAIT_MS) <= 0) {
            is_stuck = is_full;
            return;
        }
    }
}

static void say_list(enum level level, const char *format, va_list list)
{
    char line[2048];
    int head = snprintf(line, sizeof line, "[%s] ", LEVELS[level]);
    vsnprintf(line + head, sizeof line - head - 1, format, list);
    size_t length = strlen(line);
    /* One line: what comes from requests and scripts must not begin another one, which could have any level. */
    for (char *at = line; at < line + length; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    line[length++] = '\n';
    const struct iovec piece = {line, length};
    log_write(&piece, 1);
}

void say(enum level level, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say_list(level, format, list);
    va_end(list);
}

void say_text(enum level level, const char *text, size_t length, const char *format, ...)
{
    char head[256];
    int begin = snprintf(head, sizeof head, "[%s] ", LEVELS[level]);
    va_list list;
    va_start(list, format);
    vsnprintf(head + begin, sizeof head - (size_t)begin, format, list);
    va_end(list);
    const struct iovec pieces[] = {{head, strlen(head)}, {(void *)text, length}, {(void *)"\n", 1}};
    log_write(pieces, 3);
}

void fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say_list(LEVEL_ALERT, format, list);
    va_end(list);
    _exit(78);
}

static char *read_all(int fd)
{
    size_t have = 0, room = 4096;
    char *text = malloc(room);
    for (;;) {
        if (!text)
            fail("no memory for the settings");
        ssize_t count = read(fd, text + have, room - have - 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            fail("reading the settings failed (%s)", strerror(errno));
        if (count == 0)
            break;
        have += (size_t)count;
        if (have + 1 == room) {
            if (room > 16 * 1024 * 1024)
                fail("the settings are too long");
            room *= 2;
            text = realloc(text, room);
        }
    }
    text[have] = 0;
    return text;
}

static long number(const char *name, const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end)
        fail("the setting %s has the value \"%s\", which is no number", name, text);
    return value;
}

static bool flag(const char *text)
{
    return strcmp(text, "yes") == 0;
}

/* The lists are as long as they are: there are few of them, and they are read once. */
static void push_pair(struct pair **list, size_t *count, const char *name, const char *value)
{
    *list = realloc(*list, (*count + 1) * sizeof **list);
    if (!*list)
        fail("no memory for the settings");
    (*list)[(*count)++] = (struct pair){strdup(name), strdup(value)};
}

static enum manager manager_of(const char *text)
{
    static const char *const NAMES[] = {"static", "dynamic", "ondemand", "auto"};
    for (int at = 0; at < 4; at++)
        if (strcmp(text, NAMES[at]) == 0)
            return (enum manager)at;
    fail("the setting pm has the value \"%s\"", text);
}

/* NAME[KEY] */
static bool keyed(const char *line, const char *name, char **key)
{
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != '[')
        return false;
    char *copy = strdup(line + length + 1);
    char *end = copy ? strrchr(copy, ']') : NULL;
    if (!end)
        return false;
    *end = 0;
    *key = copy;
    return true;
}

static void set(char *name, char *value)
{
    struct settings *s = &settings;
    const struct { const char *name; char **to; } texts[] = {
        {"pool", &s->pool}, {"user", &s->user}, {"group", &s->group}, {"chroot", &s->chroot}, {"chdir", &s->chdir},
        {"php_ini", &s->php_ini}, {"php_ini_folder", &s->php_ini_folder}, {"slowlog", &s->slowlog}, {"worker", &s->worker},
        {"pm.status_path", &s->status_path}, {"ping.path", &s->ping_path}, {"ping.response", &s->ping_response},
        {"access.log", &s->access_log}, {"access.format", &s->access_format},
    };
    const struct { const char *name; int *to; } counts[] = {
        {"pm.max_children", &s->max_children}, {"pm.start_servers", &s->start_servers}, {"pm.min_spare_servers", &s->min_spare},
        {"pm.max_spare_servers", &s->max_spare}, {"pm.max_spawn_rate", &s->max_spawn_rate},
        {"request_slowlog_trace_depth", &s->slowlog_depth},
    };
    const struct { const char *name; long *to; } numbers[] = {
        {"pm.max_requests", &s->max_requests}, {"pm.process_idle_timeout", &s->idle_timeout_ms},
        {"request_terminate_timeout", &s->terminate_timeout_ms}, {"request_slowlog_timeout", &s->slowlog_timeout_ms},
        {"rlimit_files", &s->rlimit_files},
    };
    const struct { const char *name; bool *to; } flags[] = {
        {"request_terminate_timeout_track_finished", &s->terminate_tracks_finished}, {"catch_workers_output", &s->catch_output},
        {"decorate_workers_output", &s->decorates_output},
        {"clear_env", &s->clear_env}, {"process.dumpable", &s->dumpable},
    };
#define EACH(list) for (size_t at = 0; at < sizeof list / sizeof *list; at++) if (strcmp(name, list[at].name) == 0)
    EACH(texts) { *texts[at].to = strdup(value); return; }
    EACH(counts) { *counts[at].to = (int)number(name, value); return; }
    EACH(numbers) { *numbers[at].to = number(name, value); return; }
    EACH(flags) { *flags[at].to = flag(value); return; }
    char *key = NULL;
    if (strcmp(name, "pm") == 0) {
        s->manager = manager_of(value);
    } else if (strcmp(name, "process.priority") == 0) {
        s->has_priority = true;
        s->priority = (int)number(name, value);
    } else if (strcmp(name, "rlimit_core") == 0) {
        s->has_rlimit_core = true;
        s->rlimit_core = strcmp(value, "unlimited") == 0 ? -1 : number(name, value);
    } else if (strcmp(name, "access.suppress_path") == 0) {
        push_pair(&s->suppressed, &s->suppressed_count, value, "");
    } else if (strcmp(name, "security.limit_extensions") == 0) {
        s->extensions = realloc(s->extensions, (s->extension_count + 1) * sizeof *s->extensions);
        s->extensions[s->extension_count++] = strdup(value);
    } else if (keyed(name, "env", &key)) {
        push_pair(&s->env, &s->env_count, key, value);
    } else if (keyed(name, "php_value", &key)) {
        push_pair(&s->values, &s->value_count, key, value);
    } else if (keyed(name, "php_admin_value", &key)) {
        push_pair(&s->admin_values, &s->admin_value_count, key, value);
    } else {
        fail("unknown setting \"%s\": server and pool master are of different versions; install both again", name);
    }
    free(key);
}

void settings_read(int fd)
{
    char *text = read_all(fd);
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        char *tab = strchr(line, '\t');
        if (!end || !tab || tab > end)
            fail("the settings are malformed");
        *end = *tab = 0;
        set(line, tab + 1);
    }
    free(text);
    if (!settings.pool || settings.max_children < 1 || settings.max_children > WORKERS_MAX)
        fail("the settings lack the pool's name, or max_children is not from 1 to %d", WORKERS_MAX);
}
