/*
 * What workers print, if it is caught (catch_workers_output): each has a pipe of its own for its standard output and one for its errors, so
 * that lines of several workers do not mix, and the log says whose they are. A line ends with a line feed, or with the end of a request, which the
 * worker marks as PHP-FPM's do.
 */
#include "brisk_php.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A longer line is logged in pieces. */
#define LINE_BYTES 8000
/* Of one worker and wake-up: what prints without end must not keep the master from the others. */
#define READS_MAX 16

static const char MARK[] = "\0fscf";
static const char *const NAMES[] = {"output", "error"};

enum { STREAMS = 2 };

struct output {
    int fd;
    size_t end;
    char *line;    /* what has come of the present line; null until something has */
};

static struct output (*outputs)[STREAMS];
static int waiting = -1;
/* Of the worker that is about to be forked. */
static int ends[STREAMS] = {-1, -1};

void output_make(void)
{
    if (!settings.catch_output)
        return;
    outputs = calloc((size_t)settings.max_children, sizeof *outputs);
    waiting = epoll_create1(EPOLL_CLOEXEC);
    if (!outputs || waiting < 0)
        fail("pool %s: what workers print cannot be caught (%s)", settings.pool, strerror(errno));
    for (int at = 0; at < settings.max_children; at++)
        for (int stream = 0; stream < STREAMS; stream++)
            outputs[at][stream].fd = -1;
}

int output_events(void)
{
    return waiting;
}

static void forget_ends(void)
{
    for (int stream = 0; stream < STREAMS; stream++) {
        if (ends[stream] >= 0)
            close(ends[stream]);
        ends[stream] = -1;
    }
}

bool output_open(size_t place)
{
    for (int stream = 0; outputs && stream < STREAMS; stream++) {
        int pipe_ends[2];
        if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
            forget_ends();
            output_close(place);
            return false;
        }
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = place * STREAMS + (size_t)stream};
        fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
        outputs[place][stream].fd = pipe_ends[0];
        ends[stream] = pipe_ends[1];
        if (epoll_ctl(waiting, EPOLL_CTL_ADD, pipe_ends[0], &event) != 0) {
            forget_ends();
            output_close(place);
            return false;
        }
    }
    return true;
}

void output_forked(void)
{
    forget_ends();
}

/* Those of other workers are not kept from their ends by this one. */
void output_become(void)
{
    for (int stream = 0; stream < STREAMS; stream++) {
        dup2(outputs ? ends[stream] : null_fd, stream == 0 ? STDOUT_FILENO : STDERR_FILENO);
        for (int at = 0; outputs && at < settings.max_children; at++)
            if (outputs[at][stream].fd >= 0)
                close(outputs[at][stream].fd);
    }
    forget_ends();
    if (waiting >= 0)
        close(waiting);
    waiting = -1;
}

/* What did not come as a line of its own. */
static void tell(size_t place, int stream, const char *line, size_t length)
{
    if (settings.decorates_output)
        say_text(LEVEL_ERROR, line, length, "worker process %d of pool %s wrote to its standard %s: ", (int)board->slots[place].pid, settings.pool,
                 NAMES[stream]);
    else
        say_text(LEVEL_ERROR, line, length, "PHP: ");
}

static void flush(size_t place, int stream)
{
    struct output *output = &outputs[place][stream];
    if (output->end > 0)
        tell(place, stream, output->line, output->end);
    output->end = 0;
}

/* Whether the line has been ended by the mark, whose bytes may have come one by one. */
static bool takes_mark(struct output *output)
{
    if (output->end < sizeof MARK || memcmp(output->line + output->end - sizeof MARK, MARK, sizeof MARK) != 0)
        return false;
    output->end -= sizeof MARK;
    return true;
}

static void take(size_t place, int stream, const char *bytes, size_t count)
{
    struct output *output = &outputs[place][stream];
    if (!output->line)
        output->line = malloc(LINE_BYTES);
    if (!output->line)
        return;
    for (size_t at = 0; at < count; at++) {
        if (bytes[at] == '\n') {
            /* An empty line is one, too. */
            tell(place, stream, output->line, output->end);
            output->end = 0;
            continue;
        }
        output->line[output->end++] = bytes[at];
        if ((bytes[at] == 0 && takes_mark(output)) || output->end == LINE_BYTES)
            flush(place, stream);
    }
}

/* False: there is nothing more now, or ever. */
static bool read_once(size_t place, int stream)
{
    char bytes[4096];
    struct slot *slot = &board->slots[place];
    /* Before it is read: the worker must not believe that nothing of its line is left. */
    slot->has_open_line = true;
    ssize_t count = read(outputs[place][stream].fd, bytes, sizeof bytes);
    if (count > 0)
        take(place, stream, bytes, (size_t)count);
    slot->has_open_line = outputs[place][0].end > 0 || outputs[place][1].end > 0;
    return count == (ssize_t)sizeof bytes;
}

void output_hear(void)
{
    struct epoll_event events[16];
    int count = epoll_wait(waiting, events, 16, 0);
    for (int at = 0; at < count; at++) {
        size_t place = events[at].data.u64 / STREAMS;
        int stream = (int)(events[at].data.u64 % STREAMS);
        /* A child of the worker may hold the other end open; that it is closed is seen once. */
        if (events[at].events & EPOLLIN)
            for (int reads = 0; reads < READS_MAX && read_once(place, stream); reads++)
                continue;
        else
            epoll_ctl(waiting, EPOLL_CTL_DEL, outputs[place][stream].fd, NULL);
    }
}

void output_close(size_t place)
{
    for (int stream = 0; outputs && stream < STREAMS; stream++) {
        struct output *output = &outputs[place][stream];
        if (output->fd < 0)
            continue;
        for (int reads = 0; reads < READS_MAX && read_once(place, stream); reads++)
            continue;
        flush(place, stream);
        close(output->fd);
        free(output->line);
        *output = (struct output){.fd = -1};
    }
}

/* In a worker: the request has ended, and with it its last line. Nothing is written where nothing waits to be ended. */
void output_end_request(void)
{
    for (int stream = 0; settings.catch_output && stream < STREAMS; stream++) {
        int fd = stream == 0 ? STDOUT_FILENO : STDERR_FILENO, left = 0;
        if ((ioctl(fd, FIONREAD, &left) == 0 && left > 0) || own_slot->has_open_line) {
            ssize_t ignored = write(fd, MARK, sizeof MARK);
            (void)ignored;
        }
    }
}
