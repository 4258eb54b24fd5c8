/*
 * The host's chain over days, crashes and many writers. The clock of the test
 * is its own; what comes of it is looked at by t/verify.pl, too.
 */

#include "audit/anchor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "audit/segment.h"
#include "audit/verify.h"
#include "t/unit/tap.h"

static char dir[] = "/tmp/anchor.XXXXXX";
static struct store store;
static struct digest *digest;
static _Atomic int64_t *wall; /* seconds, shared with children */

/* In the place of the C library's. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id == CLOCK_REALTIME && wall != NULL && *wall != 0) {
		ts->tv_sec = (time_t)*wall;
		ts->tv_nsec = 0;
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, id, ts);
}

#define DAY1 INT64_C(1796036400) /* 2026-11-30, 11:00 */
#define DAY 86400

static const char *
file_of(const char *day)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/audit/%s/host.jsonl", dir, day);
	return path;
}

static char *
slurp(const char *path, size_t *len)
{
	char *text = calloc(1, 4 * 1024 * 1024);
	FILE *f = fopen(path, "r");

	*len = 0;
	if (f != NULL) {
		*len = fread(text, 1, 4 * 1024 * 1024 - 1, f);
		fclose(f);
	}
	return text;
}

static void
append(const char *day, const void *p, size_t n)
{
	int fd = open(file_of(day), O_WRONLY | O_APPEND);

	if (fd == -1 || write(fd, p, n) != (ssize_t)n)
		abort();
	close(fd);
}

/* The file's text from its nth line on, counted from 1. */
static const char *
line(const char *text, int n)
{
	while (n-- > 1) {
		text = strchr(text, '\n');
		if (text == NULL)
			return "";
		text++;
	}
	return text;
}

static bool
has(const char *text, int n, const char *what)
{
	const char *at = line(text, n), *found = strstr(at, what);
	const char *end = strchr(at, '\n');

	return found != NULL && (end == NULL || found < end);
}

static int
verify(void)
{
	char command[300];

	snprintf(
	    command, sizeof(command), "perl t/verify.pl '%s' >/dev/null", dir);
	return WEXITSTATUS(system(command));
}

/* What a supervisor does for one that was refused. 0 or -1 with errno. */
static int
invocation(struct anchor *opened, struct anchor *closed)
{
	char id[STORE_UUID_SIZE], name[STORE_SEGMENT_NAME];
	char day[CLOCK_DAY_SIZE], file[STORE_SEGMENT_NAME];
	struct row_subject subject = {
	    id, NULL, "0123456789abcdef0123456789abcdef", NULL};
	struct segment_walk w;
	struct segment *s;
	struct row r;
	int dir_fd, fd, result;

	store_new_uuid(id);
	if (anchor_day(&store, day) == -1)
		return -1;
	dir_fd = store_day(&store, day, 1);
	fd = store_segment(dir_fd, id, 1, name);
	close(dir_fd);
	row_begin(&r, ROW_SEGMENT_OPENED, NULL, digest);
	row_word(&r, "invocation_id", id);
	snprintf(file, sizeof(file), "%s/%.68s", day, name);
	row_word(&r, "file", file);
	row_word(&r, "skill_id", NULL);
	row_word(&r, "version", NULL);
	row_word(&r, "frontmatter_hash", NULL);
	row_word(&r, "durability", "none");
	row_bool(&r, "append_only", false);
	result = row_end(&r) == 0 ? anchor_append(&store, &r, ROW_BY_SUPERVISOR,
					digest, opened)
				  : -1;
	row_clear(&r);
	if (result == -1) {
		close(fd);
		return -1;
	}
	s = segment_new(fd, id, 1, opened->hash, SEGMENT_SYNC_NONE, digest);
	row_begin(&r, ROW_INVOKED_COMPLETED, &subject, digest);
	row_word(&r, "version", NULL);
	row_word(&r, "outcome", "refused");
	row_int(&r, "duration_ms", 0);
	row_word(&r, "exit_code", NULL);
	row_word(&r, "signal", NULL);
	row_int(&r, "calls", 0);
	row_int(&r, "denied", 0);
	row_int(&r, "rejected", 0);
	row_word(&r, "by", "supervisor");
	row_word(&r, "error_message", NULL);
	row_end(&r);
	segment_append(s, ROW_BY_BROKER, &r, NULL);
	row_clear(&r);
	segment_end(s);
	segment_walk(fd, id, opened->hash, digest, &w);
	close(fd);
	row_begin(&r, ROW_SEGMENT_CLOSED, NULL, digest);
	row_word(&r, "invocation_id", id);
	row_word(&r, "reason", "normal");
	row_int(&r, "parts", 1);
	row_int(&r, "rows", (int64_t)w.rows);
	row_int(&r, "bytes", (int64_t)w.bytes);
	/* Not from the walk: verify sees none of these, and totals add them. */
	row_int(&r, "calls", 0);
	row_int(&r, "denied", 0);
	row_int(&r, "errors", 0);
	row_int(&r, "timeouts", 0);
	row_int(&r, "open_calls", 0);
	row_word(&r, "head", w.head);
	row_int(&r, "torn_bytes", 0);
	row_word(&r, "torn_sha256", NULL);
	row_int(&r, "spooled", 0);
	row_int(&r, "duplicates", 0);
	row_int(&r, "lost", 0);
	result = row_end(&r) == 0 ? anchor_append(&store, &r, ROW_BY_SUPERVISOR,
					digest, closed)
				  : -1;
	row_clear(&r);
	return result;
}

static void
test_days(void)
{
	struct anchor a, b;
	char want[300], *text;
	size_t len;

	*wall = DAY1;
	ok(invocation(&a, &b) == 0 && a.hseq == 2 && b.hseq == 3 &&
		strcmp(a.day, "2026-11-30") == 0,
	    "the first day");
	text = slurp(file_of("2026-11-30"), &len);
	ok(has(text, 1,
	       "\"kind\":\"audit.day_opened\",\"payload\":"
	       "{\"prev_day\":null,\"prev_head\":null}"),
	    "has no day before it");
	free(text);
	ok(anchor_sync(&store, &b) == 0, "it can be synced");
	*wall = DAY1 + 5 * DAY;
	ok(invocation(&a, &a) == 0 && a.hseq == 6 &&
		strcmp(a.day, "2026-12-05") == 0,
	    "hseq goes on over the days");
	text = slurp(file_of("2026-12-05"), &len);
	snprintf(want, sizeof(want),
	    "\"payload\":{\"prev_day\":\"2026-11-30\",\"prev_head\":\"%s\"},"
	    "\"prev\":\"%s\"",
	    b.hash, b.hash);
	ok(has(text, 1, want), "the first row hangs on the day before it");
	free(text);
	is_int(verify(), 0, "verify.pl agrees");
}

/* A crash on the evening of a day is mended before the next hangs on it. */
static void
test_torn_day(void)
{
	struct anchor a;
	char *text;
	size_t len;
	int fd;

	append("2026-12-05", "{\"v\":1,\"host\":\"", 15);
	*wall = DAY1 + 6 * DAY;
	ok(invocation(&a, &a) == 0, "a stump at the end of a day");
	text = slurp(file_of("2026-12-05"), &len);
	ok(has(text, 5,
	       "\"kind\":\"audit.recovered\",\"payload\":"
	       "{\"torn_bytes\":15,"),
	    "is named in that day");
	free(text);
	is_int(verify(), 0, "and the next hangs on that");

	text = slurp(file_of("2026-12-06"), &len);
	free(text);
	fd = open(file_of("2026-12-06"), O_WRONLY);
	if (ftruncate(fd, (off_t)len - 1) == -1)
		abort();
	close(fd);
	*wall = DAY1 + 7 * DAY;
	ok(invocation(&a, &a) == 0, "a day without its last line feed");
	is_int(verify(), 0, "gets it, and nothing else");

	/* A day of which nothing but the stump of its first row is there. */
	*wall = DAY1 + 8 * DAY;
	close(store_day(&store, "2026-12-08", 1));
	fd = open(file_of("2026-12-08"), O_WRONLY | O_CREAT, 0600);
	if (write(fd, "{\"v\":1", 6) != 6)
		abort();
	close(fd);
	*wall = DAY1 + 9 * DAY;
	ok(invocation(&a, &a) == 0, "a day that has no row");
	text = slurp(file_of("2026-12-09"), &len);
	ok(has(text, 1, "\"prev_day\":\"2026-12-07\""), "is stepped over");
	free(text);
	unlink(file_of("2026-12-08"));
	is_int(verify(), 0, "verify.pl agrees about the others");
}

/* A clock that is set back over midnight forks no chain. */
static void
test_set_back(void)
{
	struct verify_wish all;
	struct verify_report report;
	struct anchor a, b;
	char *text;
	size_t len;
	int steps = 0;

	*wall -= 3 * DAY;
	ok(invocation(&a, &b) == 0 && strcmp(a.day, "2026-12-09") == 0 &&
		b.hseq == a.hseq + 1,
	    "the clock is set back by three days: the newest day goes on");
	*wall += 60;
	ok(invocation(&a, &b) == 0 && strcmp(b.day, "2026-12-09") == 0,
	    "until the clock has come there again");
	text = slurp(file_of("2026-12-09"), &len);
	for (char *p = text; (p = strstr(p, "audit.clock_step")) != NULL; p++)
		steps++;
	is_int(steps, 1, "the ledger tells of it, once");
	ok(strstr(text, "\"payload\":{\"prev_ts\":\"2026-12-09T11:00:00.000000Z\"}") !=
		NULL,
	    "and what the clock had shown");
	free(text);
	is_int(verify(), 0, "verify.pl agrees");
	memset(&all, 0, sizeof(all));
	ok(verify_run(&store, &all, &report) == 0 &&
		report.level[VERIFY_DAMAGED] == 0,
	    "and so does verify");
	*wall += 3 * DAY;
	ok(invocation(&a, &b) == 0 && strcmp(a.day, "2026-12-09") == 0,
	    "then days are days again");
	is_int(verify(), 0, "verify.pl agrees once more");
}

/* The day_opened row lacks its line feed only. */
static void
test_first_row(void)
{
	struct anchor a;
	char command[300], *text;
	size_t len;
	int fd;

	*wall = DAY1 + 10 * DAY;
	if (invocation(&a, &a) == -1)
		abort();
	text = slurp(file_of("2026-12-10"), &len);
	len = (size_t)(line(text, 2) - text) - 1;
	free(text);
	fd = open(file_of("2026-12-10"), O_WRONLY);
	snprintf(
	    command, sizeof(command), "rm -r '%s/audit/2026-12-10/seg'", dir);
	if (ftruncate(fd, (off_t)len) == -1 || system(command) != 0)
		abort();
	close(fd);
	ok(invocation(&a, &a) == 0,
	    "a day whose first row lacks its line feed");
	is_int(verify(), 0, "keeps that row");
}

/* Tampering is no crash: the chain goes on, and the proof stays. */
static void
test_tampered(void)
{
	struct anchor a;
	char *text, *saved;
	size_t len, saved_len;
	FILE *f;

	saved = slurp(file_of("2026-12-10"), &saved_len);
	text = strdup(saved);
	text[saved_len - 2] = '{';
	f = fopen(file_of("2026-12-10"), "w");
	fwrite(text, 1, saved_len, f);
	fclose(f);
	free(text);
	ok(invocation(&a, &a) == 0, "a last row that was changed");
	text = slurp(file_of("2026-12-10"), &len);
	ok(len > saved_len && memcmp(text, saved, saved_len - 2) == 0,
	    "is kept as evidence");
	ok(strstr(text + saved_len, "audit.recovered") != NULL, "and named");
	free(text);
	is_int(verify(), 6, "it is not signed off as good");
	f = fopen(file_of("2026-12-10"), "w");
	fwrite(saved, 1, saved_len, f);
	fclose(f);
	free(saved);
}

/*
 * Somebody waits for the lock of a day that ends meanwhile, and another one
 * has opened the next day. He must not append to the old one.
 */
static void
test_midnight(void)
{
	const struct timespec nap = {0, 100000000};
	struct anchor a;
	char *before, *after;
	size_t n, m;
	int fd, status;
	pid_t pid;

	*wall = DAY1 + 20 * DAY;
	if (invocation(&a, &a) == -1)
		abort();
	before = slurp(file_of("2026-12-20"), &n);
	fd = open(file_of("2026-12-20"), O_RDONLY);
	if (flock(fd, LOCK_EX) == -1)
		abort();
	pid = fork();
	if (pid == 0) {
		close(fd);
		_exit(
		    invocation(&a, &a) == 0 && strcmp(a.day, "2026-12-21") == 0
			? 0
			: 1);
	}
	nanosleep(&nap, NULL); /* he waits now, or does not even begin */
	*wall += DAY;
	close(fd);
	waitpid(pid, &status, 0);
	is_int(
	    status, 0, "a lock that was got after midnight is the wrong one");
	after = slurp(file_of("2026-12-20"), &m);
	ok(n == m && memcmp(before, after, n) == 0,
	    "the day that ended is whole");
	free(before);
	free(after);
}

static void
test_many(void)
{
	struct anchor a, b;
	char *text, want[40];
	size_t len;
	int i, j, status, bad = 0;

	*wall = DAY1 + 30 * DAY;
	for (i = 0; i < 8; i++) {
		if (fork() == 0) {
			for (j = 0; j < 25; j++) {
				if (invocation(&a, &b) == -1 ||
				    b.hseq <= a.hseq)
					_exit(1);
				/* Midnight, in the middle of it. */
				if (i == 0 && j == 12)
					*wall += DAY;
			}
			_exit(0);
		}
	}
	for (i = 0; i < 8; i++) {
		wait(&status);
		bad += status != 0;
	}
	is_int(bad, 0, "eight writers over a change of day");
	text = slurp(file_of("2026-12-31"), &len);
	ok(has(text, 1, "\"prev_day\":\"2026-12-30\""), "the days are linked");
	free(text);
	text = slurp(file_of("2026-12-30"), &len);
	snprintf(want, sizeof(want), "audit.day_opened");
	ok(has(text, 1, want), "each begins with its day");
	free(text);
}

/* Not in the ledger means not started: so an error, in time. */
static void
test_errors(void)
{
	struct anchor a;
	struct stat st;
	char saved[64];
	int fd;

	*wall = DAY1 + 40 * DAY;
	snprintf(saved, sizeof(saved), "%s/saved", dir);
	if (invocation(&a, &a) == -1 ||
	    rename(file_of("2027-01-09"), saved) == -1 ||
	    symlink(saved, file_of("2027-01-09")) == -1)
		abort();
	errno = 0;
	ok(invocation(&a, &a) == -1 && errno == ELOOP,
	    "a host file that is a link");
	if (rename(saved, file_of("2027-01-09")) == -1)
		abort();
	fd = open(file_of("2027-01-09"), O_WRONLY | O_APPEND);
	if (fstat(fd, &st) == -1 || ftruncate(fd, 3 * 1024 * 1024) == -1)
		abort();
	errno = 0;
	ok(invocation(&a, &a) == -1 && errno == EBADMSG,
	    "more rubbish than crashes leave");
	*wall += DAY;
	errno = 0;
	ok(invocation(&a, &a) == -1 && errno == EBADMSG,
	    "nothing hangs on that the day after, either");
	if (ftruncate(fd, st.st_size) == -1)
		abort();
	close(fd);
	ok(invocation(&a, &a) == 0, "put right it goes on");
}

static void
test_totals(void)
{
	struct anchor_totals t;
	struct row r;
	struct anchor a;
	char *text, path[256];
	size_t len;
	FILE *f;
	int i;

	*wall = DAY1 + 50 * DAY;
	ok(anchor_totals(&store, "2027-01-19", &t) == 0 && t.calls == 0,
	    "totals of a day that is not there");
	for (i = 1; i <= 3; i++) {
		row_begin(&r, ROW_SEGMENT_CLOSED, NULL, digest);
		row_word(&r, "invocation_id", "x");
		row_word(&r, "reason", "normal");
		row_int(&r, "parts", 1);
		row_int(&r, "rows", 1);
		row_int(&r, "bytes", 1);
		row_int(&r, "calls", 100 * i);
		row_int(&r, "denied", 10 * i);
		row_int(&r, "errors", i);
		row_int(&r, "timeouts", 7);
		row_int(&r, "open_calls", 0);
		row_word(&r, "head", "x");
		row_int(&r, "torn_bytes", 0);
		row_word(&r, "torn_sha256", NULL);
		row_int(&r, "spooled", 0);
		row_int(&r, "duplicates", 0);
		row_int(&r, "lost", 0);
		if (row_end(&r) == -1 ||
		    anchor_append(&store, &r, ROW_BY_SUPERVISOR, digest, &a) ==
			-1)
			abort();
		row_clear(&r);
		if (i == 2 && anchor_keep_totals(&store, a.day) == -1)
			abort();
	}
	ok(anchor_totals(&store, a.day, &t) == 0 && t.calls == 600 &&
		t.denied == 60 && t.errors == 6 && t.timeouts == 21 &&
		t.hseq == a.hseq,
	    "the kept sum and what came after it");
	append(a.day, "{\"v\":1,\"kind\":\"audit.segment_closed\",", 38);
	ok(anchor_totals(&store, a.day, &t) == 0 && t.calls == 600,
	    "a line that is not complete is not yet");
	snprintf(path, sizeof(path), "%s/audit/%s/totals", dir, a.day);
	text = slurp(path, &len);
	ok(len > 0, "the sum is kept in a file");
	f = fopen(path, "w");
	fprintf(f, "{\"v\":1,\"hseq\":1,\"offset\":99999999,\"calls\":1,"
		   "\"denied\":1,\"errors\":1,\"timeouts\":1}\n");
	fclose(f);
	ok(anchor_totals(&store, a.day, &t) == 0 && t.calls == 600,
	    "an offset beyond the end is not believed");
	unlink(path);
	if (symlink("/etc/passwd", path) == -1)
		abort();
	ok(anchor_totals(&store, a.day, &t) == 0 && t.calls == 600,
	    "nor is a link");
	ok(anchor_keep_totals(&store, a.day) == 0, "it is replaced");
	free(text);
	text = slurp(path, &len);
	ok(strstr(text, "\"calls\":600,") != NULL, "by a true one");
	free(text);
}

int
main(void)
{

	setvbuf(stdout, NULL, _IOLBF, 0);
	wall = mmap(NULL, sizeof(*wall), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (wall == MAP_FAILED || mkdtemp(dir) == NULL ||
	    store_open(&store, dir) == -1)
		return 1;
	digest = digest_new(NULL, 0);
	test_days();
	test_torn_day();
	test_set_back();
	test_first_row();
	is_int(verify(), 0, "verify.pl, once more");
	test_tampered();
	test_midnight();
	test_many();
	test_errors();
	test_totals();
	digest_free(digest);
	store_close(&store);
	remove_all(dir);
	return done();
}
