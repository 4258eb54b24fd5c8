/* Memory with one address on both sides of a fork. */

#include "enforce/room.h"

#include <sys/wait.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "t/unit/tap.h"

static void
test_filling(void)
{
	struct room *r = room_map(256);
	char out[] = "left out", one[] = "one", two[] = "two";
	char *const list[] = { out, one, two, NULL };
	const char *text = "a text", *none = NULL, *was = text;
	char **copy, *at;
	int n = 0;

	ok(room_text(r, &text) && text != was && strcmp(text, was) == 0,
	    "a text is copied");
	ok(room_text(r, &none) && none == NULL, "none stays none");
	ok(room_texts(r, list, 1, &copy) && copy[0] == NULL &&
		strcmp(copy[1], "one") == 0 && strcmp(copy[2], "two") == 0 &&
		copy[3] == NULL,
	    "a list, but for its first entry");
	while ((at = room_take(r, 1)) != NULL &&
	    (uintptr_t)at % _Alignof(max_align_t) == 0)
		n++;
	ok(at == NULL && errno == E2BIG && n > 0 && n < 16 &&
		r->used <= r->size,
	    "pieces are aligned, and none is beyond the end");
	ok(room_take(r, SIZE_MAX) == NULL && room_take(r, SIZE_MAX - 7) == NULL,
	    "nor is a size that is none");
	text = was;
	ok(!room_text(r, &text) && text == NULL, "no text without room");
	room_unmap(r);
	room_unmap(NULL);
}

/* What a child says of the room after the parent has written to it twice. */
static char
heard(bool own, bool hide)
{
	struct room *r = room_map(65536);
	char *at = room_take(r, 1), c = 0;
	int go[2], said[2];
	pid_t pid;

	*at = '1';
	if (pipe(go) == -1 || pipe(said) == -1 || (hide && room_hide(r) == -1))
		return 0;
	pid = fork();
	if (pid == 0) {
		if (own && room_own(r) == -1)
			_exit(1);
		(void)!write(said[1], "r", 1);
		(void)!read(go[0], &c, 1);
		/* Where nothing is mapped the call fails, and 'x' is said. */
		if (write(said[1], at, 1) != 1)
			(void)!write(said[1], "x", 1);
		_exit(0);
	}
	(void)!read(said[0], &c, 1);
	*at = '2';
	(void)!write(go[1], "g", 1);
	(void)!read(said[0], &c, 1);
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
	close(go[0]);
	close(go[1]);
	close(said[0]);
	close(said[1]);
	room_unmap(r);
	return c;
}

int
main(void)
{
	test_filling();
	is_int(heard(false, false), '2', "a child sees what is written later");
	is_int(heard(true, false), '1', "not when it has made it its own");
	is_int(heard(false, true), 'x', "one that it is hidden from has nothing");
	return done();
}
