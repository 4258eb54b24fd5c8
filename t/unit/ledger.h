#ifndef T_UNIT_LEDGER_H
#define T_UNIT_LEDGER_H

/*
 * The rows of a small invocation, as broker and supervisor make them, for tests and
 * benchmarks of the ledger. Whatever fails ends the program.
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/anchor.h"
#include "audit/segment.h"

__attribute__((unused)) static void
need(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

__attribute__((unused)) static void
put_anchor(const struct store *store, struct row *r, struct digest *digest,
    struct anchor *a)
{
	need(row_end(r) == 0 &&
		 anchor_append(store, r, ROW_BY_SUPERVISOR, digest, a) == 0,
	    "anchor");
	row_clear(r);
}

/* The anchor that opens its first part, on that day. */
__attribute__((unused)) static void
put_opened(const struct store *store, const char *day, const char *inv,
    struct digest *digest, struct anchor *a)
{
	char file[STORE_SEGMENT_NAME];
	struct row r;

	store_segment_path(day, inv, 1, file);
	row_begin(&r, ROW_SEGMENT_OPENED, NULL, digest);
	row_word(&r, "invocation_id", inv);
	row_word(&r, "file", file);
	row_word(&r, "skill_id", "demo");
	row_word(&r, "version", "1.0.0");
	row_word(&r, "frontmatter_hash", NULL);
	row_word(&r, "durability", "none");
	row_bool(&r, "append_only", false);
	put_anchor(store, &r, digest, a);
}

__attribute__((unused)) static struct row_subject
subject_of(const char *inv)
{
	return (struct row_subject){ inv, "demo",
		"0123456789abcdef0123456789abcdef", NULL };
}

static void
put_row(struct segment *s, struct row *r)
{
	need(row_end(r) == 0 && segment_append(s, ROW_BY_BROKER, r, NULL) == 0,
	    "append");
	row_clear(r);
}

__attribute__((unused)) static void
put_start(struct segment *s, const char *inv, struct digest *digest)
{
	struct row_subject subject = subject_of(inv);
	struct row r;

	row_begin(&r, ROW_INVOKED_STARTED, &subject, digest);
	row_word(&r, "version", "1.0.0");
	row_word(&r, "tenant_id", inv);
	row_word(&r, "caller_persona", NULL);
	row_word(&r, "request_id", NULL);
	row_word(&r, "args_hash", NULL);
	row_word(&r, "frontmatter_hash", NULL);
	row_json(&r, "sandbox", "{}", 2);
	put_row(s, &r);
}

__attribute__((unused)) static void
put_call_started(
    struct segment *s, const char *inv, struct digest *digest, int number)
{
	struct row_subject subject = subject_of(inv);
	struct row r;

	row_begin(&r, ROW_TOOL_STARTED, &subject, digest);
	row_word(&r, "tool_name", "Read");
	row_word(&r, "args_hash", NULL);
	row_word(&r, "resource", "/srv/project/docs/notes.md");
	row_int(&r, "call", number);
	put_row(s, &r);
}

/* outcome "success", or "error" */
__attribute__((unused)) static void
put_call_completed(struct segment *s, const char *inv, struct digest *digest,
    int number, const char *outcome)
{
	static const char hash[] =
	    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	struct row_subject subject = subject_of(inv);
	bool good = strcmp(outcome, "success") == 0;
	struct row r;

	row_begin(&r, ROW_TOOL_COMPLETED, &subject, digest);
	row_word(&r, "tool_name", "Read");
	row_int(&r, "call", number);
	row_word(&r, "outcome", outcome);
	row_int(&r, "duration_ms", 1);
	row_word(&r, "result_hash", good ? hash : NULL);
	row_word(&r, "error_message", good ? NULL : "not_found");
	put_row(s, &r);
}

__attribute__((unused)) static void
put_end(struct segment *s, const char *inv, struct digest *digest, int calls)
{
	struct row_subject subject = subject_of(inv);
	struct row r;

	row_begin(&r, ROW_INVOKED_COMPLETED, &subject, digest);
	row_word(&r, "version", "1.0.0");
	row_word(&r, "outcome", "success");
	row_int(&r, "duration_ms", 1);
	row_int(&r, "exit_code", 0);
	row_word(&r, "signal", NULL);
	row_int(&r, "calls", calls);
	row_int(&r, "denied", 0);
	row_int(&r, "rejected", 0);
	row_word(&r, "by", "skill");
	row_word(&r, "error_message", NULL);
	put_row(s, &r);
}

#endif
