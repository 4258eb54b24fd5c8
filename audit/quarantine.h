#ifndef AUDIT_QUARANTINE_H
#define AUDIT_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/digest.h"
#include "audit/store.h"

/*
 * Skills that tried to escape too often (quarantine_after). What is counted and
 * held is one version of one skill: the text of its frontmatter and all of its
 * files, by their hashes. Its id is only told, so nobody gets another's skill
 * quarantined by taking its id, or its frontmatter with other files.
 *
 * quarantine/<key>.json in the store is the state of one of them, replaced as a
 * whole under a lock. The decision stands in the ledger of the host as well
 * (skill.quarantined, skill.quarantine_released): at least once, whenever
 * somebody is killed.
 */
#define QUARANTINE_WINDOW_MS	(INT64_C(24) * 3600 * 1000)
#define QUARANTINE_KEY_SIZE	DIGEST_HEX

struct quarantine_skill {
	char	 skill_id[65];
	char	 version[257];
	char	 frontmatter_hash[DIGEST_HEX];
	char	 files_sha256[DIGEST_HEX];
};

/* Is it held? 1, 0, or -1 with errno; whoever cannot know does not start it. */
int	quarantine_held(const struct store *, struct digest *,
	    const struct quarantine_skill *);

/*
 * An invocation of it has tried so often in all, until now; telling the same
 * twice counts once. With the after-th attempt within 24 hours it is held, and
 * *held says so. 0, or -1 with errno.
 */
int	quarantine_attempts(const struct store *, struct digest *,
	    const struct quarantine_skill *, const char *inv, uint64_t total,
	    unsigned after, bool *held);

/* One that is held, or has attempts within the window. */
struct quarantine_entry {
	char	 key[QUARANTINE_KEY_SIZE];
	struct quarantine_skill skill;
	bool	 held;
	int64_t	 since_ms;	/* wall time when it was held */
	uint64_t attempts;	/* when it was held, else in the last 24 hours */
};

/* All of them, sorted by key; free(*list) when done. 0, or -1 with errno. */
int	quarantine_list(const struct store *, struct digest *,
	    struct quarantine_entry **list, size_t *n);

/* Let it go: what it did before is forgotten. 0, or -1 with errno: ENOENT, it is
 * not held. */
int	quarantine_release(const struct store *, struct digest *,
	    const char *key);

#endif
