/*
 * For LD_PRELOAD: the one ioctl that the source makes itself, on a stand-in's descriptor.
 * A library of its own, without symbol versions, so that it comes before libc's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RESET 0x4505 /* IOCTL_EVTCHN_RESET */

int ioctl(int fd, unsigned long request, ...)
{
    void *library = request == RESET ? dlopen("libxenevtchn.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    int (*reset)(int) = library ? (int (*)(int))dlsym(library, "xenevtchn_fake_reset") : NULL;
    va_list arguments;
    void *argument;

    if (reset)
        return reset(fd);
    va_start(arguments, request);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return (int)syscall(SYS_ioctl, fd, request, argument);
}
