/* Which segments a day has: names on disk, and a table that finds them. */

#include "audit/roll.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t/unit/tap.h"

#define INV "0a1b2c3d-0000-4000-8000-00000000eeee"
#define DAY "2026-11-30"

static unsigned strays;

static void
on_stray(void *arg, const char *name)
{
	(void)name;
	(void)arg;
	strays++;
}

static void
make(const struct store *s, const char *name)
{
	int fd = openat(s->audit_fd, name, O_CREAT | O_WRONLY, 0600);

	if (fd == -1)
		abort();
	close(fd);
}

static void
test_table(void)
{
	char inv[STORE_UUID_SIZE];
	struct roll_entry *e;
	struct roll_mark m;
	struct roll r;
	size_t at = 0;
	int i, bad = 0, n = 0;

	roll_init(&r, DAY);
	ok(roll_find(&r, INV) == NULL && roll_next(&r, &at) == NULL,
	    "an empty table has nothing");
	for (i = 0; i < 5000; i++) {
		snprintf(inv, sizeof(inv), "%08x-0000-4000-8000-%012x", i, i);
		e = roll_add(&r, inv);
		bad += e == NULL || e->files != 0;
		if (e != NULL)
			e->files = (unsigned)i + 1;
	}
	for (i = 0; i < 5000; i++) {
		snprintf(inv, sizeof(inv), "%08x-0000-4000-8000-%012x", i, i);
		e = roll_find(&r, inv);
		bad += e == NULL || e->files != (unsigned)i + 1 ||
		    e != roll_add(&r, inv);
	}
	ok(bad == 0 && r.n == 5000, "what was added is found, once");
	ok(roll_find(&r, INV) == NULL, "and nothing else");
	for (at = 0; roll_next(&r, &at) != NULL;)
		n++;
	is_int(n, 5000, "a walk meets each");
	e = roll_add(&r, INV);
	memset(&m, 0, sizeof(m));
	for (i = 0; i < 100; i++) {
		m.seq = (uint64_t)i;
		bad += roll_mark(e, &m);
	}
	for (i = 0; i < 100; i++)
		bad += e->marks[i].seq != (uint64_t)i;
	ok(bad == 0 && e->marks_n == 100, "marks in their order");
	roll_forget(e);
	ok(e->marks_n == 0 && e->marks == NULL, "which can be forgotten");
	roll_clear(&r);
}

static void
test_list(const char *dir)
{
	static const char *const names[] = { INV ".p1.jsonl", INV ".p3.jsonl",
		INV ".p01.jsonl", INV ".p0.jsonl", INV ".p10000.jsonl",
		INV ".p2.jsonl~", INV ".p+2.jsonl", INV ".jsonl", "x",
		"1a1b2c3d-0000-4000-8000-00000000eeee.p1.jsonl",
		"0A1b2c3d-0000-4000-8000-00000000eeee.p1.jsonl" };
	char name[128];
	struct store s;
	struct roll r;
	size_t i;

	if (store_open(&s, dir) == -1)
		abort();
	roll_init(&r, DAY);
	ok(roll_list(&r, &s, NULL, on_stray, NULL) == 0 && r.n == 0,
	    "a day that is not there has no segments");
	mkdirat(s.audit_fd, DAY, 0700);
	mkdirat(s.audit_fd, DAY "/seg", 0700);
	mkdirat(s.audit_fd, DAY "/seg/0a", 0700);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), DAY "/seg/0a/%s", names[i]);
		make(&s, name);
	}
	make(&s, DAY "/seg/0b");
	ok(symlinkat("0a", s.audit_fd, DAY "/seg/cc") == 0, "a link");
	is_int(roll_list(&r, &s, NULL, on_stray, NULL), 0, "a list");
	ok(r.n == 1 && roll_find(&r, INV) != NULL &&
		roll_find(&r, INV)->files == 3,
	    "names count in one form only");
	is_int(strays, 9 + 2, "and all else is a stray");
	roll_clear(&r);
	is_int(roll_list(&r, &s, INV, on_stray, NULL), 0, "of one invocation");
	ok(r.n == 1 && strays == 9 + 2, "that and no other");
	roll_clear(&r);
	store_close(&s);
}

int
main(void)
{
	char dir[] = "/tmp/roll.XXXXXX";

	if (mkdtemp(dir) == NULL)
		abort();
	test_table();
	test_list(dir);
	remove_all(dir);
	return done();
}
