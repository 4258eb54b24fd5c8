/*
 * The first minute of a skill: files that run as they are, ask for one
 * directory of memory and nothing else, and say in comments where to go on.
 * Nothing that is there is ever written over: either all files are made, in a
 * directory that has none of them, or none.
 */

#include <sys/stat.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/buf.h"
#include "enforce/manifest.h"
#include "enforce/policy.h"
#include "supervisor/commands.h"
#include "supervisor/exit.h"
#include "supervisor/outfile.h"
#include "tools/registry.h"

#define FILE_MAX 16384
#define FILES_MAX 5
#define ID_MARK "@ID@" /* in a template; becomes the id */
#define QUOTE_MARK "@\"@" /* beside it, where YAML may take it for another word */

static const char scaffold_usage[] =
    "usage: cyberos skill scaffold ID [DIR] [--lang LANGUAGE]\n";

static const char scaffold_help[] =
    "\n"
    "Begin a skill: SKILL.md, main and a test, with comments, in DIR (default\n"
    "./ID). It runs at once, keeps a note and reads it back. Nothing that is\n"
    "there is written over.\n"
    "\n"
    "  --lang LANGUAGE  sh (default), python, c or node\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0; 1 a file is there already or cannot be made, 2 usage.\n";

static const char skill_md[] =
    "---\n"
    "# What the skill is and what it may have; cyberos-skill(5) explains each\n"
    "# key. What is not written here is not granted.\n"
    "id: " QUOTE_MARK ID_MARK QUOTE_MARK "\n"
    "version: 0.1.0\n"
    "description: \"Keeps a greeting as a note and reads it back\"\n"
    "# Memory that it may name: globs without a leading slash, [] for none.\n"
    "allowed_memory_scopes: [\"memories/" ID_MARK "/**\"]\n"
    "# Tools that it may call; `cyberos skill broker tools` lists all of them.\n"
    "allowed_tools: [MemoryEmit, MemoryRead]\n"
    "# When it needs more, take a # away and write as little as will do:\n"
    "#x-allowed-files: [\"/srv/data/*.csv\"]    # Read, Write, Edit, Glob, Grep, "
    "Bash\n"
    "#x-allowed-domains: [\"api.example.com\"]  # HttpFetch, HttpPost\n"
    "effort_minutes: 1\n"
    "---\n"
    "# " ID_MARK "\n"
    "\n"
    "Text for people: what the skill is for, its arguments, an example.\n";

/* What every main says on top, in the comments of its language. */
#define ABOUT(c)                                                               \
	c " The skill. It runs in a sandbox: no network, no files but its own\n" c \
	  " directory (read-only, the working directory) and a private /tmp.\n" c  \
	  " Everything else it asks of the broker, one call at a time; what is\n" c \
	  " refused has a reason, and a hint what to change in SKILL.md.\n"

static const char main_sh[] =
    "#!/bin/sh\n" ABOUT("#")
    "# `cyberos skill call TOOL key=value ...` is such a call. It prints the\n"
    "# result as JSON, or with --raw one field of it; it exits 5 when refused,\n"
    "# 1 when the tool failed.\n"
    "set -eu\n"
    "\n"
    "name=${1:-world}\n"
    "note=memories/" ID_MARK "/greeting\n"
    "\n"
    "cyberos skill call MemoryEmit kind=greeting.kept path=\"$note\" \\\n"
    "    body=\"Hello, $name\" >/dev/null\n"
    "cyberos skill call --raw body MemoryRead path=\"$note\"\n"
    "echo\n";

static const char main_python[] =
    "#!/usr/bin/python3\n" ABOUT("#") "import json\n"
    "import os\n"
    "import socket\n"
    "import struct\n"
    "import sys\n"
    "\n"
    "\n"
    "class BrokerError(Exception):\n"
    "    \"\"\"A call that was refused (code -32603) or failed (-32000).\"\"\"\n"
    "\n"
    "    def __init__(self, error):\n"
    "        data = error.get(\"data\") or {}\n"
    "        self.code = error[\"code\"]\n"
    "        self.reason = data.get(\"reason\", error[\"message\"])\n"
    "        advice = data.get(\"hint\") or data.get(\"detail\") or \"\"\n"
    "        super().__init__(f\"{self.reason}: {advice}\")\n"
    "\n"
    "\n"
    "class Broker:\n"
    "    \"\"\"Messages are 4 bytes of length, big-endian, and JSON-RPC.\"\"\"\n"
    "\n"
    "    def __init__(self):\n"
    "        self.socket = socket.socket(socket.AF_UNIX)\n"
    "        self.socket.connect(os.environ[\"CYBEROS_BROKER_SOCKET\"])\n"
    "        self.stream = self.socket.makefile(\"rwb\")\n"
    "\n"
    "    def call(self, tool, **args):\n"
    "        request = json.dumps({\n"
    "            \"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tool.call\",\n"
    "            \"params\": {\"tool\": tool, \"args\": args}}).encode()\n"
    "        self.stream.write(struct.pack(\">I\", len(request)) + request)\n"
    "        self.stream.flush()\n"
    "        length, = struct.unpack(\">I\", self.stream.read(4))\n"
    "        reply = json.loads(self.stream.read(length))\n"
    "        if \"error\" in reply:\n"
    "            raise BrokerError(reply[\"error\"])\n"
    "        return reply[\"result\"]\n"
    "\n"
    "\n"
    "def main():\n"
    "    name = sys.argv[1] if len(sys.argv) > 1 else \"world\"\n"
    "    note = \"memories/" ID_MARK "/greeting\"\n"
    "    broker = Broker()\n"
    "    broker.call(\"MemoryEmit\", kind=\"greeting.kept\", path=note,\n"
    "                body=f\"Hello, {name}\")\n"
    "    print(broker.call(\"MemoryRead\", path=note)[\"body\"])\n"
    "\n"
    "\n"
    "try:\n"
    "    main()\n"
    "except BrokerError as error:\n"
    "    sys.exit(str(error))\n";

static const char main_node[] =
    /* As little address space and as few threads as it can do with. */
    "#!/usr/bin/env -S node --jitless --no-expose-wasm --v8-pool-size=0\n" ABOUT(
	"//") "// (The options above keep node within 512 MiB of address space "
	      "and\n"
	      "// 8 threads, which is all that a skill has unless the operator\n"
	      "// allows more: see x-memory-mb in cyberos-skill(5).)\n"
	      "\"use strict\";\n"
	      "const net = require(\"net\");\n"
	      "\n"
	      "// Messages are 4 bytes of length, big-endian, and JSON-RPC.\n"
	      "class Broker {\n"
	      "  constructor() {\n"
	      "    this.id = 0;\n"
	      "    this.waiting = new Map();\n"
	      "    this.bytes = Buffer.alloc(0);\n"
	      "    this.socket = "
	      "net.connect(process.env.CYBEROS_BROKER_SOCKET);\n"
	      "    this.socket.on(\"data\", (data) => this.take(data));\n"
	      "    this.socket.on(\"error\", (error) => { throw error; });\n"
	      "  }\n"
	      "\n"
	      "  take(data) {\n"
	      "    this.bytes = Buffer.concat([this.bytes, data]);\n"
	      "    while (this.bytes.length >= 4) {\n"
	      "      const end = 4 + this.bytes.readUInt32BE(0);\n"
	      "      if (this.bytes.length < end) return;\n"
	      "      const reply = JSON.parse(this.bytes.toString(\"utf8\", 4, "
	      "end));\n"
	      "      this.bytes = this.bytes.subarray(end);\n"
	      "      const { resolve, reject } = this.waiting.get(reply.id);\n"
	      "      this.waiting.delete(reply.id);\n"
	      "      if (reply.error) {\n"
	      "        const { reason, hint, detail } = reply.error.data ?? {};\n"
	      "        reject(new Error(`${reason ?? reply.error.message}: ` +\n"
	      "          `${hint ?? detail ?? \"\"}`));\n"
	      "      } else {\n"
	      "        resolve(reply.result);\n"
	      "      }\n"
	      "    }\n"
	      "  }\n"
	      "\n"
	      "  call(tool, args) {\n"
	      "    const id = ++this.id;\n"
	      "    const request = Buffer.from(JSON.stringify({ jsonrpc: "
	      "\"2.0\", id,\n"
	      "      method: \"tool.call\", params: { tool, args } }));\n"
	      "    const head = Buffer.alloc(4);\n"
	      "    head.writeUInt32BE(request.length);\n"
	      "    this.socket.write(Buffer.concat([head, request]));\n"
	      "    return new Promise((resolve, reject) =>\n"
	      "      this.waiting.set(id, { resolve, reject }));\n"
	      "  }\n"
	      "\n"
	      "  close() {\n"
	      "    this.socket.end();\n"
	      "  }\n"
	      "}\n"
	      "\n"
	      "async function main() {\n"
	      "  const name = process.argv[2] ?? \"world\";\n"
	      "  const note = \"memories/" ID_MARK "/greeting\";\n"
	      "  const broker = new Broker();\n"
	      "  try {\n"
	      "    await broker.call(\"MemoryEmit\", { kind: "
	      "\"greeting.kept\",\n"
	      "      path: note, body: `Hello, ${name}` });\n"
	      "    const { body } = await broker.call(\"MemoryRead\", { path: "
	      "note });\n"
	      "    console.log(body);\n"
	      "  } finally {\n"
	      "    broker.close();\n"
	      "  }\n"
	      "}\n"
	      "\n"
	      "main().catch((error) => {\n"
	      "  console.error(error.message);\n"
	      "  process.exitCode = 1;\n"
	      "});\n";

static const char main_c[] =
    "/*\n" ABOUT(" *") " *\n"
    " * Messages are 4 bytes of length, big-endian, and JSON-RPC. This program\n"
    " * sends text that it made itself and prints replies as they come; one that\n"
    " * reads more out of them wants a JSON library.\n"
    " */\n"
    "#include <sys/socket.h>\n"
    "#include <sys/un.h>\n"
    "\n"
    "#include <err.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "#include <unistd.h>\n"
    "\n"
    "#define NOTE \"memories/" ID_MARK "/greeting\"\n"
    "\n"
    "static FILE *\n"
    "connect_broker(void)\n"
    "{\n"
    "\tconst char *path = getenv(\"CYBEROS_BROKER_SOCKET\");\n"
    "\tstruct sockaddr_un to = {.sun_family = AF_UNIX};\n"
    "\tFILE *stream;\n"
    "\tint fd;\n"
    "\n"
    "\tif (path == NULL || strlen(path) >= sizeof(to.sun_path))\n"
    "\t\terrx(1, \"no broker: run this with cyberos skill try\");\n"
    "\tstrcpy(to.sun_path, path);\n"
    "\tfd = socket(AF_UNIX, SOCK_STREAM, 0);\n"
    "\tif (fd == -1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) == -1)\n"
    "\t\terr(1, \"%s\", path);\n"
    "\tstream = fdopen(fd, \"r+\");\n"
    "\tif (stream == NULL)\n"
    "\t\terr(1, NULL);\n"
    "\tsetvbuf(stream, NULL, _IONBF, 0);\n"
    "\treturn stream;\n"
    "}\n"
    "\n"
    "/* One call; args is a JSON object. The reply, which the caller frees. */\n"
    "static char *\n"
    "call(FILE *broker, const char *tool, const char *args)\n"
    "{\n"
    "\tunsigned char head[4];\n"
    "\tchar *text;\n"
    "\tsize_t n;\n"
    "\tint len;\n"
    "\n"
    "\tlen = asprintf(&text, \"    {\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\"\n"
    "\t    \"\\\"method\\\":\\\"tool.call\\\",\\\"params\\\":{\\\"tool\\\":\\\"%s\\\",\"\n"
    "\t    \"\\\"args\\\":%s}}\", tool, args);\n"
    "\tif (len == -1)\n"
    "\t\terr(1, NULL);\n"
    "\tn = (size_t)len - 4;\n"
    "\ttext[0] = (char)(n >> 24);\n"
    "\ttext[1] = (char)(n >> 16);\n"
    "\ttext[2] = (char)(n >> 8);\n"
    "\ttext[3] = (char)n;\n"
    "\tif (fwrite(text, 1, n + 4, broker) != n + 4 ||\n"
    "\t    fread(head, 1, 4, broker) != 4)\n"
    "\t\terrx(1, \"the broker has gone\");\n"
    "\tfree(text);\n"
    "\tn = (size_t)head[0] << 24 | (size_t)head[1] << 16 |\n"
    "\t    (size_t)head[2] << 8 | head[3];\n"
    "\ttext = calloc(n + 1, 1);\n"
    "\tif (text == NULL || fread(text, 1, n, broker) != n)\n"
    "\t\terrx(1, \"the broker has gone\");\n"
    "\t/* Within a text the quotes would have backslashes before them. */\n"
    "\tif (strstr(text, \"\\\"error\\\":\") != NULL)\n"
    "\t\terrx(1, \"%s\", text);\n"
    "\treturn text;\n"
    "}\n"
    "\n"
    "/* Text between quotes of JSON, at most 100 characters of it. */\n"
    "static const char *\n"
    "escape(const char *s, char out[201])\n"
    "{\n"
    "\tsize_t i, n = 0;\n"
    "\n"
    "\tfor (i = 0; s[i] != '\\0' && i < 100; i++) {\n"
    "\t\tif (s[i] == '\"' || s[i] == '\\\\')\n"
    "\t\t\tout[n++] = '\\\\';\n"
    "\t\tif ((unsigned char)s[i] >= ' ')\n"
    "\t\t\tout[n++] = s[i];\n"
    "\t}\n"
    "\tout[n] = '\\0';\n"
    "\treturn out;\n"
    "}\n"
    "\n"
    "int\n"
    "main(int argc, char **argv)\n"
    "{\n"
    "\tchar name[201], args[512], *reply;\n"
    "\tFILE *broker = connect_broker();\n"
    "\n"
    "\tsnprintf(args, sizeof(args), \"{\\\"kind\\\":\\\"greeting.kept\\\",\"\n"
    "\t    \"\\\"path\\\":\\\"\" NOTE \"\\\",\\\"body\\\":\\\"Hello, %s\\\"}\",\n"
    "\t    escape(argc > 1 ? argv[1] : \"world\", name));\n"
    "\tfree(call(broker, \"MemoryEmit\", args));\n"
    "\treply = call(broker, \"MemoryRead\", \"{\\\"path\\\":\\\"\" NOTE \"\\\"}\");\n"
    "\tputs(reply);\n"
    "\tfree(reply);\n"
    "\tfclose(broker);\n"
    "\treturn 0;\n"
    "}\n";

static const char makefile[] =
    "# make builds main, make test tries it.\n"
    "CFLAGS = -O2 -Wall -Wextra\n"
    "\n"
    "main: main.c\n"
    "\t$(CC) -std=c11 -D_GNU_SOURCE $(CFLAGS) -o $@ main.c $(LDFLAGS)\n"
    "\n"
    "test: main\n"
    "\t./test\n"
    "\n"
    "clean:\n"
    "\trm -f main\n"
    "\n"
    ".PHONY: test clean\n";

static const char test_sh[] =
    "#!/bin/sh\n"
    "# The test: run the skill in a store that is thrown away, and look at what\n"
    "# it printed and at what it did. CYBEROS names the program to run it with.\n"
    "if ! cyberos=$(command -v \"${CYBEROS:-cyberos}\"); then\n"
    "\techo 'cyberos is not in the search path; set CYBEROS=/path/to/cyberos'\n"
    "\texit 1\n"
    "fi\n"
    "case $cyberos in\n"
    "/*) ;;\n"
    "*) cyberos=$PWD/$cyberos ;;\n"
    "esac\n"
    "cd \"$(dirname \"$0\")\" || exit 1\n"
    "out=$(\"$cyberos\" skill try . -- reader 2>&1)\n"
    "failed=0\n"
    "\n"
    "# check NAME PATTERN: a line of the output matches\n"
    "check() {\n"
    "\tif printf '%s\\n' \"$out\" | grep -q -- \"$2\"; then\n"
    "\t\techo \"ok - $1\"\n"
    "\telse\n"
    "\t\techo \"not ok - $1\"\n"
    "\t\tfailed=1\n"
    "\tfi\n"
    "}\n"
    "\n"
    "check 'it ends well' '^ended: success, exit status 0'\n"
    "check 'it greets' 'Hello, reader'\n"
    "check 'it asks for nothing that it may not have' ', 0 denied, 0 rejected'\n"
    "\n"
    "[ \"$failed\" -eq 0 ] || printf '%s\\n' \"$out\"\n"
    "exit \"$failed\"\n";

struct template {
	const char *name;
	mode_t mode;
	const char *text;
};

static const struct language {
	const char *name;
	struct template files[FILES_MAX];
	bool build; /* main is made by make */
} languages[] = {
	{ "sh",
	    { { "SKILL.md", 0644, skill_md }, { "main", 0755, main_sh },
		{ "test", 0755, test_sh } },
	    false },
	{ "python",
	    { { "SKILL.md", 0644, skill_md }, { "main", 0755, main_python },
		{ "test", 0755, test_sh } },
	    false },
	{ "c",
	    { { "SKILL.md", 0644, skill_md }, { "main.c", 0644, main_c },
		{ "Makefile", 0644, makefile }, { "test", 0755, test_sh } },
	    true },
	{ "node",
	    { { "SKILL.md", 0644, skill_md }, { "main", 0755, main_node },
		{ "test", 0755, test_sh } },
	    false },
};

#define LANGUAGES_N (sizeof(languages) / sizeof(languages[0]))

static const struct language *
find_language(const char *name)
{
	size_t i;

	for (i = 0; i < LANGUAGES_N; i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	warnx("--lang %s: there is none; write sh, python, c or node", name);
	return NULL;
}

/* A template with the id, and what stands beside it, for their marks. */
static void
fill(struct buf *b, const char *text, const char *id)
{
	size_t n;

	for (; *text != '\0'; text += n) {
		if (strncmp(text, ID_MARK, sizeof(ID_MARK) - 1) == 0) {
			buf_puts(b, id);
			n = sizeof(ID_MARK) - 1;
		} else if (strncmp(text, QUOTE_MARK, sizeof(QUOTE_MARK) - 1) ==
		    0) {
			buf_puts(b, manifest_id_quote(id));
			n = sizeof(QUOTE_MARK) - 1;
		} else {
			n = 1 + strcspn(text + 1, "@");
			buf_put(b, text, n);
		}
	}
}

/* The reader itself says what an id is: it must come back as it went in. */
static bool
is_id(const char *id)
{
	struct policy policy;
	struct manifest m;
	struct buf b;
	bool good = false;
	size_t i;

	policy_init(&policy);
	buf_init(&b, FILE_MAX);
	fill(&b, skill_md, id);
	if (b.failed || manifest_parse(b.data, b.len, &policy, registry_names(),
			    CYBEROS_VERSION, &m) == -1) {
		warnx("ID: too long, or no memory");
		goto out;
	}
	good = m.errors_n == 0 && strcmp(m.id, id) == 0;
	for (i = 0; !good && i < m.errors_n; i++)
		if (m.errors[i].code == MANIFEST_INVALID_ID)
			break;
	if (!good)
		warnx("ID: %s", i < m.errors_n
			? m.errors[i].message
			: "write a lower-case letter, then lower-case "
			  "letters, digits and dashes");
	manifest_clear(&m);
out:
	buf_clear(&b);
	policy_clear(&policy);
	return good;
}

static int
write_file(int dir_fd, const struct template *t, const char *id)
{
	struct buf b;
	int result = -1;

	buf_init(&b, FILE_MAX);
	fill(&b, t->text, id);
	if (b.failed)
		errno = ENOMEM;
	else
		result = outfile_new(dir_fd, t->name, t->mode, b.data, b.len);
	buf_clear(&b);
	return result;
}

/* All of them or none. */
static int
write_files(int dir_fd, const char *dir, const struct language *l,
    const char *id)
{
	const struct template *t;
	struct stat st;

	for (t = l->files; t->name != NULL; t++) {
		if (fstatat(dir_fd, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			warnx("%s/%s: is there; nothing was written, name "
			      "another directory",
			    dir, t->name);
			return -1;
		}
	}
	for (t = l->files; t->name != NULL; t++) {
		if (write_file(dir_fd, t, id) == 0)
			continue;
		warn("%s/%s: nothing was kept", dir, t->name);
		while (t-- > l->files)
			unlinkat(dir_fd, t->name, 0);
		return -1;
	}
	return 0;
}

/* DIR as a word of a shell, as far as that needs nothing but quotes. */
static const char *
quoted(char *out, size_t size, const char *dir)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789/._-";

	if (dir[strspn(dir, plain)] == '\0' && dir[0] != '-')
		snprintf(out, size, "%s", dir);
	else
		snprintf(out, size, "'%s'", dir);
	return out;
}

static void
print_next(const struct language *l, const char *dir)
{
	char word[PATH_MAX * 2 + 4], shown[PATH_MAX * 2];
	const struct template *t;

	manifest_printable(shown, sizeof(shown), dir);
	for (t = l->files; t->name != NULL; t++)
		printf("%s/%s\n", shown, t->name);
	quoted(word, sizeof(word), shown);
	printf("\nTry it:   ");
	if (l->build)
		printf("make -C %s && ", word);
	printf("cyberos skill try %s\nTest it:  %s%s/test\n", word,
	    strchr(dir, '/') == NULL ? "./" : "", word);
	printf("Go on:    edit main%s and SKILL.md; man cyberos-skill.5 has the "
	       "keys\n",
	    l->build ? ".c" : "");
}

static int
scaffold(const struct language *l, const char *id, const char *dir)
{
	bool made = mkdir(dir, 0755) == 0;
	int fd, status = EXIT_FAILED;

	/* Somebody else's link there would lead us to another place. */
	if (!made && errno != EEXIST) {
		warn("%s", dir);
		return EXIT_FAILED;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1) {
		warn("%s", dir);
		return EXIT_FAILED;
	}
	if (write_files(fd, dir, l, id) == 0) {
		print_next(l, dir);
		status = EXIT_FINE;
	} else if (made) {
		rmdir(dir);
	}
	close(fd);
	return status;
}

static const struct option scaffold_options[] = {
	{ "lang", required_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

int
scaffold_main(int argc, char **argv)
{
	char *dir;
	size_t n;
	const struct language *l = &languages[0];
	int opt;

	optind = 0; /* glibc: begin anew */
	while ((opt = getopt_long(argc, argv, "", scaffold_options, NULL)) !=
	    -1) {
		if (opt == 'h') {
			printf("%s%s", scaffold_usage, scaffold_help);
			return EXIT_FINE;
		}
		if (opt != 'l') {
			fputs(scaffold_usage, stderr);
			return EXIT_USAGE;
		}
		l = find_language(optarg);
		if (l == NULL)
			return EXIT_USAGE;
	}
	if (argc - optind < 1 || argc - optind > 2) {
		warnx("which id? A name such as word-count, then perhaps a "
		      "directory");
		fputs(scaffold_usage, stderr);
		return EXIT_USAGE;
	}
	if (!is_id(argv[optind]))
		return EXIT_USAGE;
	dir = argc - optind == 2 ? argv[optind + 1] : argv[optind];
	/* With a slash at its end a link would be followed. */
	for (n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--)
		dir[n - 1] = '\0';
	return scaffold(l, argv[optind], dir);
}
