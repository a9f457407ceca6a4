/*
 * Stand-ins for libxencall, libxenforeignmemory and libxenevtchn that speak to a simulated
 * hypervisor (daemon/xtraced/sources/sim/abi.py) instead of a real one.
 *
 * Environment:
 *   FAKEXEN_SOCKET    where the hypervisor listens; without it, there is no Xen (ENOENT)
 *   FAKEXEN_FAIL      "call=errno,call:n=errno": these calls fail, always or the nth time;
 *                     numbers, not names. Calls: xencall_open, physinfo, xen_version,
 *                     get_info, set_cpu_mask, set_evt_mask, set_size, enable, disable;
 *                     xenforeignmemory_open, map; xenevtchn_open, bind_virq, pending, unmask
 *   FAKEXEN_SYSCTL    the one sysctl interface version that is taken (default 0x15)
 *   FAKEXEN_OVERFLOW  at the nth `pending`, the event queue overflows (EFBIG) until it is
 *                     reset; the reset needs reset.c in LD_PRELOAD
 *   FAKEXEN_SPOIL     "offset=value": t_info is mapped with this 16-bit word changed
 */
#ifndef FAKEXEN_H
#define FAKEXEN_H

#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PACKET_BYTES 65536

enum { OP_PHYSINFO = 1, OP_BIND_VIRQ, OP_MAP, OP_GET_INFO, OP_SET_CPU_MASK, OP_SET_EVT_MASK,
       OP_SET_SIZE, OP_ENABLE, OP_DISABLE };

struct request { uint32_t op, zero; uint64_t value; };
struct reply { uint32_t op, error; uint64_t value; };

/* The errno with which this call has to fail, set; 0 if it may go on. */
static inline int told_to_fail(const char *call)
{
    static struct { char name[32]; unsigned calls; } counted[32];
    const char *rule = getenv("FAKEXEN_FAIL");
    size_t length = strlen(call), i = 0;

    while (counted[i].name[0] && strcmp(counted[i].name, call))
        i++;
    strcpy(counted[i].name, call);
    counted[i].calls++;
    while (rule && *rule) {
        unsigned nth = 0;
        int number = 0;

        if (!strncmp(rule, call, length) &&
            (sscanf(rule + length, ":%u=%d", &nth, &number) == 2 ||
             (nth = 0, sscanf(rule + length, "=%d", &number)) == 1) &&
            (!nth || nth == counted[i].calls)) {
            errno = number;
            return number;
        }
        rule = strchr(rule, ',');
        rule = rule ? rule + 1 : NULL;
    }
    return 0;
}

/* A connection to the hypervisor; -1 and errno if there is none. */
static inline int attach(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const char *path = getenv("FAKEXEN_SOCKET");
    int fd;

    if (!path || strlen(path) >= sizeof address.sun_path) {
        errno = ENOENT;
        return -1;
    }
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    return fd;
}

/*
 * Ask; the length of what followed the reply's header in `into`, or -1 and the hypervisor's
 * errno. A descriptor that came along goes to *received.
 */
static inline ssize_t ask(int fd, uint32_t op, uint64_t value, const void *more, size_t size,
                          void *into, size_t room, int *received)
{
    struct request request = { op, 0, value };
    struct reply reply;
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec out[] = { { &request, sizeof request }, { (void *)more, size } };
    struct iovec in[] = { { &reply, sizeof reply }, { into, room } };
    struct msghdr sent = { .msg_iov = out, .msg_iovlen = 2 };
    struct msghdr got = { .msg_iov = in, .msg_iovlen = 2, .msg_control = control,
                          .msg_controllen = sizeof control };
    struct cmsghdr *carried;
    ssize_t length;

    if (sendmsg(fd, &sent, MSG_NOSIGNAL) < 0)
        return -1;
    length = recvmsg(fd, &got, MSG_CMSG_CLOEXEC);
    if (length < (ssize_t)sizeof reply) {
        errno = EIO;
        return -1;
    }
    carried = CMSG_FIRSTHDR(&got);
    if (received)
        *received = carried ? *(int *)CMSG_DATA(carried) : -1;
    if (reply.error) {
        errno = (int)reply.error;
        return -1;
    }
    return length - (ssize_t)sizeof reply;
}

#endif
