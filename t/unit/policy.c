/*
 * enforce/policy: every key by its row, what is refused and where, what a
 * second file may do to the first, and whose files root takes.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "enforce/policy.h"
#include "t/unit/tap.h"

#define K1 "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define K2 "3D4017C3E843895A92B70AA74D1B7EBC9C982CCF2EC4968CC0CD55F12AF4660C"
#define K2_LOW "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
#define ZEROS "00000000000000000000000000000000000000000000000000000000000000"
#define NINES "999999999999999999999999999999999999999999999999999999999999999"

static char file[] = "/tmp/policy.XXXXXX";
static char why[1024];

static void
put(const char *text)
{
	FILE *f = fopen(file, "w");

	if (f == NULL || fputs(text, f) == EOF || fclose(f) == EOF) {
		printf("Bail out! %s: %s\n", file, strerror(errno));
		exit(1);
	}
}

static int
load(struct policy *p, unsigned slot, const char *text)
{
	put(text);
	why[0] = '\0';
	return policy_load(p, slot, file, why, sizeof(why));
}

/* Refused, at the place and with the words? And nothing changed? */
static void
refused(const char *text, const char *place, const char *says)
{
	struct policy p;
	char want[128];
	int ret;

	policy_init(&p);
	ret = load(&p, 0, text);
	snprintf(want, sizeof(want), "%s:%s: ", file, place);
	ok(ret == -1 && strncmp(why, want, strlen(want)) == 0 &&
		strstr(why, says) != NULL && p.set[0] == 0 &&
		p.max_memory_mb == 512 && p.store == NULL,
	    "refused: %.*s", (int)strcspn(text, "\n"), text);
	if (ret == 0 || strstr(why, says) == NULL ||
	    strncmp(why, want, strlen(want)) != 0)
		printf("# %s\n", why);
	policy_clear(&p);
}

static void
test_refused(void)
{
	refused("max_memory_mbs: 5\n", "1:1", "did you mean `max_memory_mb`");
	refused("store: /a\nfoo: 5\n", "2:1", "foo: there is no such key");
	refused("ceiling.tools: []\n", "1:1", "no such key");
	refused(
	    "ceiling: {tool: []}\n", "1:11", "did you mean `ceiling.tools`");
	refused("ceiling: {max_memory_mb: 4}\n", "1:11", "no such key");
	refused("ceiling: {tools: Read}\n", "1:18", "a list of names of tools");
	refused(
	    "ceiling:\n  tools:\n", "2:9", "ceiling.tools: here is nothing");
	refused("ceiling:\n", "1:9", "a mapping of tools");
	refused("ceiling: []\n", "1:10", "a mapping of tools");
	refused("ceiling: {files: [a]}\n", "1:19", "absolute");
	refused("ceiling: {domains: [1]}\n", "1:21", "number");
	refused("max_memory_mb: 5\nmax_memory_mb: 6\n", "2:1", "line 1");
	refused("max_memory_mb: \"5\"\n", "1:16", "here is text");
	refused("max_memory_mb: 0\n", "1:16", "from 1 to");
	refused("max_memory_mb: 010\n", "1:16", "leading zeros");
	refused("max_memory_mb: 99999999999\n", "1:16", "from 1 to");
	refused("max_memory_mb:\n", "1:15", "here is nothing");
	refused("max_memory_mb: [5]\n", "1:16", "here is a list");
	refused("max_effort_minutes: 1441\n", "1:21", "from 1 to 1440");
	refused("audit_required: yes\n", "1:17", "true or false");
	refused("audit_required: True\n", "1:17", "true or false");
	refused("audit_required: \"true\"\n", "1:17", "true or false");
	refused("audit_sync: always\n", "1:13", "none, batch or row");
	refused("sandbox: off\n", "1:10", "required or best-effort");
	refused("store: relative\n", "1:8", "absolute path");
	refused("store: ~\n", "1:8", "an absolute path");
	refused("log: journal\n", "1:6", "absolute path");
	refused("uid_range: 5-4\n", "1:12", "FIRST-LAST");
	refused("uid_range: 0-10\n", "1:12", "FIRST-LAST");
	refused("uid_range: 2000-4294967295\n", "1:12", "FIRST-LAST");
	refused("uid_range: 2000-3000-4000\n", "1:12", "FIRST-LAST");
	refused("uid_range: 2000\n", "1:12", "FIRST-LAST");
	refused("http_allow_addresses: [10.0.0.0/33]\n", "1:24", "no network");
	refused("http_allow_addresses: [localhost]\n", "1:24", "no network");
	refused(
	    "http_allow_addresses: [\"10.0.0.0/\"]\n", "1:24", "no network");
	refused("trusted_keys: [[a]]\n", "1:16", "here is a list");
	refused("trusted_keys: {}\n", "1:15", "here is a mapping");
	refused("trusted_keys: [abc]\n", "1:16", "`abc` is no key");
	refused("trusted_keys: [{kei: " K1 "}]\n", "1:17", "`key`?");
	refused("trusted_keys: [{ids: [a]}]\n", "1:16", "without `key`");
	refused("trusted_keys: [{key: " K1 "}]\n", "1:16", "without `ids`");
	refused("trusted_keys: [{key: " K1 ", ids: a}]\n", "1:93",
	    "a list of ids");
	refused("trusted_keys: [{key: " K1 ", ids: [A]}]\n", "1:94", "no id");
	refused("trusted_keys: [{key: " K1 ", ids: [a], min_version: 1.0.0}]\n",
	    "1:111", "mapping of ids");
	refused("trusted_keys: [{key: " K1 ", ids: [a], min_version: {a: 1.0}}"
		"]\n",
	    "1:115", "a version");
	refused("trusted_keys: [\"01" ZEROS "\"]\n", "1:16", "small order");
	refused("trusted_keys: [/nonexistent/key.pub]\n", "1:16",
	    "No such file");
	refused("trusted_keys: [/etc]\n", "1:16", "no regular file");
	refused("trusted_keys: [/etc/passwd]\n", "1:16", "no Ed25519 public");
	refused("revoked: {}\n", "1:10", "here is a mapping");
	refused("revoked: [abc]\n", "1:11", "no hash");
	refused("revoked: [" K1 "0]\n", "1:11", "no hash");
	refused("require_signature: true\n", "1:1", "no key is trusted");
	refused("require_signature: true\ntrusted_keys: []\n", "1:1",
	    "no key is trusted");
	refused("store: &a /a\n", "1:8", "anchors");
	refused("store: !x /a\n", "1:8", "tags");
	refused("store: *a\n", "1:8", "aliases");
	refused("store: /a\n---\nstore: /b\n", "2:1", "second");
	refused("%YAML 1.1\n---\nstore: /b\n", "1:1", "directives");
	refused("- store\n", "1:1", "here is a list");
	refused("store\n", "1:1", "here is text");
	refused("store: a: b\n", "1:9", "not valid YAML");
	refused("store:a\nskills_dir: b\n", "1:1", "put a blank after");
	refused("---\nstore:a\nskills_dir: b\n", "2:1", "put a blank after");
	refused("store: /a\rb\n", "1:10", "carriage return");
	refused("store: \"/a\\u202eb\"\n", "1:8", "U+202E");
	refused("[a]: b\n", "1:1", "key");
}

static void
test_values(void)
{
	const struct trust_list *keys;
	struct policy p;

	policy_init(&p);
	ok(load(&p, 0, "") == 0 && load(&p, 0, "# nothing\n") == 0 &&
		p.set[0] == 0,
	    "an empty file sets nothing");
	ok(p.max_memory_mb == 512 && p.max_processes == 8 &&
		p.max_effort_minutes == 1440 && p.max_write_mb == 1024 &&
		p.min_free_mb == 256 && p.max_ledger_mb == 256 &&
		p.tmp_mb == 256 && p.uid_first == 2000000000 &&
		p.uid_last == 2000065535 && p.audit_sync == POLICY_SYNC_BATCH &&
		p.audit_resources && !p.audit_required && !p.best_effort &&
		p.audit_mark_seconds == 10 && p.store == NULL &&
		p.ceilings[0].tools == NULL && p.ceilings[0].files == NULL,
	    "the defaults");
	ok(load(&p, 0,
	       "\xef\xbb\xbf---\r\nskills: /s\r\nstore: /t\nspool: /u\n"
	       "socket_dir: /v\nlog: syslog\nca_file: /w\n"
	       "args_hash_key_file: /x\nsandbox: best-effort\n"
	       "uid_range: 3000-4000\nskill_owners: [ann, 1000]\ntmp_mb: 1\n"
	       "ceiling:\n  tools: []\n  files: [/srv/**]\n  domains: []\n"
	       "  memory_scopes: [memories/**]\nmax_memory_mb: 2\n"
	       "max_processes: 3\nmax_effort_minutes: 4\n"
	       "max_calls_per_minute: 5\nmax_invocations: 6\n"
	       "max_write_mb: 0\nmin_free_mb: 8\nmax_ledger_mb: 9\n"
	       "http_allow_addresses: [10.0.0.0/8, \"::1\", fc00::/7]\n"
	       "require_signature: true\ntrusted_keys:\n  - " K1 "\n"
	       "  - {key: " K2 ", ids: [a, \"b-*\"],\n     min_version: {b-c: "
	       "1.2.3}}\nrevoked: [" K1 ", \"0" NINES "\"]\naudit_sync: row\n"
	       "audit_required: true\naudit_resources: false\n"
	       "audit_append_only: true\naudit_mark_seconds: 11\n"
	       "quarantine_after: 12\n") == 0,
	    "every key");
	if (why[0] != '\0')
		printf("# %s\n", why);
	is_str(p.skills, "/s", "skills");
	is_str(p.store, "/t", "store");
	is_str(p.spool, "/u", "spool");
	is_str(p.socket_dir, "/v", "socket_dir");
	is_str(p.log, "syslog", "log");
	is_str(p.ca_file, "/w", "ca_file");
	is_str(p.args_hash_key_file, "/x", "args_hash_key_file");
	ok(p.best_effort && p.uid_first == 3000 && p.uid_last == 4000,
	    "sandbox and uids");
	ok(p.skill_owners_n == 2 && strcmp(p.skill_owners[1], "1000") == 0,
	    "skill_owners");
	ok(p.ceilings[0].tools != NULL && p.ceilings[0].tools_n == 0 &&
		glob_set_count(p.ceilings[0].files) == 1 &&
		p.ceilings[0].domains != NULL &&
		glob_set_count(p.ceilings[0].domains) == 0 &&
		glob_set_count(p.ceilings[0].memory_scopes) == 1 &&
		p.ceilings[1].tools == NULL,
	    "an empty ceiling is one that allows nothing");
	ok(p.tmp_mb == 1 && p.max_memory_mb == 2 && p.max_processes == 3 &&
		p.max_effort_minutes == 4 && p.max_calls_per_minute == 5 &&
		p.max_invocations == 6 && p.max_write_mb == 0 &&
		p.min_free_mb == 8 && p.max_ledger_mb == 9 &&
		p.audit_mark_seconds == 11 && p.quarantine_after == 12,
	    "numbers");
	ok(p.http_allow_addresses_n == 3 && p.revoked_n == 2 &&
		strcmp(p.revoked[1], "0" NINES) == 0,
	    "lists");
	keys = &p.ceilings[0].keys;
	ok(keys->set && keys->n == 2 && strcmp(keys->v[0].key, K1) == 0 &&
		keys->v[0].ids == NULL && strcmp(keys->v[1].key, K2_LOW) == 0 &&
		keys->v[1].ids_n == 2 &&
		strcmp(keys->v[1].ids[1], "b-*") == 0 &&
		keys->v[1].least_n == 1 &&
		strcmp(keys->v[1].least[0].ids, "b-c") == 0 &&
		strcmp(keys->v[1].least[0].version, "1.2.3") == 0,
	    "keys");
	ok(p.require_signature && p.audit_required && !p.audit_resources &&
		p.audit_append_only && p.audit_sync == POLICY_SYNC_ROW,
	    "switches");
	policy_clear(&p);
}

/* A second file after a first one: taken, or refused naming the key. */
static void
second(const char *first, const char *then, bool taken)
{
	struct policy p;
	char key[64];
	bool good;

	policy_init(&p);
	good = load(&p, 0, first) == 0;
	if (!good)
		printf("# %s\n", why);
	good = good && (load(&p, 1, then) == 0) == taken;
	snprintf(key, sizeof(key), ": %.*s: the system's file says",
	    (int)strcspn(then, ":"), then);
	ok(good && (taken || strstr(why, key) != NULL), "%s: %.*s, then %.*s",
	    taken ? "taken" : "refused", (int)strcspn(first, "\n"), first,
	    (int)strcspn(then, "\n"), then);
	if (!good || (!taken && strstr(why, key) == NULL))
		printf("# %s\n", why);
	policy_clear(&p);
}

static void
test_tighten(void)
{
	second("max_memory_mb: 100", "max_memory_mb: 50", true);
	second("max_memory_mb: 100", "max_memory_mb: 100", true);
	second("max_memory_mb: 100", "max_memory_mb: 101", false);
	second("tmp_mb: 100", "max_memory_mb: 4096", true);
	second("max_calls_per_minute: 5", "max_calls_per_minute: 0", false);
	second("max_calls_per_minute: 5", "max_calls_per_minute: 4", true);
	second("max_calls_per_minute: 0", "max_calls_per_minute: 4", true);
	second("quarantine_after: 3", "quarantine_after: 0", false);
	second("min_free_mb: 100", "min_free_mb: 99", false);
	second("min_free_mb: 100", "min_free_mb: 101", true);
	second("audit_sync: batch", "audit_sync: none", false);
	second("audit_sync: batch", "audit_sync: row", true);
	second("audit_required: true", "audit_required: false", false);
	second("audit_required: false", "audit_required: true", true);
	second("audit_append_only: true", "audit_append_only: false", false);
	second("audit_resources: true", "audit_resources: false", false);
	second("audit_resources: false", "audit_resources: true", false);
	second("sandbox: required", "sandbox: best-effort", false);
	second("sandbox: best-effort", "sandbox: required", true);
	second("tmp_mb: 9", "sandbox: best-effort", true);
	second("uid_range: 3000-4000", "uid_range: 3000-3999", true);
	second("uid_range: 3000-4000", "uid_range: 2999-3999", false);
	second("uid_range: 3000-4000", "uid_range: 3000-4001", false);
	second("store: /a", "store: /a", true);
	second("store: /a", "store: /b", false);
	second("skills: /a", "skills: /b", false);
	second("spool: /a", "spool: /b", false);
	second("socket_dir: /a", "socket_dir: /b", false);
	second("log: syslog", "log: /b", false);
	second("ca_file: /a", "ca_file: /b", false);
	second("args_hash_key_file: /a", "args_hash_key_file: /b", false);
	second("skill_owners: [a, b]", "skill_owners: [b]", true);
	second("skill_owners: []", "skill_owners: [b]", false);
	second("http_allow_addresses: [10.0.0.0/8]",
	    "http_allow_addresses: [10.0.0.0/8, 127.0.0.1]", false);
	second("http_allow_addresses: [10.0.0.0/8]", "http_allow_addresses: []",
	    true);
	/* Both must allow a signature. */
	second("trusted_keys: [" K1 "]", "trusted_keys: [" K2 "]", true);
	second("require_signature: true\ntrusted_keys: [" K1 "]",
	    "require_signature: false", false);
}

static void
test_both(void)
{
	struct policy p;

	policy_init(&p);
	ok(load(&p, 0,
	       "revoked: [" K1 "]\nceiling: {tools: [Read, Bash]}\nstore: /a\n") ==
		    0 &&
		load(&p, 1,
		    "revoked: [" K2 "]\nceiling: {tools: [Bash, Glob]}\n"
		    "log: /b\n") == 0,
	    "two files");
	ok(p.revoked_n == 2, "what either revokes is revoked");
	ok(p.ceilings[0].tools_n == 2 && p.ceilings[1].tools_n == 2 &&
		strcmp(p.ceilings[1].tools[1], "Glob") == 0,
	    "each has its own ceiling");
	ok(strcmp(p.store, "/a") == 0 && strcmp(p.log, "/b") == 0, "the rest");
	policy_clear(&p);
	policy_init(&p);
	ok(load(&p, 0, "trusted_keys: [" K1 "]\nrequire_signature: true\n") ==
		    0 &&
		load(&p, 1, "trusted_keys: []\n") == -1 &&
		strstr(why, ":1:1: trusted_keys: ") != NULL &&
		p.ceilings[0].keys.n == 1,
	    "the keys of the first file cannot be taken away");
	policy_clear(&p);
}

static int
load_as(mode_t mode, uid_t owner, const char *says)
{
	struct policy p;
	int ret;

	if (chmod(file, mode) == -1 || chown(file, owner, (gid_t)-1) == -1)
		return -1;
	policy_init(&p);
	ret = policy_load(&p, 0, file, why, sizeof(why));
	policy_clear(&p);
	return ret == -1 && strstr(why, says) != NULL ? 1 : ret;
}

static void
test_files(void)
{
	struct policy p;

	policy_init(&p);
	ok(policy_load(&p, 0, "/nonexistent/x", why, sizeof(why)) == -1 &&
		strncmp(why, "/nonexistent/x:1:1: ", 20) == 0,
	    "a missing file is an error");
	ok(policy_load(&p, 0, "/dev/null", why, sizeof(why)) == -1 &&
		strstr(why, "no regular file") != NULL,
	    "a device is no file");
	ok(policy_load(&p, 0, "/tmp", why, sizeof(why)) == -1,
	    "nor is a directory");
	ok(policy_load(&p, 2, file, why, sizeof(why)) == -1,
	    "there is no third slot");
	policy_clear(&p);
	put("tmp_mb: 5\n");
	if (geteuid() != 0) {
		ok(true, "owner # SKIP not root");
		return;
	}
	is_int(load_as(0644, 0, ""), 0, "root takes its own file");
	is_int(load_as(0664, 0, "others than root"), 1,
	    "and none that a group can write");
	is_int(load_as(0646, 0, "others than root"), 1, "or others");
	is_int(load_as(0644, 1000, "belong to root"), 1, "or someone else's");
	if (chown(file, 0, (gid_t)-1) == -1 || unlink(file) == -1)
		ok(false, "%s: %s", file, strerror(errno));
	policy_init(&p);
	ok(mkfifo(file, 0600) == 0 &&
		policy_load(&p, 0, file, why, sizeof(why)) == -1,
	    "a pipe does not block");
	policy_clear(&p);
}

static void
test_rows(void)
{
	struct policy_key key;
	size_t i, n = 0;
	bool good = true;

	for (i = 0; policy_key(i, &key); i++) {
		n++;
		if (key.name[0] == '\0' || key.type[0] == '\0' ||
		    key.value[0] == '\0' || key.help[0] == '\0' ||
		    key.help[strlen(key.help) - 1] != '.')
			good = false;
	}
	ok(good && n == 33, "every row says what it is: %zu", n);
}

int
main(void)
{
	int fd = mkstemp(file);

	if (fd == -1)
		return 1;
	close(fd);
	test_refused();
	test_values();
	test_tighten();
	test_both();
	test_rows();
	test_files();
	unlink(file);
	return done();
}
