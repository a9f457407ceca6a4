/* libxencall.so.1: two hypercalls, sysctl and xen_version, as far as tracing needs them. */
#include "fakexen.h"

#define HYPERVISOR_XEN_VERSION 17
#define HYPERVISOR_SYSCTL 35
#define PAGE 4096

typedef struct { int fd; } xencall_handle;

struct physinfo {
    uint32_t abi, nr_cpus, max_cpu_id, zero;
    uint64_t tsc_hz;
    char name[16], version[16], capabilities[64], cpu_vendor[16], cpu_model[64];
    char exit_family[8], boot_id[40], tsc_source[16];
};
struct tbuf_info { uint32_t evt_mask, size; uint64_t buffer_mfn; uint32_t rest[4]; };

/* The public structures of Xen 4.17. */
struct xen_sysctl {
    uint32_t cmd, interface_version;
    union {
        struct {
            uint32_t op, pad0;
            uint64_t bitmap;
            uint32_t nr_bits, pad1, evt_mask, pad2;
            uint64_t buffer_mfn;
            uint32_t size;
        } tbuf;
        struct {
            uint32_t threads_per_core, cores_per_socket, nr_cpus, max_cpu_id;
            uint32_t nr_nodes, max_node_id, cpu_khz, capabilities;
        } physinfo;
        uint8_t pad[128];
    };
};

EXPORT xencall_handle *xencall_open(void *logger, unsigned flags)
{
    xencall_handle *call;
    int fd;

    (void)logger, (void)flags;
    if (told_to_fail("xencall_open") || (fd = attach()) < 0)
        return NULL;
    call = malloc(sizeof *call);
    call->fd = fd;
    return call;
}

EXPORT int xencall_close(xencall_handle *call)
{
    if (call) {
        close(call->fd);
        free(call);
    }
    return 0;
}

EXPORT int xencall_fd(xencall_handle *call) { return call->fd; }
EXPORT int xencall_buffers_never_fault(xencall_handle *call) { return (void)call, 1; }

EXPORT void *xencall_alloc_buffer_pages(xencall_handle *call, size_t pages)
{
    void *buffer = aligned_alloc(PAGE, pages * PAGE);

    (void)call;
    return buffer ? memset(buffer, 0, pages * PAGE) : NULL;
}

EXPORT void xencall_free_buffer_pages(xencall_handle *call, void *buffer, size_t pages)
{
    (void)call, (void)pages;
    free(buffer);
}

EXPORT void *xencall_alloc_buffer(xencall_handle *call, size_t size)
{
    return xencall_alloc_buffer_pages(call, (size + PAGE - 1) / PAGE);
}

EXPORT void xencall_free_buffer(xencall_handle *call, void *buffer)
{
    xencall_free_buffer_pages(call, buffer, 1);
}

static int do_physinfo(int fd, struct xen_sysctl *sysctl)
{
    struct physinfo info;

    if (told_to_fail("physinfo") ||
        ask(fd, OP_PHYSINFO, 0, NULL, 0, &info, sizeof info, NULL) < 0)
        return -1;
    memset(&sysctl->physinfo, 0, sizeof sysctl->physinfo);
    sysctl->physinfo.threads_per_core = sysctl->physinfo.nr_nodes = 1;
    sysctl->physinfo.cores_per_socket = info.nr_cpus;
    sysctl->physinfo.nr_cpus = info.nr_cpus;
    sysctl->physinfo.max_cpu_id = info.max_cpu_id;
    sysctl->physinfo.cpu_khz = (uint32_t)(info.tsc_hz / 1000);
    sysctl->physinfo.capabilities = 1; /* hvm */
    return 0;
}

static int do_tbuf(int fd, struct xen_sysctl *sysctl)
{
    static const char *const names[] = {
        "get_info", "set_cpu_mask", "set_evt_mask", "set_size", "enable", "disable",
    };
    struct tbuf_info info;

    if (sysctl->tbuf.op >= sizeof names / sizeof *names) {
        errno = EINVAL;
        return -1;
    }
    if (told_to_fail(names[sysctl->tbuf.op]))
        return -1;
    switch (sysctl->tbuf.op) {
    case 0:
        if (ask(fd, OP_GET_INFO, 0, NULL, 0, &info, sizeof info, NULL) < 0)
            return -1;
        sysctl->tbuf.evt_mask = info.evt_mask;
        sysctl->tbuf.buffer_mfn = info.buffer_mfn;
        sysctl->tbuf.size = info.size;
        return 0;
    case 1:
        return ask(fd, OP_SET_CPU_MASK, 0, (void *)(uintptr_t)sysctl->tbuf.bitmap,
                   (sysctl->tbuf.nr_bits + 7) / 8, NULL, 0, NULL) < 0 ? -1 : 0;
    case 2:
        return ask(fd, OP_SET_EVT_MASK, sysctl->tbuf.evt_mask, NULL, 0, NULL, 0, NULL) < 0 ? -1 : 0;
    case 3:
        return ask(fd, OP_SET_SIZE, sysctl->tbuf.size, NULL, 0, NULL, 0, NULL) < 0 ? -1 : 0;
    default:
        return ask(fd, sysctl->tbuf.op == 4 ? OP_ENABLE : OP_DISABLE, 0, NULL, 0,
                   NULL, 0, NULL) < 0 ? -1 : 0;
    }
}

static int do_sysctl(int fd, struct xen_sysctl *sysctl)
{
    const char *version = getenv("FAKEXEN_SYSCTL");

    if (sysctl->interface_version != (version ? strtoul(version, NULL, 0) : 0x15)) {
        errno = EACCES;
        return -1;
    }
    switch (sysctl->cmd) {
    case 2: return do_tbuf(fd, sysctl);
    case 3: return do_physinfo(fd, sysctl);
    }
    errno = ENOSYS;
    return -1;
}

/* "4.19-sim" is version 4, subversion 19, extraversion "-sim". */
static int do_xen_version(int fd, uint64_t which, char *into)
{
    struct physinfo info;
    unsigned major = 0, minor = 0;
    int rest = 0;

    if (told_to_fail("xen_version") ||
        ask(fd, OP_PHYSINFO, 0, NULL, 0, &info, sizeof info, NULL) < 0)
        return -1;
    sscanf(info.version, "%u.%u%n", &major, &minor, &rest);
    switch (which) {
    case 0: return (int)(major << 16 | minor);
    case 1: snprintf(into, 16, "%.15s", info.version + rest); return 0;
    case 3: snprintf(into, 1024, "%.63s", info.capabilities); return 0;
    case 4: strcpy(into, "git:fakexen"); return 0;
    }
    errno = ENOSYS;
    return -1;
}

static int hypercall(xencall_handle *call, unsigned op, uint64_t first, uint64_t second)
{
    if (op == HYPERVISOR_SYSCTL)
        return do_sysctl(call->fd, (void *)(uintptr_t)first);
    if (op == HYPERVISOR_XEN_VERSION)
        return do_xen_version(call->fd, first, (void *)(uintptr_t)second);
    errno = ENOSYS;
    return -1;
}

EXPORT int xencall0(xencall_handle *call, unsigned op) { return hypercall(call, op, 0, 0); }

EXPORT int xencall1(xencall_handle *call, unsigned op, uint64_t a)
{
    return hypercall(call, op, a, 0);
}

EXPORT int xencall2(xencall_handle *call, unsigned op, uint64_t a, uint64_t b)
{
    return hypercall(call, op, a, b);
}

EXPORT int xencall3(xencall_handle *call, unsigned op, uint64_t a, uint64_t b, uint64_t c)
{
    return (void)c, hypercall(call, op, a, b);
}

EXPORT int xencall4(xencall_handle *call, unsigned op, uint64_t a, uint64_t b, uint64_t c,
                    uint64_t d)
{
    return (void)c, (void)d, hypercall(call, op, a, b);
}

/*
 * libxenctrl opens a device model handle, whose real library insists on /dev/xen/privcmd.
 * These two come before that library's in the order in which the linker looks.
 */
EXPORT void *xendevicemodel_open(void *logger, unsigned flags)
{
    (void)logger, (void)flags;
    return malloc(1);
}

EXPORT int xendevicemodel_close(void *model)
{
    free(model);
    return 0;
}
