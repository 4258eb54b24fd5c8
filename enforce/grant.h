#ifndef ENFORCE_GRANT_H
#define ENFORCE_GRANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "enforce/manifest.h"
#include "enforce/policy.h"
#include "enforce/verdict.h"

/*
 * What one skill may do: its manifest within the operator's ceilings, frozen
 * when the invocation starts. A missing list and an empty list grant nothing.
 * Each question answers REASON_NONE or why not (SPEC 4).
 */
struct grant;

/*
 * Takes what it needs out of the manifest (which must have no errors) and
 * borrows the policy, which must outlive it. NULL with ENOMEM.
 */
struct grant	*grant_new(struct manifest *, const struct policy *);
void		 grant_free(struct grant *);

/* Denylist, allowlist, ceiling, in this order. The name is a registered one. */
enum reason	 grant_tool(const struct grant *, const char *tool);

/* Canonical paths only. */
enum reason	 grant_memory(const struct grant *, const char *path);
enum reason	 grant_file(const struct grant *, const char *path);

/*
 * Could anything below this directory (canonical, "" is the root) be granted?
 * REASON_NONE when it is worth a look.
 */
enum reason	 grant_memory_below(const struct grant *, const char *dir);
enum reason	 grant_file_below(const struct grant *, const char *dir);

/* A canonical host, as glob_match_host wants it. */
enum reason	 grant_host(const struct grant *, const char *host,
		    uint16_t port, bool default_port);

/* The manifest that it was made of, for its plain values. */
const struct manifest *grant_manifest(const struct grant *);

#endif
