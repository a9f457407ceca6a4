/* libxenforeignmemory.so.1: the hypervisor's pages are those of a memfd, by number. */
#include "fakexen.h"

#include <sys/mman.h>
#include <sys/stat.h>

#define DOMID_XEN 0x7ff2
#define PAGE 4096

typedef struct { int fd; } xenforeignmemory_handle;

EXPORT xenforeignmemory_handle *xenforeignmemory_open(void *logger, unsigned flags)
{
    xenforeignmemory_handle *memory;
    int fd;

    (void)logger, (void)flags;
    if (told_to_fail("xenforeignmemory_open") || (fd = attach()) < 0)
        return NULL;
    memory = malloc(sizeof *memory);
    memory->fd = fd;
    return memory;
}

EXPORT int xenforeignmemory_close(xenforeignmemory_handle *memory)
{
    if (memory) {
        close(memory->fd);
        free(memory);
    }
    return 0;
}

/* A private copy of the page with one word changed, if it is t_info that is mapped. */
static int spoil(char *mapped, int protection)
{
    const char *rule = getenv("FAKEXEN_SPOIL");
    char page[PAGE];
    unsigned offset, value;

    if (!rule || (protection & PROT_WRITE) || sscanf(rule, "%u=%u", &offset, &value) != 2)
        return 0;
    memcpy(page, mapped, PAGE);
    memcpy(page + offset, &(uint16_t){ (uint16_t)value }, 2);
    if (mmap(mapped, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0) == MAP_FAILED)
        return -1;
    memcpy(mapped, page, PAGE);
    return 0;
}

/* As many pages as follow each other, at once: the kernel has a limit on mappings. */
static int map_pages(char *at, int protection, int memfd, size_t pages, const unsigned long *pfns)
{
    struct stat status;
    size_t done, run;

    if (fstat(memfd, &status))
        return -1;
    for (done = 0; done < pages; done += run) {
        for (run = 1; done + run < pages && pfns[done + run] == pfns[done] + run; run++)
            ;
        if (pfns[done] + run > (unsigned long)status.st_size / PAGE) {
            errno = EINVAL;
            return -1;
        }
        if (mmap(at + done * PAGE, run * PAGE, protection, MAP_SHARED | MAP_FIXED, memfd,
                 (off_t)pfns[done] * PAGE) == MAP_FAILED)
            return -1;
    }
    return spoil(at, protection);
}

EXPORT void *xenforeignmemory_map(xenforeignmemory_handle *memory, uint32_t domain,
                                  int protection, size_t pages, const unsigned long *pfns,
                                  int *errors)
{
    int memfd = -1, failed, number;
    char *at;

    if (told_to_fail("map"))
        return NULL;
    if (domain != DOMID_XEN || !pages) {
        errno = EPERM;
        return NULL;
    }
    if (ask(memory->fd, OP_MAP, 0, NULL, 0, NULL, 0, &memfd) < 0)
        return NULL;
    at = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    failed = at == MAP_FAILED || map_pages(at, protection, memfd, pages, pfns);
    number = errno;
    close(memfd);
    if (failed && at != MAP_FAILED)
        munmap(at, pages * PAGE);
    if (errors)
        memset(errors, 0, pages * sizeof *errors);
    errno = number;
    return failed ? NULL : at;
}

EXPORT int xenforeignmemory_unmap(xenforeignmemory_handle *memory, void *at, size_t pages)
{
    (void)memory;
    return munmap(at, pages * PAGE);
}
