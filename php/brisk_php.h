/*
 * The master of one PHP pool: what its files share.
 *
 * A pool master is a program that embeds PHP's library. It gets its listening socket from the server, drops its privileges, starts PHP
 * once, and forks workers that answer FastCGI requests. It knows nothing of HTTP, locations or other pools.
 *
 * settings.c  what the server says of the pool       fastcgi.c  the wire
 * board.c     what all processes of the pool see     status.c   the status page and the answers of the control socket
 * request.c   a request's variables as PHP sees them sapi.c     the interface to PHP
 * worker.c    waits for requests                     pool.c     forks and supervises workers
 * loop.c      worker mode                            asked.c    what the server's commands ask of a worker
 * output.c    what workers print                     disabled.c functions that a request may not call
 */
#ifndef BRISK_PHP_H
#define BRISK_PHP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Limits. Units are in the names. */
#define WORKERS_MAX 4096
#define INPUT_BYTES (64 * 1024)
#define OUTPUT_BYTES (32 * 1024)
#define RECORD_BYTES_MAX 65528
/* All parameters of a request: a client's head is at most some 64 KiB, and what the server adds is little. */
#define PARAMS_BYTES_MAX (1024 * 1024)
#define PARAMS_MAX 4096
#define TEXT_BYTES 256
#define CONTROL_CALLERS_MAX 16
#define CONTROL_LINE_BYTES 256
/* So long a worker waits for the head of a request on a connection that it has accepted. */
#define READ_HEAD_MS 5000
/* A worker that was told to end by SIGTERM is killed after this time. */
#define KILL_AFTER_MS 2000
/* The first request of a pool fills OPcache alone, but others do not wait for it longer than this. */
#define WARM_UP_MS 250

/* Settings: one list of names and values, in the order in which they came. */

struct pair {
    char *name;
    char *value;
};

enum manager { PM_STATIC, PM_DYNAMIC, PM_ONDEMAND, PM_AUTO };

struct settings {
    char *pool;
    char *user;
    char *group;
    char *chroot;
    char *chdir;
    char *php_ini;
    char *php_ini_folder;
    char *worker;            /* the script of worker mode; null: each request names its own */
    enum manager manager;
    int max_children;
    int start_servers;
    int min_spare;
    int max_spare;
    int max_spawn_rate;
    long max_requests;
    long idle_timeout_ms;
    long terminate_timeout_ms;
    long slowlog_timeout_ms;
    int slowlog_depth;
    char *slowlog;
    bool terminate_tracks_finished;
    bool catch_output;
    bool decorates_output;
    bool clear_env;
    bool has_priority;
    int priority;
    bool dumpable;
    long rlimit_files;
    long rlimit_core;
    bool has_rlimit_core;
    char *status_path;
    char *ping_path;
    char *ping_response;
    char *access_log;
    char *access_format;
    struct pair *suppressed; /* access.suppress_path: names only */
    size_t suppressed_count;
    char **extensions; /* security.limit_extensions; empty: any */
    size_t extension_count;
    struct pair *env;
    size_t env_count;
    struct pair *values; /* php_value, php_flag */
    size_t value_count;
    struct pair *admin_values;
    size_t admin_value_count;
};

extern struct settings settings;

/* Reads settings from a descriptor until its end: lines of NAME TAB VALUE. Ends the process with a message if it cannot. */
void settings_read(int fd);

/* Messages for the server's error log, one line each: LEVEL TEXT. */
enum level { LEVEL_NOTICE, LEVEL_WARN, LEVEL_ERROR, LEVEL_ALERT };
void say(enum level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with a text behind it that may be long, or hold any byte. */
void say_text(enum level level, const char *text, size_t length, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* From now on messages go where the standard error goes now, also when a worker prints elsewhere. */
void say_begin(void);
/* The same, and ends the process with code 78. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The board: shared memory of master and workers. Each worker writes its own slot, the master reads them. */

enum slot_state { SLOT_FREE, SLOT_STARTING, SLOT_ACCEPTING, SLOT_KEPT, SLOT_READING, SLOT_RUNNING, SLOT_FINISHING };

struct slot {
    volatile pid_t pid;
    volatile int state;
    volatile uint64_t started_ms;     /* of the process */
    volatile uint64_t began_us;       /* of the request; monotonic */
    volatile uint64_t idle_since_ms;
    volatile uint64_t requests;
    volatile uint64_t duration_us;    /* of the last request */
    volatile uint64_t busy_us;        /* of all requests */
    volatile uint64_t cpu_us;         /* that they ran */
    volatile uint64_t memory_bytes;   /* peak of the last request */
    volatile uint64_t content_length;
    volatile double cpu_percent;      /* of the last request */
    volatile bool is_counted;         /* among those that run */
    volatile bool is_finished;        /* fastcgi_finish_request was called, or all was sent */
    /* Of the master: */
    uint64_t ran_us;                  /* that it ran, with the present request, when that was looked at last */
    uint64_t runnable_us;             /* that it waited for a processor, when that was looked at last */
    volatile uint64_t kill_at_ms;     /* 0: not told to end at once */
    volatile bool is_told_to_end;
    volatile bool is_logged_slow;
    volatile bool has_open_line;      /* it has printed a part of a line, which the master keeps */
    char method[16];
    char uri[TEXT_BYTES];
    char query[TEXT_BYTES];
    char script[TEXT_BYTES];
    char user[64];
    const void *volatile executing;   /* where PHP keeps the present call */
};

/* Also while what the script has registered for the end of its request runs (SLOT_FINISHING): the answer is not complete before. */
static inline bool slot_has_request(const struct slot *slot)
{
    return slot->state == SLOT_RUNNING || (slot->state == SLOT_FINISHING && slot->is_counted);
}

struct board {
    volatile uint64_t started_s;      /* wall clock */
    volatile uint64_t started_ms;
    volatile uint64_t accepted;       /* requests */
    volatile uint64_t answered;
    volatile uint64_t slow_requests;
    volatile uint64_t max_active;
    volatile uint64_t max_children_reached;
    volatile uint64_t restarts;
    volatile uint64_t crashes;
    volatile uint64_t timeouts;
    volatile uint64_t gone_clients;   /* requests whose client had gone before PHP saw them */
    volatile uint64_t ended_busy_us, ended_cpu_us, ended_runnable_us; /* of workers that have ended */
    volatile uint32_t running;        /* requests that workers have now, and the most since that was asked */
    volatile uint32_t most_running;
    char why[CONTROL_LINE_BYTES];     /* why as many workers are wanted */
    volatile uint32_t wanted;         /* the most workers of pm auto now; 0: max_children */
    volatile uint64_t folder_changes; /* of .user.ini */
    volatile bool is_warm;            /* a request was answered */
    struct slot slots[];
};

extern struct board *board;
extern struct slot *own_slot;

void board_make(void);
/* Takes or updates fields that PHP's status functions show. */
void board_note(struct slot *slot, const char *method, const char *uri, const char *query, const char *script, const char *user);
uint64_t now_us(void);
uint64_t now_ms(void);

/* Status: the numbers of FPM's page. */
struct summary {
    unsigned idle, active, total;
};
struct summary board_summary(void);
/* A worker begins and ends a request. */
void board_begin(void);
void board_end(struct slot *slot);
/* A worker has ended: what it has used is kept. */
void board_keep(struct slot *slot);
/* Looks how long workers have waited for a processor, and how much memory the largest one has for itself. */
uint64_t board_look(void);
/* Connections that wait to be accepted, and how many may. */
void backlog(unsigned *waiting, unsigned *most);
/* Writes the page in the form that the query asks for into a buffer of its own; gives its type. The caller frees it. */
char *status_page(const char *query, const char **type);
/* What the control socket answers to "status". */
char *status_json(void);
/* What it answers to "load": what the server decides on the number of workers by, as lines of name and number. */
char *load_text(void);

/* The wire. */

struct param {
    char *name;
    uint32_t name_length;
    char *value; /* null: was taken out */
    uint32_t value_length;
};

struct exchange {
    int fd;
    bool is_kept;         /* FCGI_KEEP_CONN */
    bool is_ended;        /* nothing more is sent: it was ended, or the peer is gone */
    bool is_broken;       /* the connection cannot be used any more */
    bool is_stdin_ended;
    uint16_t id;
    uint32_t stdin_left;  /* of the present record */
    uint32_t padding_left;
    struct param params[PARAMS_MAX];
    size_t param_count;
};

extern struct exchange exchange;

enum received { RECEIVED_REQUEST, RECEIVED_END, RECEIVED_CUT };

/* A connection that was just accepted. */
void fastcgi_begin(int fd);
/* Waits for the next request. RECEIVED_CUT: a part came, but the rest cannot come any more. */
enum received fastcgi_receive(void);
/* Reads from the request's body; less than asked for only at its end. */
size_t fastcgi_read(char *buffer, size_t count);
bool fastcgi_write(const char *bytes, size_t count);
/* A message for the server's error log. */
bool fastcgi_log(const char *bytes, size_t count);
bool fastcgi_flush(void);
/*
 * The answer is complete: everything leaves in one write. `goes_on`: the script has more to do, and the connection is closed when that is
 * done. The first reserved byte of the record says so: the server gives this worker's place to no other request meanwhile.
 */
bool fastcgi_end(uint32_t status, bool goes_on);
/* The request was not looked at, and may be given to another worker. */
void fastcgi_refuse(void);
/* After the answer: takes what is left of the request, so that the next one can come. False: the connection is to be closed. */
bool fastcgi_rest(void);
void fastcgi_close(void);
/* Of a request that has been received, on a connection that was shut down for reading: whether its whole body came before. */
bool fastcgi_has_all(void);
/* Whether the peer has closed its side, and nothing of it is left in the kernel. */
bool fastcgi_peer_is_gone(void);

struct param *param_find(const char *name);
char *param_get(const char *name);
/* Sets a parameter; a null value takes it out. The value is copied. */
char *param_put(const char *name, const char *value);

/* The whole life of a pool master; its exit code. */
int pool_master(int argc, char **argv);

/* PHP. */

/* Starts PHP: php.ini, extensions, OPcache, preloading. */
bool php_begin(const char *program);
/* In a worker, after the fork. */
void php_begin_worker(void);
void php_end(void);
/* Answers the request of the exchange. */
void php_answer(void);
/* php_request_startup(), which puts PHP's signal handlers in place only where that is due. False: it failed. */
bool php_start_request(void);
/* What of the request PHP must know before it starts it. */
void request_prepare(void);
bool request_has_script_extension(const char *path);
/* A message for the server's error log, by the request's connection. */
void request_log(const char *message);
/* PHP_VALUE and PHP_ADMIN_VALUE of the request. */
/* By the name that the server has sent: a part of PATH_INFO, of which a script's name may be made, is the client's, and the server's rules of who
   may see these pages are about the name. */
extern enum own_page { NO_PAGE, PING_PAGE, STATUS_PAGE } request_asks_for;

void request_apply_values(void);
/* Whether a setting lists what is disabled: such lists add up. */
bool disabled_is_list(const char *name);
/* Whether something was to be disabled for the request that cannot be. */
bool disabled_refuses(void);
/* What was disabled for the request is there again. */
void disabled_end(void);
/* Readable when a .user.ini that was read may have changed; -1: such changes are not reported. */
int request_folder_events(void);
/* Has workers read them again. */
void request_hear_folders(void);
/* Messages of another request follow. */
void request_begin_log(void);
/* What the status page shows of the request. */
void request_note(void);
/* Answers the request if it is for the status page or the ping. */
bool request_answer_itself(void);
/* Answers what the server's own commands ask. */
bool request_answer_command(void);
/* Runs the script of worker mode until the worker is to end. */
void php_run_worker(void);
const void *php_executing(void);
char *php_status_json(void);

/* Processes. */

extern int listen_fd;
extern int null_fd;
extern volatile sig_atomic_t is_draining;
/* This process is no worker, but a child that a script has forked. */
extern bool is_copy;

/* Before PHP is started. */
void worker_catch_signals(void);
_Noreturn void worker_main(struct slot *slot);
/* Waits for the next request, on the present connection or another one. False: there is none any more. */
bool worker_next(void);
/* Of the present request so far. */
double worker_cpu_percent(void);
/* The request was answered. */
void worker_answered(void);
int pool_main(int control_fd, int lifeline_fd, int ready_fd);

/* What workers print: of the master, for the worker at a place of the board. */
void output_make(void);
/* Readable when workers have printed something; -1: what they print is not caught. */
int output_events(void);
void output_hear(void);
/* Before and after a fork, in the master. False: there are no pipes for it. */
bool output_open(size_t place);
void output_forked(void);
/* The worker has ended: what is left is logged. */
void output_close(size_t place);
/* In the worker. */
void output_become(void);
void output_end_request(void);

/* The server's own standard output and error, for logs that are to go there. */
enum { SERVER_OUT_FD = 8, SERVER_ERROR_FD };

void logs_open(void);
/* Takes a log that was opened again. */
void log_replace(bool is_slow, int fd);
void access_log_write(void);
void slow_log_write(struct slot *slot);

#endif
