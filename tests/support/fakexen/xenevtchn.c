/*
 * libxenevtchn.so.1: one VIRQ. The descriptor is an epoll that watches the hypervisor's
 * eventfd while the channel is unmasked, so it is readable exactly when the real one is.
 */
#include "fakexen.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define VIRQ_TBUF 4
#define PORT 19
#define MOST_HANDLES 16

typedef struct { int fd, poll, events, overflow; unsigned pendings; } xenevtchn_handle;

static xenevtchn_handle *opened[MOST_HANDLES];

static void watch(xenevtchn_handle *channel, int operation, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };

    epoll_ctl(channel->poll, operation, fd, &event);
}

EXPORT xenevtchn_handle *xenevtchn_open(void *logger, unsigned flags)
{
    xenevtchn_handle *channel;
    int fd, i;

    (void)logger, (void)flags;
    if (told_to_fail("xenevtchn_open") || (fd = attach()) < 0)
        return NULL;
    channel = malloc(sizeof *channel);
    *channel = (xenevtchn_handle){ fd, epoll_create1(EPOLL_CLOEXEC), -1, -1, 0 };
    for (i = 0; i < MOST_HANDLES - 1 && opened[i]; i++)
        ;
    opened[i] = channel;
    return channel;
}

EXPORT int xenevtchn_close(xenevtchn_handle *channel)
{
    int i;

    if (!channel)
        return 0;
    for (i = 0; i < MOST_HANDLES; i++)
        if (opened[i] == channel)
            opened[i] = NULL;
    close(channel->poll);
    close(channel->events);
    close(channel->overflow);
    close(channel->fd); /* which unbinds */
    free(channel);
    return 0;
}

EXPORT int xenevtchn_fd(xenevtchn_handle *channel) { return channel->poll; }

EXPORT int xenevtchn_bind_virq(xenevtchn_handle *channel, unsigned virq)
{
    if (told_to_fail("bind_virq"))
        return -1;
    if (virq != VIRQ_TBUF) {
        errno = EINVAL;
        return -1;
    }
    if (ask(channel->fd, OP_BIND_VIRQ, 0, NULL, 0, NULL, 0, &channel->events) < 0)
        return -1;
    watch(channel, EPOLL_CTL_ADD, channel->events, EPOLLIN);
    return PORT;
}

/* The driver's queue is full: an error until it is reset, with the channel left masked. */
static void overflow(xenevtchn_handle *channel)
{
    watch(channel, EPOLL_CTL_MOD, channel->events, 0);
    channel->overflow = eventfd(1, EFD_CLOEXEC);
    watch(channel, EPOLL_CTL_ADD, channel->overflow, EPOLLIN);
}

EXPORT int xenevtchn_pending(xenevtchn_handle *channel)
{
    const char *nth = getenv("FAKEXEN_OVERFLOW");
    struct epoll_event event;
    uint64_t count;
    int waits, ready;

    if (told_to_fail("pending"))
        return -1;
    if (nth && ++channel->pendings == strtoul(nth, NULL, 0))
        overflow(channel);
    if (channel->overflow >= 0) {
        errno = EFBIG;
        return -1;
    }
    waits = fcntl(channel->poll, F_GETFL) & O_NONBLOCK ? 0 : -1;
    ready = epoll_wait(channel->poll, &event, 1, waits);
    if (ready <= 0) {
        if (!ready)
            errno = EAGAIN;
        return -1;
    }
    if (read(channel->events, &count, sizeof count) < 0)
        return -1;
    watch(channel, EPOLL_CTL_MOD, channel->events, 0);
    return PORT;
}

EXPORT int xenevtchn_unmask(xenevtchn_handle *channel, uint32_t port)
{
    if (told_to_fail("unmask"))
        return -1;
    if (port != PORT) {
        errno = EINVAL;
        return -1;
    }
    watch(channel, EPOLL_CTL_MOD, channel->events, EPOLLIN);
    return 0;
}

/* IOCTL_EVTCHN_RESET, for reset.c. */
EXPORT int xenevtchn_fake_reset(int fd)
{
    int i;

    for (i = 0; i < MOST_HANDLES; i++)
        if (opened[i] && opened[i]->poll == fd) {
            close(opened[i]->overflow);
            opened[i]->overflow = -1;
            return 0;
        }
    errno = ENOTTY;
    return -1;
}

/* What libxenctrl is linked with, and never called here. */
static int no(void)
{
    errno = ENOSYS;
    return -1;
}

EXPORT int xenevtchn_bind_interdomain(void) { return no(); }
EXPORT int xenevtchn_bind_unbound_port(void) { return no(); }
EXPORT int xenevtchn_notify(void) { return no(); }
EXPORT int xenevtchn_unbind(void) { return no(); }
