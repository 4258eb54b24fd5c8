/*
 * The files of a skill: their digest by a line that is written out here, what
 * is refused, and that the copy is what was hashed.
 */

#include "enforce/bundle.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "enforce/room.h"
#include "t/unit/tap.h"

static char root[] = "/tmp/cyberos-bundle.XXXXXX";
static char why[256];

static void
put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd == -1 || write(fd, text, strlen(text)) < 0 ||
	    fchmod(fd, mode) == -1 || close(fd) == -1)
		ok(false, "%s: %s", path, strerror(errno));
}

static void
make_dir(const char *path, mode_t mode)
{
	if (mkdir(path, 0700) == -1 || chmod(path, mode) == -1)
		ok(false, "%s: %s", path, strerror(errno));
}

static struct bundle *
read_dir(const char *path, bool keep)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	struct bundle *b;

	why[0] = '\0';
	b = bundle_read(fd, keep, why, sizeof(why));
	close(fd);
	return b;
}

static void
is_digest(const char *dir, const char *want, const char *name)
{
	struct bundle *b = read_dir(dir, false);

	is_str(b == NULL ? why : bundle_sha256(b), want, name);
	bundle_free(b);
}

/* The hash of a text, by the library's other interface. */
static const char *
hash_of(const char *text)
{
	static char hex[8][65];
	static unsigned at;
	unsigned char raw[32];
	unsigned i;

	at = (at + 1) % 8;
	EVP_Digest(text, strlen(text), raw, NULL, EVP_sha256(), NULL);
	for (i = 0; i < 32; i++)
		snprintf(hex[at] + i * 2, 3, "%02x", raw[i]);
	return hex[at];
}

static void
test_digest(void)
{
	char lines[1024];
	struct bundle *b;

	make_dir("s", 0755);
	is_digest("s",
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	    "no file at all");
	put("s/SKILL.md", "---\n", 0644);
	put("s/.tenant", "x", 0644);
	is_digest("s",
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	    "SKILL.md and .tenant do not count");
	put("s/main", "abc", 0755);
	make_dir("s/lib", 0750);
	put("s/lib/SKILL.md", "", 0600);
	put("s/lib.py", "xyz", 0644);
	if (symlink("../main", "s/lib/again") == -1)
		ok(false, "symlink");
	snprintf(lines, sizeof(lines),
	    "d 750 - lib\nf 644 %s lib.py\nf 600 %s lib/SKILL.md\n"
	    "l 777 %s lib/again\nf 755 %s main\n",
	    hash_of("xyz"), hash_of(""), hash_of("../main"), hash_of("abc"));
	is_digest("s", hash_of(lines),
	    "a line for each, by the bytes of the path: lib.py before lib/x");
	b = read_dir("s", false);
	ok(b != NULL && bundle_has_main(b), "main is there");
	bundle_free(b);
}

static void
changes(const char *before, const char *name)
{
	struct bundle *b = read_dir("s", false);

	ok(b != NULL && strcmp(bundle_sha256(b), before) != 0,
	    "the digest tells %s", name);
	bundle_free(b);
}

static void
test_changes(void)
{
	struct bundle *b = read_dir("s", false);
	char was[65] = "";

	if (b != NULL)
		strlcpy(was, bundle_sha256(b), sizeof(was));
	bundle_free(b);
	chmod("s/lib.py", 0600);
	changes(was, "a mode");
	chmod("s/lib.py", 0644);
	put("s/lib.py", "xyZ", 0644);
	changes(was, "a byte");
	put("s/lib.py", "xyz", 0644);
	rename("s/lib.py", "s/lib.pz");
	changes(was, "a name");
	rename("s/lib.pz", "s/lib.py");
	make_dir("s/none", 0755);
	changes(was, "an empty directory");
	rmdir("s/none");
	unlink("s/lib/again");
	changes(was, "a link that is gone");
	if (symlink("../main2", "s/lib/again") == 0)
		changes(was, "another target");
	unlink("s/lib/again");
	put("s/lib/again", "../main", 0777);
	changes(was, "a file with a link's target for a link");
	unlink("s/lib/again");
	if (symlink("../main", "s/lib/again") == 0)
		is_digest("s", was, "and it is the same again");
}

static void
refused(const char *want, const char *name)
{
	struct bundle *b = read_dir("s", false);

	ok(b == NULL && errno == EINVAL && strstr(why, want) != NULL,
	    "refused: %s", name);
	if (b != NULL || strstr(why, want) == NULL)
		printf("# %s\n", why);
	bundle_free(b);
}

static void
accepted(const char *name)
{
	struct bundle *b = read_dir("s", false);

	ok(b != NULL, "taken: %s", name);
	bundle_free(b);
}

static void
test_refused(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	char path[300];
	int fd, i;

	mkfifo("s/fifo", 0644);
	refused("fifo: is a FIFO", "a FIFO");
	unlink("s/fifo");
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	strlcpy(sun.sun_path, "s/sock", sizeof(sun.sun_path));
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		refused("sock: is a socket", "a socket");
	close(fd);
	unlink("s/sock");
	if (geteuid() == 0 && mknod("s/null", S_IFCHR | 0666, 0x103) == 0)
		refused("null: is a device", "a device");
	unlink("s/null");
	put("s/a\nb", "", 0644);
	refused("a\\nb: the name holds control", "a line feed in a name");
	unlink("s/a\nb");
	put("s/\xff", "", 0644);
	refused("\\xff: the name holds control", "a name that is not UTF-8");
	unlink("s/\xff");
	put("s/\xc2\x9b", "", 0644);
	refused("the name holds control", "a name with a C1 control");
	unlink("s/\xc2\x9b");
	put("s/gr\xc3\xbcn und blau", "", 0644);
	accepted("other names");
	unlink("s/gr\xc3\xbcn und blau");

	fd = open("s/big", O_WRONLY | O_CREAT, 0644);
	if (ftruncate(fd, BUNDLE_BYTES_MAX - 5) == -1)
		ok(false, "ftruncate");
	refused("more than 64 MiB", "64 MiB and a little");
	if (ftruncate(fd, BUNDLE_BYTES_MAX - 6) == -1)
		ok(false, "ftruncate");
	accepted("exactly 64 MiB");
	close(fd);
	unlink("s/big");

	strlcpy(path, "s", sizeof(path));
	for (i = 0; i < BUNDLE_DEPTH_MAX; i++) {
		strlcat(path, "/d", sizeof(path));
		mkdir(path, 0755);
	}
	refused("deep", "too deep");
	for (; i > 0; i--) {
		rmdir(path);
		path[strlen(path) - 2] = '\0';
	}
	mkdir("s/many", 0755);
	for (i = 0; i < BUNDLE_ENTRIES_MAX; i++) {
		snprintf(path, sizeof(path), "s/many/%d", i);
		put(path, "", 0644);
	}
	refused("more than 10000 files", "too many");
	for (i = 0; i < BUNDLE_ENTRIES_MAX; i++) {
		snprintf(path, sizeof(path), "s/many/%d", i);
		unlink(path);
	}
	rmdir("s/many");
	if (geteuid() != 0) {
		chmod("s/main", 0);
		ok(read_dir("s", false) == NULL && errno == EACCES &&
			strstr(why, "main: Permission denied") != NULL,
		    "what cannot be read is said with its name");
		chmod("s/main", 0755);
	}
}

static void
test_copy(void)
{
	struct room *room, *tight = room_map(256);
	struct bundle *b, *other;
	char digest[65] = "";
	struct stat st;

	put("s/empty", "", 0444);
	make_dir("s/shut", 0500);
	b = read_dir("s", true);
	if (!ok(b != NULL, "kept"))
		return;
	strlcpy(digest, bundle_sha256(b), sizeof(digest));
	/* What happens now is too late. */
	put("s/main", "something else", 0755);
	unlink("s/lib.py");
	mkdir("copy", 0755);
	is_int(bundle_unpack(b, "copy"), 0, "laid out");
	is_digest("copy", digest, "the copy has the digest of what was read");
	is_int(bundle_unpack(b, "copy"), -1, "nothing is written over");
	ok(bundle_room(b) >= 4096, "it takes room");
	room = room_map(65536);
	other = bundle_copy(b, room);
	bundle_take_image(other, fcntl(bundle_image(b), F_DUPFD_CLOEXEC, 3));
	errno = 0;
	ok(bundle_copy(b, tight) == NULL && errno == E2BIG,
	    "no copy where there is no room for it");
	bundle_free(b);
	mkdir("other", 0755);
	is_int(bundle_unpack(other, "other"), 0, "a copy in a room is laid out");
	is_digest("other", digest, "with the digest of what was read");
	close(bundle_image(other));
	room_unmap(room);
	room_unmap(tight);

	b = read_dir("copy", true);
	mkdir("copy2", 0755);
	ok(b != NULL && bundle_add(b, "SKILL.md", 0644, "text", 4) == 0 &&
		bundle_unpack(b, "copy2") == 0 &&
		stat("copy2/SKILL.md", &st) == 0 && st.st_size == 4,
	    "a text of ours is laid out too");
	if (b != NULL)
		is_str(bundle_sha256(b), digest, "and is not in the digest");
	bundle_free(b);
	chmod("s/main", 04755);
	mkdir("copy3", 0755);
	b = read_dir("s", true);
	ok(b != NULL && bundle_unpack(b, "copy3") == 0 &&
		stat("copy3/main", &st) == 0 && (st.st_mode & 07777) == 0755,
	    "set-id bits are not laid out");
	bundle_free(b);
}

int
main(void)
{

	umask(022);
	if (mkdtemp(root) == NULL || chdir(root) == -1)
		return 1;
	test_digest();
	test_changes();
	test_refused();
	test_copy();
	remove_all(root);
	return done();
}
