/* Twice as long each time, forgotten with the first good one. */

#include "supervisor/throttle.h"

#include <stdlib.h>
#include <string.h>

#include "audit/clock.h"

/* Its place, or n. */
static size_t
find(const struct throttle *t, const char *skill)
{
	size_t i = 0;

	while (i < t->n && strcmp(t->skill[i].name, skill) != 0)
		i++;
	return i;
}

/* A free place, or that of the one whose time is over first. */
static struct throttle_skill *
place(struct throttle *t)
{
	struct throttle_skill *first = &t->skill[0];
	size_t i;

	if (t->n < THROTTLE_SKILLS)
		return &t->skill[t->n++];
	for (i = 1; i < t->n; i++) {
		if (t->skill[i].until < first->until)
			first = &t->skill[i];
	}
	free(first->name);
	return first;
}

unsigned
throttle_crashed(struct throttle *t, const char *skill, int64_t now)
{
	size_t at = find(t, skill);
	struct throttle_skill *s = t->skill + at;
	unsigned ms = THROTTLE_FIRST_MS, i;
	char *name;

	if (at == t->n) {
		name = strdup(skill);
		if (name == NULL)
			return 0;
		s = place(t);
		s->name = name;
		s->crashes = 0;
	}
	for (i = 0; i < s->crashes && ms < THROTTLE_MOST_MS; i++)
		ms *= 2;
	if (ms > THROTTLE_MOST_MS)
		ms = THROTTLE_MOST_MS;
	s->crashes++;
	s->until = now + ms * CLOCK_MS;
	return ms;
}

void
throttle_fine(struct throttle *t, const char *skill)
{
	size_t at = find(t, skill);

	if (at == t->n)
		return;
	free(t->skill[at].name);
	t->skill[at] = t->skill[--t->n];
}

int64_t
throttle_until(const struct throttle *t, const char *skill)
{
	size_t at = find(t, skill);

	return at == t->n ? 0 : t->skill[at].until;
}

int64_t
throttle_next(const struct throttle *t, int64_t now)
{
	int64_t first = 0;
	size_t i;

	for (i = 0; i < t->n; i++) {
		if (t->skill[i].until > now &&
		    (first == 0 || t->skill[i].until < first))
			first = t->skill[i].until;
	}
	return first;
}

void
throttle_clear(struct throttle *t)
{
	while (t->n > 0)
		free(t->skill[--t->n].name);
}
