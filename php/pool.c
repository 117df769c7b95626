/*
 * The pool: workers are forked, replaced and told to end. The master answers no requests and runs no script.
 *
 * How many workers there are: static, always max_children; dynamic and ondemand as in FPM, but a connection that waits while no worker
 * accepts has one forked at once; auto, one per core and more while connections wait, up to max_children or what the server has set.
 */
#include "brisk_php.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int listen_fd = -1;
int null_fd = -1;

enum stage { SERVING, DRAINING };

static struct {
    enum stage stage;
    uint64_t kill_all_at_ms;   /* while draining; 0: workers may take their time */
    int signals, control, lifeline, ready, edges;
    int callers[CONTROL_CALLERS_MAX];
    char said[CONTROL_CALLERS_MAX][CONTROL_LINE_BYTES];
    unsigned next_caller;      /* that gives its place up */
    uint64_t look_at_ms;       /* a connection may wait for a worker; 0: none does */
    uint64_t tick_at_ms;
    uint64_t fork_not_before_ms;
    uint64_t pause_ms;         /* after workers that died young */
    int failed_starts;         /* such deaths since a worker last was of use */
    int spawn_rate;            /* of dynamic: doubles while idle workers are missing */
    bool is_filling;           /* dynamic: up to start_servers */
    bool is_warm;              /* OPcache has what the first request needs */
    bool is_at_limit;
} pool;

/* The tick: ages of requests and idle workers are looked at so often. */
#define TICK_MS 1000
#define LOOK_MS 2
/* A worker whose connection is kept is taken from it for another caller after this time. */
#define KEPT_MS 50
#define PAUSE_MS_MIN 100
#define PAUSE_MS_MAX 5000
#define YOUNG_MS 1000
/* So many workers in turn end before they can take a request, while no other one does: then the pool gives up. */
#define FAILED_STARTS_MAX 3
#define END_MS 10000

static struct slot *slot_of(pid_t pid)
{
    for (int at = 0; at < settings.max_children; at++)
        if (board->slots[at].pid == pid)
            return &board->slots[at];
    return NULL;
}

/* Workers that are not told to end, and those of them that wait in accept(). */
static int count_workers(int *accepting)
{
    int total = 0;
    *accepting = 0;
    for (int at = 0; at < settings.max_children; at++) {
        const struct slot *slot = &board->slots[at];
        if (slot->pid == 0 || slot->is_told_to_end)
            continue;
        total++;
        if (slot->state == SLOT_ACCEPTING || slot->state == SLOT_STARTING)
            ++*accepting;
    }
    return total;
}

static void forget_master(void)
{
    close(pool.signals);
    close(pool.edges);
    if (pool.control >= 0)
        close(pool.control);
    if (pool.lifeline >= 0)
        close(pool.lifeline);
    if (pool.ready >= 0)
        close(pool.ready);
    for (int at = 0; at < CONTROL_CALLERS_MAX; at++)
        if (pool.callers[at] >= 0)
            close(pool.callers[at]);
}

/* Whether any worker takes requests, or would if it had none. */
static bool is_any_up(void)
{
    for (int at = 0; at < settings.max_children; at++)
        if (board->slots[at].pid && board->slots[at].state >= SLOT_ACCEPTING)
            return true;
    return false;
}

static bool is_any_alive(void)
{
    for (int at = 0; at < settings.max_children; at++)
        if (board->slots[at].pid)
            return true;
    return false;
}

/*
 * A worker has ended before it could take a request. Without any that can, the pool is of no use, and requests would wait for nothing: it ends, and
 * the server refuses them until another pool master serves. A start fails with the first worker that says so by itself (a script of worker mode
 * with an error); crashes may be bad luck.
 */
static void give_up_if_hopeless(bool by_itself)
{
    pool.failed_starts++;
    bool is_start = pool.ready >= 0;
    if (pool.stage == SERVING && !is_any_up() && ((is_start && by_itself) || pool.failed_starts >= FAILED_STARTS_MAX))
        fail("pool %s ends: its workers end before they can take a request; what they say stands above", settings.pool);
}

static bool fork_worker(void)
{
    struct slot *slot = slot_of(0);
    uint64_t now = now_ms();
    if (!slot || now < pool.fork_not_before_ms)
        return false;
    memset(slot, 0, sizeof *slot);
    slot->state = SLOT_STARTING;
    slot->started_ms = now;
    size_t place = (size_t)(slot - board->slots);
    pid_t pid = output_open(place) ? fork() : -1;
    if (pid == 0) {
        slot->pid = getpid();
        forget_master();
        worker_main(slot);
    }
    int error = errno;
    output_forked();
    if (pid < 0) {
        say(LEVEL_ERROR, "forking a worker of pool %s failed (%s)", settings.pool, strerror(error));
        output_close(place);
        slot->state = SLOT_FREE;
        /* One that was forked before may still be starting: a pool with fewer workers than it wants is of use. */
        if (pool.ready >= 0 && !is_any_alive())
            fail("pool %s ends: it has no worker, and cannot fork one (%s)", settings.pool, strerror(error));
        pool.fork_not_before_ms = now + PAUSE_MS_MAX;
        return false;
    }
    slot->pid = pid;
    return true;
}

static void tell_to_end(struct slot *slot)
{
    slot->is_told_to_end = true;
    kill(slot->pid, SIGQUIT);
}

/* Ends a worker and what it has started: SIGTERM, and SIGKILL if that does not help. */
static void terminate(struct slot *slot, uint64_t now)
{
    slot->is_told_to_end = true;
    slot->kill_at_ms = now + KILL_AFTER_MS;
    if (kill(-slot->pid, SIGTERM) != 0)
        kill(slot->pid, SIGTERM);
}

/* The worker that has been idle for longest: its caches are the coldest. */
static struct slot *longest_idle(void)
{
    struct slot *found = NULL;
    for (int at = 0; at < settings.max_children; at++) {
        struct slot *slot = &board->slots[at];
        bool is_idle = slot->state == SLOT_ACCEPTING || slot->state == SLOT_KEPT;
        if (slot->pid && is_idle && !slot->is_told_to_end && (!found || slot->idle_since_ms < found->idle_since_ms))
            found = slot;
    }
    return found;
}

/*
 * Whether OPcache is still to be filled by one worker alone: until its first answer, unless something takes that one long. The script of worker
 * mode has loaded what it needs when it waits for its first request.
 */
static bool is_warming_up(void)
{
    uint64_t now = now_ms();
    pool.is_warm = pool.is_warm || board->is_warm;
    for (int at = 0; at < settings.max_children && !pool.is_warm; at++) {
        const struct slot *slot = &board->slots[at];
        int state = slot->state;
        uint64_t since = state == SLOT_STARTING ? slot->started_ms : state == SLOT_READING ? slot->idle_since_ms : slot->began_us / 1000;
        if (slot->pid)
            pool.is_warm = state == SLOT_ACCEPTING ? settings.worker != NULL : now > since + WARM_UP_MS;
    }
    return !pool.is_warm;
}

static int limit(void)
{
    if (is_warming_up())
        return 1;
    if (settings.manager != PM_AUTO)
        return settings.max_children;
    int wanted = (int)board->wanted;
    return wanted < 1 || wanted > settings.max_children ? settings.max_children : wanted;
}

/*
 * All workers are there, and a connection waits: one of them may wait for the next request of a connection that its server only keeps,
 * while another caller has none. That worker ends without losing anything, and its successor accepts.
 */
static void free_kept_worker(void)
{
    struct slot *slot = longest_idle();
    if (slot && slot->state == SLOT_KEPT && now_ms() > slot->idle_since_ms + KEPT_MS)
        tell_to_end(slot);
}

/* A connection may wait that no worker accepts. */
static void look_at_queue(int total, int accepting)
{
    unsigned waiting, most;
    struct pollfd poll_listen = {listen_fd, POLLIN, 0};
    if (poll(&poll_listen, 1, 0) <= 0) {
        pool.look_at_ms = 0;
        pool.is_at_limit = false;
        return;
    }
    backlog(&waiting, &most);
    int missing = (int)(waiting ? waiting : 1) - accepting;
    if (missing > settings.max_spawn_rate)
        missing = settings.max_spawn_rate;
    for (; missing > 0 && total < limit() && fork_worker(); missing--)
        total++;
    if (missing > 0)
        free_kept_worker();
    if (missing > 0 && total >= settings.max_children && !pool.is_at_limit && settings.manager != PM_STATIC) {
        pool.is_at_limit = true;
        board->max_children_reached++;
        say(LEVEL_WARN, "pool %s has reached pm.max_children (%d) with %u connections waiting", settings.pool, settings.max_children, waiting);
    }
    pool.look_at_ms = now_ms() + (total < limit() ? LOOK_MS : pool.is_warm ? 100 : 10);
}

static void keep_dynamic(int total)
{
    int idle = 0;
    for (int at = 0; at < settings.max_children; at++) {
        const struct slot *slot = &board->slots[at];
        bool is_idle = slot->state == SLOT_ACCEPTING || slot->state == SLOT_KEPT || slot->state == SLOT_STARTING;
        idle += slot->pid && is_idle && !slot->is_told_to_end;
    }
    if (idle > settings.max_spare) {
        struct slot *slot = longest_idle();
        if (slot)
            tell_to_end(slot);
        pool.spawn_rate = 1;
    } else if (idle < settings.min_spare) {
        int count = settings.min_spare - idle;
        if (count > pool.spawn_rate)
            count = pool.spawn_rate;
        bool has_forked = false;
        for (; count > 0 && total < limit() && fork_worker(); count--, has_forked = true)
            total++;
        /* While the first worker is alone the shortage is no sign of a burst. */
        if (has_forked)
            pool.spawn_rate = pool.spawn_rate * 2 > settings.max_spawn_rate ? settings.max_spawn_rate : pool.spawn_rate * 2;
    } else {
        pool.spawn_rate = 1;
    }
}

/* Ends workers that have been idle for long, but for `keep` of them. */
static void end_idle(uint64_t now, int total, int keep)
{
    struct slot *slot;
    for (; total > keep && (slot = longest_idle()) && now >= slot->idle_since_ms + (uint64_t)settings.idle_timeout_ms; total--)
        tell_to_end(slot);
}

/* Workers of pm auto that stay when nothing is asked, and of dynamic at the start. */
static int least(void)
{
    return settings.start_servers < limit() ? settings.start_servers : limit();
}

/* Brings the number of workers to what it is to be. */
static void keep_number(uint64_t now, bool is_tick)
{
    int accepting, total = count_workers(&accepting);
    switch (settings.manager) {
    case PM_STATIC:
        while (total < limit() && fork_worker())
            total++;
        break;
    case PM_AUTO:
        while (total < least() && fork_worker())
            total++;
        for (struct slot *slot; total > limit() && (slot = longest_idle()); total--)
            tell_to_end(slot);
        if (is_tick)
            end_idle(now, total, least());
        break;
    case PM_DYNAMIC:
        pool.is_filling = pool.is_filling || total < 1;
        while (pool.is_filling && total < least() && fork_worker())
            total++;
        pool.is_filling = pool.is_filling && total < settings.start_servers;
        if (is_tick)
            keep_dynamic(total);
        break;
    case PM_ONDEMAND:
        if (is_tick)
            end_idle(now, total, 0);
        break;
    }
    total = count_workers(&accepting);
    if (pool.look_at_ms && now >= pool.look_at_ms)
        look_at_queue(total, accepting);
}

/* Of a request that a worker may have begun since the clock was read. */
static uint64_t age_ms(const struct slot *slot, uint64_t now)
{
    uint64_t began = slot->began_us / 1000;
    return now > began ? now - began : 0;
}

/*
 * A connection on which a request does not come, or not all of its head: the server sends it at once, so somebody else holds the worker, as a
 * script can that connects to its own pool. The worker ends, which costs nobody a request, and its successor accepts.
 */
static void look_at_silence(struct slot *slot, uint64_t now)
{
    if (slot->state != SLOT_READING || slot->is_told_to_end || now < slot->idle_since_ms + READ_HEAD_MS)
        return;
    say(LEVEL_WARN, "worker process %d of pool %s is replaced: a connection to the pool sent no request for %d s", (int)slot->pid,
        settings.pool, READ_HEAD_MS / 1000);
    tell_to_end(slot);
}

/* The script of worker mode, which has not come to its first request: nobody else would end one that never does. */
static void look_at_start(struct slot *slot, uint64_t now)
{
    if (slot->state != SLOT_STARTING || settings.terminate_timeout_ms <= 0 || now < slot->started_ms + (uint64_t)settings.terminate_timeout_ms)
        return;
    say(LEVEL_WARN, "worker process %d of pool %s is ended: it has not come to its first request in %lld s (request_terminate_timeout)",
        (int)slot->pid, settings.pool, (long long)settings.terminate_timeout_ms / 1000);
    board->timeouts++;
    terminate(slot, now);
}

/* Requests that take too long. */
static void look_at_ages(uint64_t now)
{
    for (int at = 0; at < settings.max_children; at++) {
        struct slot *slot = &board->slots[at];
        if (!slot->pid)
            continue;
        if (slot->kill_at_ms && now >= slot->kill_at_ms) {
            if (kill(-slot->pid, SIGKILL) != 0)
                kill(slot->pid, SIGKILL);
            slot->kill_at_ms = now + KILL_AFTER_MS;
        }
        look_at_silence(slot, now);
        if (slot->kill_at_ms)
            continue;
        look_at_start(slot, now);
        if (!slot_has_request(slot))
            continue;
        uint64_t age = age_ms(slot, now);
        if (settings.slowlog_timeout_ms && age >= (uint64_t)settings.slowlog_timeout_ms && !slot->is_logged_slow) {
            slot->is_logged_slow = true;
            board->slow_requests++;
            slow_log_write(slot);
        }
        bool counts = !slot->is_finished || settings.terminate_tracks_finished;
        if (settings.terminate_timeout_ms && age >= (uint64_t)settings.terminate_timeout_ms && counts) {
            say(LEVEL_WARN, "worker process %d of pool %s is ended: its request took %.3f s (request_terminate_timeout), \"%s %s\", script \"%s\"",
                (int)slot->pid, settings.pool, (double)age / 1000, slot->method, slot->uri, slot->script);
            board->timeouts++;
            terminate(slot, now);
        }
    }
}

static void reaped(pid_t pid, int status)
{
    struct slot *slot = slot_of(pid);
    if (!slot)
        return;
    uint64_t now = now_ms();
    bool was_running = slot->state == SLOT_RUNNING || slot->state == SLOT_READING;
    if (WIFSIGNALED(status) && !slot->is_told_to_end) {
        board->crashes++;
        say(LEVEL_ERROR, "worker process %d of pool %s exited on signal %d%s%s%s%s%s%s", (int)pid, settings.pool, WTERMSIG(status),
            was_running ? " while it answered \"" : "", was_running ? slot->method : "", was_running ? " " : "",
            was_running ? slot->uri : "", was_running ? "\", script " : "", was_running ? slot->script : "");
    } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        say(LEVEL_ERROR, "worker process %d of pool %s exited with code %d", (int)pid, settings.pool, WEXITSTATUS(status));
    }
    /* What the script has started and what is left of its group ends with it. */
    if (slot->kill_at_ms)
        kill(-pid, SIGKILL);
    bool was_of_use = slot->is_told_to_end || slot->requests > 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    bool has_failed = !was_of_use && (slot->state == SLOT_STARTING || now < slot->started_ms + YOUNG_MS);
    if (has_failed) {
        pool.pause_ms = pool.pause_ms ? pool.pause_ms * 2 : PAUSE_MS_MIN;
        if (pool.pause_ms > PAUSE_MS_MAX)
            pool.pause_ms = PAUSE_MS_MAX;
        pool.fork_not_before_ms = now + pool.pause_ms;
    } else {
        pool.pause_ms = 0;
        pool.failed_starts = 0;
    }
    board->restarts++;
    output_close((size_t)(slot - board->slots));
    board_keep(slot);
    board_end(slot);
    slot->pid = 0;
    slot->state = SLOT_FREE;
    slot->is_told_to_end = false;
    slot->kill_at_ms = 0;
    /* Whoever waits may have waited for this one. */
    pool.look_at_ms = pool.look_at_ms ? pool.look_at_ms : now;
    if (has_failed)
        give_up_if_hopeless(WIFEXITED(status));
}

static void tell_all_to_end(void)
{
    for (int at = 0; at < settings.max_children; at++)
        if (board->slots[at].pid)
            tell_to_end(&board->slots[at]);
}

static void begin_draining(uint64_t limit_ms)
{
    uint64_t now = now_ms();
    if (pool.stage == SERVING) {
        tell_all_to_end();
        if (pool.control >= 0)
            close(pool.control);
        pool.control = -1;
    }
    pool.stage = DRAINING;
    if (limit_ms && !pool.kill_all_at_ms)
        pool.kill_all_at_ms = now + limit_ms;
}

static void terminate_all(void)
{
    uint64_t now = now_ms();
    begin_draining(KILL_AFTER_MS);
    for (int at = 0; at < settings.max_children; at++)
        if (board->slots[at].pid && !board->slots[at].kill_at_ms)
            terminate(&board->slots[at], now);
}

static void read_signals(void)
{
    struct signalfd_siginfo info;
    while (read(pool.signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int status;
        switch (info.ssi_signo) {
        case SIGCHLD:
            for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
                reaped(pid, status);
            break;
        case SIGQUIT: begin_draining(0); break;
        default: terminate_all(); break;
        }
    }
}

/* The control socket: one line, one answer. */

/* To a caller that takes it within a second or so: one that reads byte by byte, as a script can, must not keep the master. */
static void send_all(int fd, const char *text)
{
    struct timeval part = {.tv_usec = 100 * 1000};
    uint64_t until = now_ms() + 1000;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &part, sizeof part);
    for (size_t left = strlen(text); left > 0 && now_ms() < until;) {
        ssize_t count = send(fd, text, left, MSG_NOSIGNAL);
        if (count <= 0 && errno != EINTR && errno != EAGAIN)
            return;
        if (count > 0) {
            text += count;
            left -= (size_t)count;
        }
    }
}

/* "log access" or "log slow", with the file's descriptor: workers that have the old one finish what they have begun. */
static void change_log(const char *which, int file)
{
    log_replace(strcmp(which, "slow") == 0, file);
    if (strcmp(which, "access") == 0)
        tell_all_to_end();
}

/* `file`: the descriptor that came with the order; -1: none. */
static void obey(int fd, const char *order, int file)
{
    if (file >= 0 && strncmp(order, "log ", 4) == 0) {
        change_log(order + 4, file);
        send_all(fd, "done\n");
        return;
    }
    if (file >= 0)
        close(file);
    if (strcmp(order, "status") == 0) {
        char *text = status_json();
        send_all(fd, text);
        free(text);
    } else if (strcmp(order, "load") == 0) {
        char *text = load_text();
        send_all(fd, text);
        free(text);
    } else if (strncmp(order, "size ", 5) == 0 && atoi(order + 5) > 0) {
        const char *why = strchr(order + 5, ' ');
        board->wanted = (uint32_t)atoi(order + 5);
        snprintf(board->why, sizeof board->why, "%s", why ? why + 1 : "");
        send_all(fd, "done\n");
    } else {
        send_all(fd, "unknown order\n");
    }
}

/* Reads from a caller; a descriptor that comes along is left in `file`. */
static ssize_t read_caller(int fd, char *to, size_t room, int *file)
{
    struct iovec piece = {to, room};
    char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t count = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(file, CMSG_DATA(head), sizeof *file);
    return count;
}

static void hear(int place)
{
    int fd = pool.callers[place], file = -1;
    char *said = pool.said[place];
    size_t had = strlen(said);
    ssize_t count = read_caller(fd, said + had, sizeof pool.said[place] - had - 1, &file);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count > 0) {
        said[had + (size_t)count] = 0;
        char *end = strchr(said, '\n');
        /* A descriptor comes with a whole order or is refused. */
        if (!end && file < 0 && had + (size_t)count + 1 < sizeof pool.said[place])
            return;
        if (end) {
            *end = 0;
            obey(fd, said, file);
        } else if (file >= 0) {
            close(file);
        }
    }
    close(fd);
    pool.callers[place] = -1;
}

/* A caller says what it wants at once: where all places are taken, the next one gets them in turn. */
static void take_caller(void)
{
    int fd = accept4(pool.control, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    int place = 0;
    while (place < CONTROL_CALLERS_MAX && pool.callers[place] >= 0)
        place++;
    if (place == CONTROL_CALLERS_MAX) {
        place = pool.next_caller++ % CONTROL_CALLERS_MAX;
        close(pool.callers[place]);
    }
    pool.callers[place] = fd;
    pool.said[place][0] = 0;
}

/* Says that it serves, once a worker accepts connections; or at once where workers come only on demand. */
static void tell_ready(void)
{
    if (pool.ready < 0 || (settings.manager != PM_ONDEMAND && !is_any_up()))
        return;
    ssize_t ignored = write(pool.ready, "ready\n", 6);
    (void)ignored;
    close(pool.ready);
    pool.ready = -1;
}

static int wait_ms(uint64_t now)
{
    uint64_t until = pool.tick_at_ms;
    if (pool.look_at_ms && pool.look_at_ms < until)
        until = pool.look_at_ms;
    if (pool.fork_not_before_ms > now && pool.fork_not_before_ms < until)
        until = pool.fork_not_before_ms;
    if (pool.ready >= 0 && now + 2 < until)
        until = now + 2;
    return until > now ? (int)(until - now) : 0;
}

static void wait_and_hear(void)
{
    enum { SIGNALS, LIFELINE, CONTROL, EDGES, FOLDERS, OUTPUT, CALLERS };
    struct pollfd waits[CALLERS + CONTROL_CALLERS_MAX] = {
        {pool.signals, POLLIN, 0}, {pool.lifeline, POLLIN, 0}, {pool.control, POLLIN, 0}, {pool.edges, POLLIN, 0},
        {request_folder_events(), POLLIN, 0}, {output_events(), POLLIN, 0},
    };
    for (int at = 0; at < CONTROL_CALLERS_MAX; at++)
        waits[CALLERS + at] = (struct pollfd){pool.callers[at], POLLIN, 0};
    if (poll(waits, CALLERS + CONTROL_CALLERS_MAX, wait_ms(now_ms())) <= 0)
        return;
    if (waits[SIGNALS].revents)
        read_signals();
    if (waits[LIFELINE].revents & (POLLHUP | POLLERR)) {
        say(LEVEL_NOTICE, "the server of pool %s has ended, and the pool ends", settings.pool);
        close(pool.lifeline);
        pool.lifeline = -1;
        begin_draining(END_MS);
    }
    if (waits[CONTROL].revents && pool.control >= 0)
        take_caller();
    if (waits[EDGES].revents) {
        struct epoll_event event;
        epoll_wait(pool.edges, &event, 1, 0);
        if (!pool.look_at_ms)
            pool.look_at_ms = now_ms() + (settings.manager == PM_ONDEMAND ? 0 : LOOK_MS);
    }
    if (waits[FOLDERS].revents)
        request_hear_folders();
    if (waits[OUTPUT].revents)
        output_hear();
    for (int at = 0; at < CONTROL_CALLERS_MAX; at++)
        if (waits[CALLERS + at].revents && pool.callers[at] >= 0)
            hear(at);
}

static void begin(int control_fd, int lifeline_fd, int ready_fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    sigset_t own;
    sigemptyset(&own);
    static const int SIGNALS[] = {SIGCHLD, SIGQUIT, SIGTERM, SIGINT};
    for (size_t at = 0; at < sizeof SIGNALS / sizeof *SIGNALS; at++)
        sigaddset(&own, SIGNALS[at]);
    pool.signals = signalfd(-1, &own, SFD_NONBLOCK | SFD_CLOEXEC);
    pool.edges = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    if (pool.signals < 0 || pool.edges < 0 || epoll_ctl(pool.edges, EPOLL_CTL_ADD, listen_fd, &event) != 0)
        fail("pool %s could not begin to wait (%s)", settings.pool, strerror(errno));
    pool.control = control_fd;
    pool.lifeline = lifeline_fd;
    pool.ready = ready_fd;
    pool.spawn_rate = 1;
    pool.tick_at_ms = now_ms() + TICK_MS;
    for (int at = 0; at < CONTROL_CALLERS_MAX; at++)
        pool.callers[at] = -1;
}

int pool_main(int control_fd, int lifeline_fd, int ready_fd)
{
    begin(control_fd, lifeline_fd, ready_fd);
    for (;;) {
        uint64_t now = now_ms();
        bool is_tick = now >= pool.tick_at_ms;
        if (is_tick) {
            pool.tick_at_ms = now + TICK_MS;
            board_summary();
        }
        if (pool.stage == SERVING)
            keep_number(now, is_tick);
        if (is_tick || pool.stage == DRAINING)
            look_at_ages(now);
        if (pool.kill_all_at_ms && now >= pool.kill_all_at_ms)
            terminate_all();
        if (pool.stage == DRAINING) {
            bool is_empty = true;
            for (int at = 0; at < settings.max_children; at++)
                is_empty = is_empty && board->slots[at].pid == 0;
            if (is_empty)
                return 0;
        }
        tell_ready();
        wait_and_hear();
    }
}
