/* A worker: accepts connections and answers their requests, until it is told to end or has answered enough. */
#include "brisk_php.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t is_draining;
/* The connection that waits for its next request; -1: none does. */
static volatile sig_atomic_t waiting_fd = -1;
/* Nothing more can come on it: a part of a request may have. */
static volatile sig_atomic_t is_cut_off;

/* Whom it was forked by; 0: nobody yet. */
static pid_t master;

/*
 * The master is gone, which would have ended a request that takes too long (request_terminate_timeout), and without it nobody would: the place
 * in the pool and a processor would be gone for good. SIGALRM ends the process. Called in a handler of a signal.
 */
static void end_in_time(void)
{
    const struct slot *slot = own_slot;
    if (!slot || is_copy)
        return;
    /* The script of worker mode, which has not come to its first request. */
    if (slot->state == SLOT_STARTING)
        alarm(1);
    bool counts = slot_has_request(slot) && (!slot->is_finished || settings.terminate_tracks_finished);
    if (!counts || settings.terminate_timeout_ms <= 0)
        return;
    uint64_t ran_ms = (now_us() - slot->began_us) / 1000, limit_ms = (uint64_t)settings.terminate_timeout_ms;
    alarm(ran_ms < limit_ms ? (unsigned)((limit_ms - ran_ms) / 1000 + 1) : 1);
}

/*
 * SIGQUIT: no further request. A call of accept() that comes after this finds a descriptor that is no socket, one that waits is
 * interrupted; a connection that waits for its next request is shut down for reading, which ends the wait, or leaves a request that
 * has come already.
 */
static void drain(int signal)
{
    (void)signal;
    int error = errno;
    is_draining = 1;
    if (getppid() != master)
        end_in_time();
    dup2(null_fd, listen_fd);
    if (waiting_fd >= 0) {
        shutdown(waiting_fd, SHUT_RD);
        is_cut_off = 1;
    }
    errno = error;
}

/*
 * Before PHP is started: it notes the handlers that it finds then, and restores them with each request. The master has these signals
 * blocked, and reads them in another way.
 */
void worker_catch_signals(void)
{
    struct sigaction action = {.sa_handler = drain};
    sigemptyset(&action.sa_mask);
    sigaction(SIGQUIT, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

bool is_copy;

/*
 * In a child that the script has forked: it goes on with the script, but the answer, the place on the board and the next requests are the worker's.
 * Also called between fork() and exec() of programs that a script starts, so it does only what is allowed there.
 */
static void become_copy(void)
{
    static struct slot own;
    own = *own_slot;
    own_slot = &own;
    is_copy = true;
    is_draining = 1;
    exchange.is_ended = true;
    if (exchange.fd >= 0)
        close(exchange.fd);
    exchange.fd = -1;
}

static void begin_process(struct slot *slot)
{
    own_slot = slot;
    pthread_atfork(NULL, NULL, become_copy);
    slot->started_ms = slot->idle_since_ms = now_ms();
    slot->requests = slot->busy_us = slot->cpu_us = slot->duration_us = 0;
    /* A group of its own: what a script starts ends with it if it is killed. */
    setpgid(0, 0);
    master = getppid();
    /* Without its master a worker finishes what it has begun. */
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (getppid() != master || master == 1)
        is_draining = 1;
    output_become();
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The connection: whether its first request is awaited, and whether one was answered that is not finished with. */
static bool is_fresh, is_answered;
/* Of the present request. */
static double began_cpu_s;

static void begin_request(void)
{
    struct slot *slot = own_slot;
    slot->requests++;
    __atomic_add_fetch(&board->accepted, 1, __ATOMIC_RELAXED);
    if (settings.max_requests > 0 && slot->requests >= (uint64_t)settings.max_requests)
        is_draining = 1;
    slot->is_finished = slot->is_logged_slow = false;
    began_cpu_s = cpu_seconds();
    slot->began_us = now_us();
    slot->state = SLOT_RUNNING;
    board_begin();
}

double worker_cpu_percent(void)
{
    uint64_t took_us = now_us() - own_slot->began_us;
    return took_us ? (cpu_seconds() - began_cpu_s) * 1e8 / (double)took_us : 0;
}

void worker_answered(void)
{
    if (is_copy)
        _exit(0);
    struct slot *slot = own_slot;
    output_end_request();
    disabled_end();
    board_end(slot);
    __atomic_add_fetch(&board->answered, 1, __ATOMIC_RELAXED);
    uint64_t took = now_us() - slot->began_us;
    slot->duration_us = took;
    slot->busy_us += took;
    double ran_us = (cpu_seconds() - began_cpu_s) * 1e6;
    slot->cpu_us += (uint64_t)ran_us;
    slot->cpu_percent = took ? ran_us / (double)took * 100 : 0;
    board->is_warm = is_answered = true;
}

/* The connection ends. A request that was sent on it meanwhile is refused, so that another worker gets it. */
static void end_connection(void)
{
    if (!exchange.is_broken && fastcgi_rest()) {
        shutdown(exchange.fd, SHUT_RD);
        if (fastcgi_receive() != RECEIVED_END)
            fastcgi_refuse();
    }
    fastcgi_close();
}

/* Waits for a request on the present connection. False: the connection has ended. */
static bool receive(void)
{
    /* The time goes before the state that it is of: the master reads both. */
    own_slot->idle_since_ms = now_ms();
    own_slot->state = is_fresh ? SLOT_READING : SLOT_KEPT;
    is_cut_off = 0;
    waiting_fd = exchange.fd;
    if (is_draining) {
        shutdown(exchange.fd, SHUT_RD);
        is_cut_off = 1;
    }
    enum received received = fastcgi_receive();
    waiting_fd = -1;
    /* After this nothing cuts it off: a script never gets a part of a body for the whole. */
    if (received == RECEIVED_REQUEST && is_cut_off && !fastcgi_has_all())
        received = RECEIVED_CUT;
    if (received == RECEIVED_CUT && is_draining) {
        fastcgi_refuse();
        /* Nothing lies unread when it is closed: the server would find an error beside the refusal. */
        if (is_cut_off)
            fastcgi_rest();
    }
    /* A first request that waited in the accept queue may have been given up by now: PHP does not see it. Where this side ended the
       connection, that does not show. */
    bool is_gone = received == RECEIVED_REQUEST && is_fresh && !is_cut_off && fastcgi_peer_is_gone();
    if (is_gone)
        __atomic_add_fetch(&board->gone_clients, 1, __ATOMIC_RELAXED);
    if (received == RECEIVED_REQUEST && !is_gone)
        return true;
    fastcgi_close();
    return false;
}

/* Waits for a connection. False: none comes any more. */
static bool accept_connection(void)
{
    while (!is_draining) {
        own_slot->state = SLOT_ACCEPTING;
        own_slot->idle_since_ms = now_ms();
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            fastcgi_begin(fd);
            is_fresh = true;
            return true;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
            nanosleep(&pause, NULL);
        } else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) {
            return false;
        }
    }
    return false;
}

bool worker_next(void)
{
    if (is_copy)
        _exit(0);
    for (;;) {
        if (is_answered) {
            is_answered = is_fresh = false;
            if (!exchange.is_kept || exchange.is_broken || !fastcgi_rest())
                end_connection();
        }
        if (exchange.fd < 0 && !accept_connection())
            return false;
        if (receive()) {
            begin_request();
            return true;
        }
    }
}

void worker_main(struct slot *slot)
{
    begin_process(slot);
    php_begin_worker();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (settings.worker)
        php_run_worker();
    else
        while (worker_next()) {
            php_answer();
            worker_answered();
        }
    slot->state = SLOT_FINISHING;
    php_end();
    _exit(0);
}
