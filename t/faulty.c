/*
 * The product with a wall clock and a disk that a test sets, for a test build
 * only. The file named in CYBEROS_TEST_PAGE (4096 bytes) stays mapped, so that
 * every process of an invocation, confined or not, sees it:
 *
 *	0	20 digits: seconds that are added to the wall clock
 *	32	20 digits: which write(2) to a regular file is cut short, from 1
 *	64	a counter of these writes, 8 bytes
 */

#include <sys/mman.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int __real_clock_gettime(clockid_t, struct timespec *);
int __wrap_clock_gettime(clockid_t, struct timespec *);
ssize_t __real_write(int, const void *, size_t);
ssize_t __wrap_write(int, const void *, size_t);

struct page {
	char shift[32];
	char cut[32];
	_Atomic uint64_t writes;
};

static struct page *page;

static void
map_page(void)
{
	const char *name = getenv("CYBEROS_TEST_PAGE");
	int fd = name == NULL ? -1 : open(name, O_RDWR | O_CLOEXEC);

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    fd == -1 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	if ((name != NULL && fd == -1) || page == MAP_FAILED)
		abort();
	if (fd != -1)
		close(fd);
}

int
__wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int result = __real_clock_gettime(id, ts);

	if (page == NULL)
		map_page();
	if (id == CLOCK_REALTIME)
		ts->tv_sec += (time_t)strtoll(page->shift, NULL, 10);
	return result;
}

/* Half of what was asked for: the kernel may do that at any time. */
ssize_t
__wrap_write(int fd, const void *p, size_t len)
{
	struct stat st;

	if (page == NULL)
		map_page();
	if (len > 1 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    atomic_fetch_add(&page->writes, 1) + 1 ==
		strtoull(page->cut, NULL, 10))
		len /= 2;
	return __real_write(fd, p, len);
}
