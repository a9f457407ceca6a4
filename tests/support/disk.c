/* A disk in the test's hand, for LD_PRELOAD: writes to files below a directory are held,
 * slowed down, cut short or refused, as the control page says. tests/support/disks.py is
 * the other end. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum shape { WHOLE, HALF, SECTOR, NOTHING, INTERRUPTED };

struct control {
	_Atomic uint32_t frozen;	/* hold every call */
	_Atomic uint32_t write_error;	/* errno for every write, 0 for none */
	_Atomic uint32_t sync_error;
	_Atomic uint32_t sync_errors;	/* how many syncs get it */
	_Atomic uint32_t shape;		/* what is wrong with every third write */
	_Atomic uint32_t held;		/* calls being held now */
	_Atomic uint32_t direct_error;	/* errno for writes with O_DIRECT */
	_Atomic uint32_t unused;
	_Atomic uint64_t rate;		/* bytes a second, 0 for no limit */
	_Atomic uint64_t writes;
};

static struct control *control;
static char directory[PATH_MAX];
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void set_up(void)
{
	const char *page = getenv("TEST_DISK_CONTROL"), *where = getenv("TEST_DISK_DIRECTORY");
	int fd;

	real_pwrite = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
	real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	if (!page || !where || !realpath(where, directory))
		return;
	fd = open(page, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		control = NULL;
	close(fd);
}

/* Only segments: the lock and the log are not on this disk. */
static int is_segment(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	if (!control)
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	return !strncmp(path, directory, strlen(directory)) && strstr(path, ".xtr");
}

static void pass_time(uint64_t ns)
{
	struct timespec left = { ns / 1000000000, ns % 1000000000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static void hold(void)
{
	control->held++;
	while (control->frozen)
		pass_time(1000000);
	control->held--;
}

static size_t cut(size_t size)
{
	switch (control->shape) {
	case HALF: return size / 2 / 512 * 512;
	case SECTOR: return size < 512 ? size : 512;
	case NOTHING: return 0;
	default: return size;
	}
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
	if (!is_segment(fd))
		return real_pwrite(fd, data, size, at);
	hold();
	if (control->rate)
		pass_time(size * 1000000000ull / control->rate);
	if (control->write_error) {
		errno = control->write_error;
		return -1;
	}
	if (control->direct_error && fcntl(fd, F_GETFL) & O_DIRECT) {
		errno = control->direct_error;
		return -1;
	}
	if (control->writes++ % 3 == 2) {
		if (control->shape == INTERRUPTED) {
			errno = EINTR;
			return -1;
		}
		size = cut(size);
		if (!size)
			return 0;
	}
	return real_pwrite(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
	return pwrite64(fd, data, size, at);
}

int fdatasync(int fd)
{
	if (!is_segment(fd))
		return real_fdatasync(fd);
	hold();
	if (control->sync_errors) {
		control->sync_errors--;
		errno = control->sync_error;
		return -1;
	}
	return real_fdatasync(fd);
}
