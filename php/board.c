/* What all processes of the pool see. A slot is written by its worker; what the master writes in it is named there. */
#include "brisk_php.h"

#include <linux/sock_diag.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct board *board;
struct slot *own_slot;

uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t now_ms(void)
{
    return now_us() / 1000;
}

void board_make(void)
{
    size_t bytes = sizeof *board + (size_t)settings.max_children * sizeof board->slots[0];
    board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        fail("no memory for the pool's board");
    board->started_s = (uint64_t)time(NULL);
    board->started_ms = now_ms();
}

static void put(char *to, size_t room, const char *text)
{
    size_t length = text ? strlen(text) : 0;
    if (length >= room)
        length = room - 1;
    if (length)
        memcpy(to, text, length);
    to[length] = 0;
}

void board_note(struct slot *slot, const char *method, const char *uri, const char *query, const char *script, const char *user)
{
    put(slot->method, sizeof slot->method, method);
    put(slot->uri, sizeof slot->uri, uri);
    put(slot->query, sizeof slot->query, query);
    put(slot->script, sizeof slot->script, script);
    put(slot->user, sizeof slot->user, user);
}

static bool is_idle(int state)
{
    return state == SLOT_STARTING || state == SLOT_ACCEPTING || state == SLOT_KEPT;
}

struct summary board_summary(void)
{
    struct summary sum = {0, 0, 0};
    for (int at = 0; at < settings.max_children; at++) {
        const struct slot *slot = &board->slots[at];
        if (slot->state == SLOT_FREE || slot->pid == 0)
            continue;
        sum.total++;
        if (is_idle(slot->state))
            sum.idle++;
        else
            sum.active++;
    }
    if (sum.active > board->max_active)
        board->max_active = sum.active;
    return sum;
}

void board_begin(void)
{
    own_slot->is_counted = true;
    uint32_t now = __atomic_add_fetch(&board->running, 1, __ATOMIC_RELAXED);
    uint32_t most = board->most_running;
    while (now > most && !__atomic_compare_exchange_n(&board->most_running, &most, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

void board_end(struct slot *slot)
{
    if (!slot->is_counted)
        return;
    slot->is_counted = false;
    __atomic_sub_fetch(&board->running, 1, __ATOMIC_RELAXED);
}

void board_keep(struct slot *slot)
{
    board->ended_busy_us += slot->busy_us;
    board->ended_cpu_us += slot->ran_us > slot->cpu_us ? slot->ran_us : slot->cpu_us;
    board->ended_runnable_us += slot->runnable_us;
}

/* A file of a worker in /proc; empty if it has ended. */
static void read_proc(pid_t pid, const char *name, char *to, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd >= 0 ? read(fd, to, room - 1) : 0;
    to[count > 0 ? count : 0] = 0;
    if (fd >= 0)
        close(fd);
}

uint64_t board_look(void)
{
    uint64_t largest = 0;
    for (int at = 0; at < settings.max_children; at++) {
        struct slot *slot = &board->slots[at];
        if (slot->state == SLOT_FREE || slot->pid == 0)
            continue;
        char text[256];
        unsigned long long ran_ns, waited_ns, pages, shared;
        read_proc(slot->pid, "schedstat", text, sizeof text);
        if (sscanf(text, "%llu %llu", &ran_ns, &waited_ns) == 2) {
            slot->ran_us = ran_ns / 1000;
            slot->runnable_us = waited_ns / 1000;
        }
        if (slot->ran_us < slot->cpu_us)
            slot->ran_us = slot->cpu_us;
        /* Pages of its own, with those that it shares with the master until one of them writes: more than it takes, never less. */
        read_proc(slot->pid, "statm", text, sizeof text);
        if (sscanf(text, "%*u %llu %llu", &pages, &shared) == 2 && pages > shared && (pages - shared) * 4096 > largest)
            largest = (pages - shared) * 4096;
    }
    return largest;
}

void backlog(unsigned *waiting, unsigned *most)
{
    *waiting = *most = 0;
    struct stat file;
    if (fstat(listen_fd, &file) != 0)
        return;
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return;
    struct {
        struct nlmsghdr head;
        struct unix_diag_req ask;
    } question = {
        .head = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .ask = {.sdiag_family = AF_UNIX, .udiag_states = 1u << 10, .udiag_ino = (uint32_t)file.st_ino,
                .udiag_show = UDIAG_SHOW_RQLEN, .udiag_cookie = {~0u, ~0u}},
    };
    char answer[1024] __attribute__((aligned(8)));
    ssize_t count = -1;
    if (send(fd, &question, sizeof question, 0) == (ssize_t)sizeof question)
        count = recv(fd, answer, sizeof answer, 0);
    close(fd);
    const struct nlmsghdr *head = (const void *)answer;
    if (count < (ssize_t)sizeof *head || head->nlmsg_type != SOCK_DIAG_BY_FAMILY || head->nlmsg_len > (size_t)count)
        return;
    const size_t fixed = NLMSG_LENGTH(sizeof(struct unix_diag_msg));
    for (size_t at = NLMSG_ALIGN(fixed); at + sizeof(struct nlattr) <= head->nlmsg_len;) {
        const struct nlattr *item = (const void *)(answer + at);
        if (item->nla_len < sizeof *item)
            return;
        if (item->nla_type == UNIX_DIAG_RQLEN && at + sizeof *item + sizeof(struct unix_diag_rqlen) <= head->nlmsg_len) {
            const struct unix_diag_rqlen *queue = (const void *)(item + 1);
            *waiting = queue->udiag_rqueue;
            *most = queue->udiag_wqueue;
        }
        at += NLA_ALIGN(item->nla_len);
    }
}
