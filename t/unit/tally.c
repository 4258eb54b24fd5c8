/* Counts for the metrics: lists, bounds, and pages that lie. */

#include "audit/tally.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/clock.h"
#include "t/unit/tap.h"

static const char *const tools[] = {"Bash", "Read", NULL};
static const char *const syscalls[] = {"mount", "bpf", NULL};
static const struct tally_names names = {tools, syscalls};

static void
test_lists(void)
{
	static const size_t sizes[TALLY_LISTS] = {TALLY_OUTCOMES,
	    TALLY_ENDINGS, TALLY_VALIDATIONS, TALLY_DIRECTIONS, TALLY_DROPS};
	bool whole = true, found = true, rising = true;
	size_t list, i;

	for (list = 0; list < TALLY_LISTS; list++) {
		for (i = 0; tally_word((enum tally_list)list, i) != NULL; i++)
			found = found &&
				tally_place((enum tally_list)list,
				    tally_word((enum tally_list)list, i)) ==
				    (int)i;
		whole = whole && i == sizes[list];
	}
	ok(whole, "each list has a word for each of its numbers");
	ok(found, "and a number for each word");
	is_int(tally_place(TALLY_OUTCOME, "nonsense"), -1, "no such word");
	ok(tally_word(TALLY_OUTCOME, 1000) == NULL, "no such number");
	for (i = 1; i < TALLY_BUCKETS; i++)
		rising = rising && tally_bound(i) > tally_bound(i - 1);
	ok(rising, "bounds rise");
	for (i = 0, rising = true; i + 1 < TALLY_BUCKETS; i++)
		rising = rising &&
			 (int64_t)(strtod(tally_bound_text(i), NULL) * 1e9 +
				 0.5) == tally_bound(i);
	ok(rising, "and their texts say the same");
	is_str(tally_bound_text(TALLY_BUCKETS - 1), "+Inf", "the last has none");
}

static void
test_counts(void)
{
	struct tally t;

	tally_init(&t, &names);
	is_str(t.tools[0].name, TALLY_UNKNOWN, "what is no tool has a name");
	tally_call(&t, "Read", TALLY_SUCCESS, 10000);
	tally_call(&t, "Read", TALLY_ERROR, 10001);
	tally_call(&t, "Read", TALLY_DENIED, -1);
	tally_call(&t, "Nothing", TALLY_DENIED, -1);
	tally_call(&t, NULL, TALLY_DENIED, -1);
	tally_call(&t, "", TALLY_DENIED, -1);
	ok(t.tools[2].calls[TALLY_SUCCESS] == 1 &&
		t.tools[2].calls[TALLY_ERROR] == 1 &&
		t.tools[2].calls[TALLY_DENIED] == 1,
	    "calls by tool and outcome");
	is_int((long long)t.tools[0].calls[TALLY_DENIED], 3,
	    "a name that is in no list, or none at all, is unknown");
	ok(t.tools[2].took.bucket[0] == 1 && t.tools[2].took.bucket[1] == 1 &&
		tally_observed(&t.tools[2].took) == 2 &&
		t.tools[2].took.sum == 20001,
	    "a bound is in its bucket; what never ran took no time");
	tally_observe(&t.validation, INT64_MAX);
	tally_observe(&t.validation, -5);
	ok(t.validation.bucket[TALLY_BUCKETS - 1] == 1 &&
		t.validation.bucket[0] == 1,
	    "the longest time, and one that went backwards");
	tally_attempt(&t, "bpf", 2);
	tally_attempt(&t, "*", 3);
	ok(t.syscalls[2].attempts == 2 && t.syscalls[0].attempts == 3,
	    "attempts by system call");
}

static void
test_raise(void)
{
	struct tally page, rows;

	tally_init(&page, &names);
	tally_init(&rows, &names);
	tally_call(&page, "Read", TALLY_SUCCESS, 20000);
	page.rows = 5;
	tally_call(&rows, "Read", TALLY_SUCCESS, 0);
	tally_call(&rows, "Read", TALLY_ERROR, 3 * CLOCK_MS);
	rows.rows = 2;
	rows.endings[TALLY_END_PANIC] = 1;
	tally_raise(&page, &rows);
	ok(page.tools[2].calls[TALLY_SUCCESS] == 1 &&
		page.tools[2].calls[TALLY_ERROR] == 1 &&
		page.endings[TALLY_END_PANIC] == 1,
	    "what was written and not counted");
	ok(page.tools[2].took.sum == 20000 + 3 * (uint64_t)CLOCK_MS &&
		tally_observed(&page.tools[2].took) == 2,
	    "with its time, and the times of the others as they were");
	is_int((long long)page.dropped, 3, "made and not found is lost");
	tally_raise(&page, &rows);
	ok(page.tools[2].calls[TALLY_ERROR] == 1 &&
		tally_observed(&page.tools[2].took) == 2 && page.dropped == 3,
	    "twice is once");
	tally_init(&page, &names);
	tally_raise(&page, &rows);
	ok(tally_observed(&page.tools[2].took) == 2 &&
		page.tools[2].took.sum == 3 * (uint64_t)CLOCK_MS,
	    "without a page all is from the rows");
	page.tools[2].calls[TALLY_DENIED] = 9;
	tally_raise(&page, &rows);
	is_int((long long)page.tools[2].calls[TALLY_DENIED], 9,
	    "what the page has more stays");
}

static void
test_add(void)
{
	static const char *const others[] = {"New", "Read", NULL};
	const struct tally_names newer = {others, syscalls};
	struct tally sum, page;
	size_t i;

	tally_init(&sum, &names);
	tally_init(&page, &newer);
	tally_call(&page, "New", TALLY_SUCCESS, 1);
	tally_call(&page, "Read", TALLY_SUCCESS, 1);
	tally_attempt(&page, "bpf", 3);
	tally_add(&sum, &page);
	ok(sum.tools[2].calls[TALLY_SUCCESS] == 1 &&
		sum.tools[0].calls[TALLY_SUCCESS] == 1 &&
		sum.syscalls[2].attempts == 3,
	    "by name, not by place");
	tally_extend(&sum, &newer);
	tally_extend(&sum, &newer);
	ok(strcmp(sum.tools[3].name, "New") == 0 &&
		sum.tools[4].name[0] == '\0',
	    "names that are not there yet are added, once");
	tally_add(&sum, &page);
	is_int((long long)sum.tools[3].calls[TALLY_SUCCESS], 1,
	    "and count from then on");

	tally_init(&sum, &names);
	tally_init(&page, &names);
	page.magic++;
	page.truncated = 1;
	tally_add(&sum, &page);
	is_int((long long)sum.truncated, 0, "another magic adds nothing");

	/* A page whose writer has been taken over. */
	memset(&page, 0xff, sizeof(page));
	page.magic = TALLY_MAGIC;
	strlcpy(page.tools[1].name, "\"}\n", TALLY_NAME);
	for (i = 0; i < 100000; i++)
		tally_add(&sum, &page);
	ok(sum.truncated == (uint64_t)INT64_MAX &&
		sum.tools[0].calls[TALLY_SUCCESS] == (uint64_t)INT64_MAX,
	    "sums stop, they do not wrap");
	ok(sum.tools[2].calls[TALLY_SUCCESS] == 0 &&
		strcmp(sum.tools[1].name, "Bash") == 0 &&
		sum.tools[3].name[0] == '\0',
	    "and no name of its comes in");

	tally_init(&page, NULL);
	is_int(page.tools[1].name[0], 0, "a tally without names");
}

static void
test_killed(void)
{
	struct tally *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	tally_init(t, &names);
	pid = fork();
	if (pid == 0) {
		tally_call(t, "Bash", TALLY_ERROR, 1);
		tally_count(&t->bytes[TALLY_RX], 1000);
		tally_set(&t->spooled, 7);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	ok(t->tools[1].calls[TALLY_ERROR] == 1 && t->bytes[TALLY_RX] == 1000 &&
		t->spooled == 7,
	    "every count up to the SIGKILL");
	munmap(t, sizeof(*t));
}

int
main(void)
{
	test_lists();
	test_counts();
	test_raise();
	test_add();
	test_killed();
	return done();
}
