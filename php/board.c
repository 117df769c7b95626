/* What all processes of the pool see. A slot is written by its worker; what the master writes in it is named there. */
#include "brisk_php.h"

#include <linux/sock_diag.h>
#include <errno.h>
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
