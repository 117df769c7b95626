/* How the pool stands: FPM's status page in its five formats, fpm_get_status(), and the answers of the control socket. */
#include "brisk_php.h"
#include "sapi.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct text {
    char *bytes;
    size_t end, room;
};

static void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *text, const char *format, ...)
{
    for (;;) {
        size_t left = text->room - text->end;
        va_list list;
        va_start(list, format);
        int count = vsnprintf(text->bytes ? text->bytes + text->end : NULL, text->bytes ? left : 0, format, list);
        va_end(list);
        if (text->bytes && (size_t)count < left) {
            text->end += (size_t)count;
            return;
        }
        text->room = text->room * 2 + (size_t)count + 1024;
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes)
            fail("no memory for the status");
    }
}

enum format { PLAIN, HTML, XML, JSON, OPENMETRICS };

/* How many bytes the letter has that begins here, from 2 on; 0: it is not UTF-8 (RFC 3629), or its end was cut off. */
static size_t letter_bytes(const unsigned char *at)
{
    size_t count = at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3 : at[0] >= 0xf0 && at[0] < 0xf5 ? 4 : 0;
    for (size_t more = 1; more < count; more++)
        if ((at[more] & 0xc0) != 0x80)
            return 0;
    bool is_long = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_none = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90) || (at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe);
    return count && !is_long && !is_none ? count : 0;
}

/* A string as the format wants it. A request's URI may have any byte. */
static void put_escaped(struct text *text, enum format format, const char *from)
{
    for (; *from; from++) {
        unsigned char byte = (unsigned char)*from;
        if (byte > 127) {
            size_t letter = letter_bytes((const unsigned char *)from);
            put(text, "%.*s", letter ? (int)letter : 1, letter ? from : "?");
            from += letter ? letter - 1 : 0;
            continue;
        }
        if (format == JSON && (byte == '"' || byte == '\\'))
            put(text, "\\%c", byte);
        else if (format == JSON && byte < 32)
            put(text, "\\u%04x", byte);
        else if ((format == HTML || format == XML) && strchr("<>&\"'", byte))
            put(text, "&#%u;", byte);
        else if (byte < 32 || byte == 127)
            put(text, "?");
        else
            put(text, "%c", byte);
    }
}

struct item {
    const char *name;
    const char *metric; /* of OpenMetrics; null: none */
    const char *kind;
    const char *help;
    const char *text;   /* null: a number */
    uint64_t number;
    bool is_time;       /* wall clock, in seconds */
    int decimals;
    double real;
};

#define ITEMS_MAX 24

static const char *const MANAGERS[] = {"static", "dynamic", "ondemand", "auto"};

static size_t pool_items(struct item *items)
{
    struct summary sum = board_summary();
    unsigned waiting, most;
    backlog(&waiting, &most);
    static uint64_t most_waiting;
    if (waiting > most_waiting)
        most_waiting = waiting;
    size_t end = 0;
#define ITEM(...) items[end++] = (struct item){__VA_ARGS__}
    ITEM("pool", .text = settings.pool);
    ITEM("process manager", .text = MANAGERS[settings.manager]);
    ITEM("start time", .number = board->started_s, .is_time = true);
    ITEM("start since", "start_since", "counter", "The number of seconds since the pool has started.", .number = (now_ms() - board->started_ms) / 1000);
    ITEM("accepted conn", "accepted_connections", "counter", "The number of requests accepted by the pool.", .number = board->accepted);
    ITEM("listen queue", "listen_queue", "gauge", "The number of requests in the queue of pending connections.", .number = waiting);
    ITEM("max listen queue", "max_listen_queue", "counter", "The largest number of requests seen in that queue.", .number = most_waiting);
    ITEM("listen queue len", "listen_queue_length", "gauge", "The size of the queue of pending connections.", .number = most);
    ITEM("idle processes", "idle_processes", "gauge", "The number of idle processes.", .number = sum.idle);
    ITEM("active processes", "active_processes", "gauge", "The number of active processes.", .number = sum.active);
    ITEM("total processes", "total_processes", "gauge", "The number of idle and active processes.", .number = sum.total);
    ITEM("max active processes", "max_active_processes", "counter", "The largest number of active processes since the pool has started.", .number = board->max_active);
    ITEM("max children reached", "max_children_reached", "counter", "How often the limit of processes has been reached.", .number = board->max_children_reached);
    ITEM("slow requests", "slow_requests", "counter", "The number of requests that were slower than request_slowlog_timeout.", .number = board->slow_requests);
    return end;
}

static size_t process_items(struct item *items, const struct slot *slot)
{
    static const char *const STATES[] = {"Free", "Starting", "Idle", "Idle", "Reading headers", "Running", "Finishing"};
    size_t end = 0;
    bool is_running = slot->state == SLOT_RUNNING || slot->state == SLOT_FINISHING;
    /* In this order: a request may begin meanwhile. */
    uint64_t began = slot->began_us, now = now_us();
    uint64_t since_s = (now_ms() - slot->started_ms) / 1000;
    ITEM("pid", .number = (uint64_t)slot->pid);
    ITEM("state", .text = STATES[slot->state]);
    ITEM("start time", .number = (uint64_t)time(NULL) - since_s, .is_time = true);
    ITEM("start since", .number = since_s);
    ITEM("requests", .number = slot->requests);
    ITEM("request duration", .number = is_running ? now - began : slot->duration_us);
    ITEM("request method", .text = slot->method[0] ? slot->method : "-");
    ITEM("request URI", .text = slot->uri[0] ? slot->uri : "-");
    ITEM("content length", .number = slot->content_length);
    ITEM("user", .text = slot->user[0] ? slot->user : "-");
    ITEM("script", .text = slot->script[0] ? slot->script : "-");
    ITEM("last request cpu", .decimals = 2, .real = is_running ? 0 : slot->cpu_percent);
    ITEM("last request memory", .number = is_running ? 0 : slot->memory_bytes);
    return end;
#undef ITEM
}

static void put_value(struct text *text, enum format format, const struct item *item)
{
    char date[64];
    if (item->text) {
        put_escaped(text, format, item->text);
    } else if (item->is_time && format != JSON && format != XML) {
        time_t when = (time_t)item->number;
        struct tm parts;
        localtime_r(&when, &parts);
        strftime(date, sizeof date, "%d/%b/%Y:%H:%M:%S %z", &parts);
        put(text, "%s", date);
    } else if (item->decimals) {
        put(text, "%.*f", item->decimals, item->real);
    } else {
        put(text, "%llu", (unsigned long long)item->number);
    }
}

/* A name as an element or key: XML has hyphens, JSON no capitals. */
static void put_name(struct text *text, enum format format, const char *name)
{
    for (; *name; name++) {
        if (format == XML && *name == ' ')
            put(text, "-");
        else if (format == JSON || format == XML)
            put(text, "%c", *name >= 'A' && *name <= 'Z' ? *name + 32 : *name);
        else
            put(text, "%c", *name);
    }
}

static void put_items(struct text *text, enum format format, const struct item *items, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        const struct item *item = &items[at];
        switch (format) {
        case PLAIN:
            put(text, "%s:%*s", item->name, (int)(21 - strlen(item->name)), "");
            put_value(text, format, item);
            put(text, "\n");
            break;
        case HTML:
            put(text, "<tr><th>%s</th><td>", item->name);
            put_value(text, format, item);
            put(text, "</td></tr>\n");
            break;
        case XML:
            put(text, "<");
            put_name(text, format, item->name);
            put(text, ">");
            put_value(text, format, item);
            put(text, "</");
            put_name(text, format, item->name);
            put(text, ">\n");
            break;
        case JSON:
            put(text, "%s\"", at ? "," : "");
            put_name(text, format, item->name);
            put(text, item->text ? "\":\"" : "\":");
            put_value(text, format, item);
            put(text, item->text ? "\"" : "");
            break;
        case OPENMETRICS:
            if (item->metric)
                put(text, "# HELP phpfpm_%s %s\n# TYPE phpfpm_%s %s\nphpfpm_%s %llu\n", item->metric, item->help, item->metric,
                    item->kind, item->metric, (unsigned long long)item->number);
            break;
        }
    }
}

static bool is_live(const struct slot *slot)
{
    return slot->state != SLOT_FREE && slot->pid != 0;
}

static void put_processes(struct text *text, enum format format)
{
    struct item items[ITEMS_MAX];
    bool is_first = true;
    put(text, format == JSON ? ",\"processes\":[" : format == XML ? "<processes>\n" : "");
    for (int at = 0; at < settings.max_children; at++) {
        const struct slot *slot = &board->slots[at];
        if (!is_live(slot))
            continue;
        static const char *const BEFORE[] = {"\n************************\n", "<table>\n", "<process>\n", "{", ""};
        static const char *const AFTER[] = {"", "</table>\n", "</process>\n", "}", ""};
        put(text, "%s%s", format == JSON && !is_first ? "," : "", BEFORE[format]);
        put_items(text, format, items, process_items(items, slot));
        put(text, "%s", AFTER[format]);
        is_first = false;
    }
    put(text, format == JSON ? "]" : format == XML ? "</processes>\n" : "");
}

static bool asks_for(const char *query, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = query ? query : ""; (at = strstr(at, name)); at++)
        if ((at == query || at[-1] == '&') && (at[length] == 0 || at[length] == '&' || at[length] == '='))
            return true;
    return false;
}

char *status_page(const char *query, const char **type)
{
    static const char *const TYPES[] = {
        "text/plain", "text/html", "text/xml", "application/json", "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    static const char *const BEFORE[] = {
        "", "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\" \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd\">\n"
        "<html xmlns=\"http://www.w3.org/1999/xhtml\" xml:lang=\"en\" lang=\"en\">\n"
        "<head><title>PHP-FPM Status Page</title></head>\n<body>\n<table>\n", "<?xml version=\"1.0\" ?>\n<status>\n",
        "{", "# HELP phpfpm_up Whether the pool could be reached.\n# TYPE phpfpm_up gauge\nphpfpm_up 1\n",
    };
    static const char *const AFTER[] = {"", "</body></html>\n", "</status>\n", "}", "# EOF\n"};
    enum format format = asks_for(query, "html") ? HTML : asks_for(query, "xml") ? XML : asks_for(query, "json") ? JSON
        : asks_for(query, "openmetrics") ? OPENMETRICS : PLAIN;
    struct item items[ITEMS_MAX];
    struct text text = {0};
    *type = TYPES[format];
    put(&text, "%s", BEFORE[format]);
    put_items(&text, format, items, pool_items(items));
    if (format == HTML)
        put(&text, "</table>\n");
    if (asks_for(query, "full") && format != OPENMETRICS)
        put_processes(&text, format);
    put(&text, "%s", AFTER[format]);
    return text.bytes;
}

/* For the server's own command: the page, and what FPM's page does not tell. */
char *status_json(void)
{
    struct item items[ITEMS_MAX];
    struct text text = {0};
    put(&text, "{");
    put_items(&text, JSON, items, pool_items(items));
    put(&text, ",\"max children\":%d,\"php\":\"" PHP_VERSION "\",\"master\":%d,\"wanted\":%u,\"restarts\":%llu,\"crashes\":%llu,\"timeouts\":%llu,\"gone clients\":%llu",
        settings.max_children, (int)getpid(), board->wanted, (unsigned long long)board->restarts, (unsigned long long)board->crashes,
        (unsigned long long)board->timeouts, (unsigned long long)board->gone_clients);
    put(&text, ",\"why\":\"");
    put_escaped(&text, JSON, board->why);
    put(&text, "\"");
    put_processes(&text, JSON);
    put(&text, "}\n");
    return text.bytes;
}

/* What requests have taken, with those that are under way. */
static uint64_t busy_us(void)
{
    uint64_t sum = board->ended_busy_us, now = now_us();
    for (int at = 0; at < settings.max_children; at++) {
        const struct slot *slot = &board->slots[at];
        uint64_t began = slot->began_us;
        sum += slot->pid ? slot->busy_us : 0;
        if (is_live(slot) && slot->state == SLOT_RUNNING && now > began)
            sum += now - began;
    }
    return sum;
}

char *load_text(void)
{
    uint64_t bytes = board_look(), cpu_us = board->ended_cpu_us, runnable_us = board->ended_runnable_us;
    for (int at = 0; at < settings.max_children; at++) {
        const struct slot *slot = &board->slots[at];
        cpu_us += slot->pid ? slot->ran_us : 0;
        runnable_us += slot->pid ? slot->runnable_us : 0;
    }
    struct summary sum = board_summary();
    uint32_t most = __atomic_exchange_n(&board->most_running, board->running, __ATOMIC_RELAXED);
    const struct { const char *name; uint64_t number; } numbers[] = {
        {"requests", board->accepted}, {"answered", board->answered}, {"busy_us", busy_us()}, {"cpu_us", cpu_us}, {"runnable_us", runnable_us},
        {"most_running", most}, {"workers", sum.total}, {"idle", sum.idle}, {"worker_bytes", bytes}, {"crashes", board->crashes},
        {"restarts", board->restarts}, {"timeouts", board->timeouts}, {"slow_requests", board->slow_requests},
        {"max_children_reached", board->max_children_reached}, {"gone_clients", board->gone_clients}, {"wanted", board->wanted},
    };
    struct text text = {0};
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
        put(&text, "%s %llu\n", numbers[at].name, (unsigned long long)numbers[at].number);
    return text.bytes;
}

/* `slot`: the process that they are of; null: they are of the pool. */
static void add_items(zval *array, const struct item *items, size_t count, const struct slot *slot)
{
    for (size_t at = 0; at < count; at++) {
        struct text name = {0};
        /* The function has another name for it than the page, and the query apart. */
        bool is_length = strcmp(items[at].name, "content length") == 0;
        if (is_length && slot)
            add_assoc_string(array, "query-string", slot->query);
        put(&name, "%s", "");
        for (const char *from = is_length ? "request length" : items[at].name; *from; from++)
            put(&name, "%c", *from == ' ' ? '-' : *from >= 'A' && *from <= 'Z' ? *from + 32 : *from);
        if (items[at].text)
            add_assoc_string(array, name.bytes, (char *)items[at].text);
        else if (items[at].decimals)
            add_assoc_double(array, name.bytes, items[at].real);
        else
            add_assoc_long(array, name.bytes, (zend_long)items[at].number);
        free(name.bytes);
    }
}

void status_array(zval *array)
{
    struct item items[ITEMS_MAX];
    array_init(array);
    add_items(array, items, pool_items(items), NULL);
    zval processes;
    array_init(&processes);
    for (int at = 0; at < settings.max_children; at++) {
        if (!is_live(&board->slots[at]))
            continue;
        zval process;
        array_init(&process);
        add_items(&process, items, process_items(items, &board->slots[at]), &board->slots[at]);
        add_next_index_zval(&processes, &process);
    }
    add_assoc_zval(array, "procs", &processes);
}
