#!/bin/sh
# The manual against the code: every page is clean, and every option, key,
# reason, word, kind, tool, argument and layer stands in the page that should
# list it, and nothing else does. The words come out of the tables themselves,
# through a small program that is linked with them.
. t/lib.sh

MAN=$PWD/man
RUN1=$MAN/cyberos-skill-broker.1
SKILL1=$MAN/cyberos-skill.1
SKILL5=$MAN/cyberos-skill.5
YAML5=$MAN/cyberos-broker.yaml.5
LEDGER5=$MAN/cyberos-ledger.5
BROKER7=$MAN/cyberos-broker.7
TELEMETRY7=$MAN/cyberos-telemetry.7

# section FILE FROM [TO]: the lines between two section macros
section() {
	awk -v from="$2" -v to="${3:-.Sh}" '
	    $0 == from { on = 1; next }
	    on && index($0, to) == 1 { exit }
	    on' "$1"
}

# items MACRO: first word of each list item with this macro, quotes taken off
items() { sed -n "s/^\\.It $1 \\([^ ]*\\).*/\\1/p"; }

# same NAME GOT WANTED: two lists of words, in any order
same() {
	t_got=$(printf '%s\n' "$2" | sort)
	t_want=$(printf '%s\n' "$3" | sort)
	t_n=$(printf '%s\n' "$3" | grep -c .)
	if [ "$t_n" -gt 0 ] && [ "$t_got" = "$t_want" ]; then
		ok 0 "$1 ($t_n)"
	else
		ok 1 "$1"
		note "in the page:" "$t_got"
		note "in the code:" "$t_want"
	fi
}

# --- form ---

for page in "$MAN"/*.[1-9]; do
	name="mandoc finds nothing in ${page##*/}"
	if command -v mandoc >/dev/null; then
		is "$(mandoc -T lint -W warning "$page" 2>&1)" '' "$name"
	else
		skip "$name" 'mandoc is not installed'
	fi
done

# Each page refers to pages that are there.
missing=
# shellcheck disable=SC2013 # words without blanks
for ref in $(sed -n 's/^\.Xr \(cyberos[^ ]*\) \([1-9]\).*/\1.\2/p' \
    "$MAN"/*.[157] | sort -u); do
	[ -f "$MAN/$ref" ] || missing="$missing $ref"
done
is "$missing" '' 'every reference to a page of ours leads to one'

# --- options ---

# table FILE MARK [AFTER]: the rows of the first table that begins with MARK,
# behind AFTER if that is given; one a line, from their first string on.
table() {
	{
		awk -v mark="$2" -v after="${3:-}" '
		    after == "" || index($0, after) { seen = 1 }
		    seen && index($0, mark) { on = 1 }
		    on
		    on && /};/ { exit }' "$1" | tr '\n\t' '  '
		echo
	} | sed 's/{/\
/g' | sed -n 's/^ *"\([^"]*\)" *,/\1 /p'
}
names() { table "$@" | sed 's/ .*//'; }
options() { names "$@" | sed 's/^/--/'; }

# A page has each option as its own item: ".It Fl -store Ar dir".
flags() { sed -n 's/^\.It Fl \(-[a-z-]*\).*/-\1/p; s/^\.It Fl \([a-z]\)$/-\1/p'; }

run_code=$(options supervisor/run.c 'struct option long_options[]'; echo -v)
same 'run: the options of the code are in the manual' \
    "$(section "$RUN1" '.Ss run' '.Ss' | flags)" "$run_code"
same 'run: the options of the code are in --help' \
    "$("$CYBEROS" skill broker run --help |
	sed -n 's/^  \(--[a-z-]*\), \(-[a-z]\).*/\1\
\2/p; t
	s/^  \(--[a-z-]*\).*/\1/p')" "$run_code"
# A letter in the string of getopt_long, and no other.
is "$(sed -n 's/.*getopt_long(argc, argv, "+\([a-z:]*\)".*/\1/p' \
    supervisor/run.c)" v 'run: there is one short option'
supervise_code=$(options supervisor/supervise.c \
    'struct option long_options[]'; echo -v)
same 'supervise: the options of the code are in the manual' \
    "$(section "$RUN1" '.Ss supervise' '.Ss' | flags)" "$supervise_code"
same 'supervise: the options of the code are in --help' \
    "$("$CYBEROS" skill broker supervise --help |
	sed -n 's/^  \(--[a-z-]*\), \(-[a-z]\).*/\1\
\2/p; t
	s/^  \(--[a-z-]*\).*/\1/p')" "$supervise_code"
# columns TITLE: first words of the table with this title
columns() {
	section "$RUN1" '.Ss supervise' '.Ss' |
	    awk -v title="$1" '$1 == ".It" && $2 == "Sy" { on = $3 == title; next }
	    /^\.El/ { on = 0 }
	    on && $1 == ".It" { print $3 }'
}
same 'supervise: every member of a request' "$(columns member)" \
    "$(names supervisor/request.c 'struct member {')"
same 'supervise: every event' "$(columns event)" \
    "$(sed -n 's/.*report_begin(&s->report, "\([a-z]*\)".*/\1/p' \
	supervisor/supervise.c | sort -u)"
same 'supervise: every reason for a rejection' \
    "$(section "$RUN1" '.Ss supervise' '.Ss' | items Li)" \
    "$({ sed -n 's/.*refuse(f, "\([a-z_]*\)".*/\1/p' supervisor/request.c
	sed -n 's/.*reason = "\([a-z_]*\)".*/\1/p
	s/.*request_fault [a-z]* = { "\([a-z_]*\)".*/\1/p' \
	    supervisor/supervise.c; } | sort -u)"
same 'status: its options are in the manual' \
    "$(section "$RUN1" '.Ss status' '.Ss' | flags)" \
    "$(options supervisor/inspect.c 'struct option options[]' inspect_status)"
same 'metrics: its options are in the manual' \
    "$(section "$RUN1" '.Ss metrics' '.Ss' | flags)" \
    "$(options supervisor/inspect.c 'struct option options[]' inspect_metrics)"
same 'metrics: its options are in --help' \
    "$("$CYBEROS" skill broker metrics --help |
	sed -n 's/^  \(--[a-z-]*\).*/\1/p')" \
    "$(options supervisor/inspect.c 'struct option options[]' inspect_metrics)"
same 'doctor: its options are in the manual' \
    "$(section "$RUN1" '.Ss doctor' '.Ss' | flags)" \
    "$(options supervisor/doctor.c 'struct option options[]')"
same 'quarantine: its options are in the manual' \
    "$(section "$RUN1" '.Ss quarantine' '.Ss' | flags)" \
    "$(options supervisor/quarantine.c 'struct option options[]')"
same 'bench: its options are in the manual' \
    "$(section "$RUN1" '.Ss bench' '.Ss' | flags)" \
    "$(options supervisor/bench.c 'struct option options[]')"
same 'verify: its options are in the manual' \
    "$(section "$RUN1" '.Ss verify' '.Ss' | flags)" \
    "$(options supervisor/ledger.c 'struct option options[]' ledger_verify)"
# Every check that it can name is in ledger(5).
missing=
# shellcheck disable=SC2013 # words
for word in $(sed -n 's/.*"\([a-z_]*\)",$/\1/p; s/^.*\] = { "\([a-z]*\)", *"*.*/\1/p' \
    audit/verify.c | sort -u); do
	section "$LEDGER5" '.Ss Checks' '.S' | grep -qw "$word" ||
	    missing="$missing $word"
done
is "$missing" '' 'verify: its checks are in ledger(5)'
same 'tools: its options are in the manual' \
    "$(section "$RUN1" '.Ss tools' '.Sh' | flags)" \
    "$(options supervisor/inspect.c 'struct option options[]' tools_options)"
same 'validate: its options are in the manual' \
    "$(section "$SKILL1" '.Ss validate' '.Ss' | flags)" \
    "$(options supervisor/author.c 'struct option options[]' \
	validate_options)"
same 'scaffold: its options are in the manual' \
    "$(section "$SKILL1" '.Ss scaffold' '.Ss' | flags)" \
    "$(options supervisor/scaffold.c 'struct option scaffold_options[]')"
same 'try: its options are in the manual' \
    "$(section "$SKILL1" '.Ss try' '.Ss' | flags)" \
    "$(options supervisor/try.c 'struct option options[]')"
same 'import: its options are in the manual' \
    "$(section "$SKILL1" '.Ss import' '.Ss' | flags)" \
    "$(options supervisor/import.c 'struct option import_options[]')"
same 'keygen: its options are in the manual' \
    "$(section "$SKILL1" '.Ss keygen' '.Ss' | flags)" \
    "$(options supervisor/sign.c 'struct option options[]' sign_keygen)"
same 'sign: its options are in the manual' \
    "$(section "$SKILL1" '.Ss sign' '.Ss' | flags)" \
    "$(options supervisor/sign.c 'struct option options[]' sign_options)"
same 'call: its options are in the manual' \
    "$(section "$SKILL1" '.Ss call' '.Sh' | flags)" \
    "$(options supervisor/client.c 'struct option options[]')"
same 'call: its options are in --help' \
    "$("$CYBEROS" skill call --help |
	sed -n 's/^  \(--[a-z-]*\) .*/\1/p'; echo --help)" \
    "$(options supervisor/client.c 'struct option options[]')"

# Every command that the program knows is in a synopsis.
missing=
"$CYBEROS" --help | sed -n 's/^  \(cyberos skill [a-z]*\( [a-z]*\)\{0,1\}\).*/\1/p' |
    sed 's/ *$//' >"$T/commands"
while read -r command; do
	grep -qF ".Nm \"$command\"" "$RUN1" "$SKILL1" ||
	    missing="$missing $command;"
done <"$T/commands"
[ "$(wc -l <"$T/commands")" -ge 5 ] || missing="$missing (no commands)"
is "$missing" '' 'every command has its synopsis'

# What the page says is missing is missing; it may say so of nothing.
section "$RUN1" '.Sh CAVEATS' |
    awk '/^\.Ic / { words = words $2 "\n" }
	/^(is|are) not part/ { printf "%s", words; exit }' >"$T/absent"
there=
while read -r word; do
	"$CYBEROS" skill broker "$word" --help >/dev/null 2>&1
	[ "$?" -eq 2 ] || there="$there $word"
done <"$T/absent"
is "$there" '' 'broker(1): no command that it says is not there'

# --- the tables of the code ---

cat >"$T/tables.c" <<'EOT'
#include <stdio.h>
#include <string.h>

#include "audit/metrics.h"
#include "audit/row.h"
#include "audit/span.h"
#include "enforce/confine.h"
#include "enforce/filter.h"
#include "enforce/manifest.h"
#include "enforce/policy.h"
#include "enforce/probe.h"
#include "enforce/verdict.h"
#include "supervisor/telemetry.h"
#include "tools/registry.h"

/* Made by the build, and of no interest here. */
const struct seccomp_program filter_table[FILTER_COUNT];

static void
number(long long n)
{
	if (n == 1LL << 53)
		printf("2^53");
	else
		printf("%lld", n);
}

/* As the manual says it; a text that is as long as a request has no bound. */
static void
bound(const char *tool, const struct tool_arg *a)
{
	bool longest = a->type == ARG_TEXT && a->max >= 1024 * 1024;
	static const char *const types[] = { [ARG_TEXT] = "text",
		[ARG_INT] = "integer", [ARG_BOOL] = "boolean",
		[ARG_MAP] = "object of text", [ARG_ANY] = "any value" };

	if (a->type == ARG_WORD)
		return;
	printf("bound %s %s %s", tool, a->name, types[a->type]);
	if (a->type == ARG_INT || (a->type == ARG_TEXT && a->min + !longest > 0)) {
		printf(" (");
		number(a->min);
		printf(longest ? " or more" : " to ");
		if (!longest)
			number(a->max);
		printf(")");
	}
	printf("%s\n", a->required ? ", required" : "");
}

static void
fails(const struct tool *t)
{
	int f;

	for (f = FAIL_NONE + 1; f < FAIL_COUNT; f++) {
		if ((FAILS_ALWAYS >> f & 1) != 0)
			printf("always %s\n", failure_word((enum failure)f));
		else if (registry_may_fail(t, (enum failure)f))
			printf("fails %s %s\n", t->name,
			    failure_word((enum failure)f));
	}
}

static void
argument(const char *tool, const struct tool_arg *a)
{
	const char *const *w;

	printf("arg %s %s\n", tool, a->name);
	bound(tool, a);
	for (w = a->words; w != NULL && *w != NULL; w++)
		printf("argword %s %s %s\n", tool, a->name, *w);
	if (a->required)
		printf("required %s %s\n", tool, a->name);
}

/* The item of a family, as the page has it, and the words of its first label. */
static void
family(const struct metrics_family *f)
{
	printf("metric %s", f->name);
	if (f->labels[0] != NULL)
		printf(" Pq Cm %s", f->labels[0]);
	if (f->labels[0] != NULL && f->labels[1] != NULL)
		printf(" , %s", f->labels[1]);
	putchar('\n');
}

static void
layer(const struct confine_step *s)
{
	printf("layer %s\nmark %s ", s->name, s->name);
	if (s->need == CONFINE_ALWAYS)
		printf("Always.\n");
	else if (s->need == CONFINE_IF_ABLE)
		printf("Optional.\n");
	else if (s->need == CONFINE_EXTRA)
		printf("Extra.\n");
	else if (s->instead == NULL)
		printf("Required.\n");
	else
		printf("Required, or %s\n", s->instead);
}

int
main(void)
{
	const struct confine_step *step;
	const struct probe *probe;
	const struct tool *t;
	struct policy_key key;
	const char *ours, *theirs;
	size_t i, j, n, n_families;
	const struct metrics_family *families = metrics_families(&n_families);

	for (i = 0; i < SPAN_TOOL; i++)
		printf("span %s\n", span_name((enum span_what)i));
	for (i = 0; span_attribute(i, &ours, &theirs); i++) {
		if (ours != NULL)
			printf("attribute %s\n", ours);
		if (theirs != NULL)
			printf("attribute %s\n", theirs);
	}
	for (i = 0; telemetry_variable(i, &ours, &theirs); i++) {
		printf("variable %s\n", ours);
		if (theirs != NULL)
			printf("variabledefault %s %s\n", ours, theirs);
	}
	printf("conventions %s\n", SPAN_CONVENTIONS);
	for (i = REASON_NONE + 1; i < REASON_COUNT; i++)
		printf("reason %s\nclass %s\n",
		    verdict_info((enum reason)i)->reason,
		    verdict_info((enum reason)i)->class);
	for (i = FAIL_NONE + 1; i < FAIL_COUNT; i++)
		printf("failure %s\n", failure_word((enum failure)i));
	for (i = 0; i < ROW_KINDS; i++)
		printf("kind %s\n", row_kind_word((enum row_kind)i));
	for (i = 0; i <= MANIFEST_BROKER_TOO_NEW; i++)
		printf("code %s\n", manifest_code_word((enum manifest_code)i));
	step = confine_steps(&n);
	for (i = 0; i < n; i++)
		layer(&step[i]);
	for (i = CONFINE_MISSING; i <= CONFINE_ACTIVE; i++)
		printf("state %s\n",
		    confine_state_word((enum confine_state)i));
	probe = probe_table(&n);
	for (i = 0; i < n; i++)
		printf("attempt %s\n", probe[i].name);
	for (i = PROBE_REFUSED; i <= PROBE_UNTRIED; i++)
		printf("found %s\n", probe_result_word((uint8_t)i));
	for (i = PROBE_ENFORCED; i <= PROBE_BROKEN; i++)
		printf("verdict %s\n",
		    probe_verdict_word((enum probe_verdict)i));
	for (i = 0; policy_key(i, &key); i++)
		printf("key %s\ntype %s : No %s\ndefault %s %s\n", key.name,
		    key.name, key.type, key.name, key.value);
	for (i = 0; i < n_families; i++)
		family(&families[i]);
	for (i = 0; i < TALLY_LISTS; i++) {
		for (j = 0; tally_word((enum tally_list)i, j) != NULL; j++)
			printf("label %s\n", tally_word((enum tally_list)i, j));
	}
	t = registry_tools(&n);
	for (i = 0; i < n; i++) {
		printf("tool %s\nspan %s\n", t[i].name, t[i].span);
		fails(&t[i]);
		for (j = 0; t[i].args[j].name != NULL; j++)
			argument(t[i].name, &t[i].args[j]);
	}
	return 0;
}
EOT
# shellcheck disable=SC2046 # file names without blanks
${CC:-cc} -std=c11 -O0 -w -D_GNU_SOURCE -I. -isystem /usr/include/bsd \
    -DLIBBSD_OVERLAY -DCYBEROS_VERSION='"0"' -DLIBEXECDIR='"/nowhere"' \
    -o "$T/tables" "$T/tables.c" audit/*.c \
    $(find enforce -name '*.c' ! -name '*_main.c') \
    $(find tools -name '*.c' ! -name net_main.c ! -name transfer.c ! -name exporter.c ! -name unpack.c) \
    supervisor/telemetry.c supervisor/settings.c \
    -lpcre2-8 -lcjson -lyaml -lcrypto -lbsd -lseccomp -lm -lpthread >"$T/cc.out" 2>&1
rc=$?
ok "$rc" 'the tables can be linked and printed'
[ "$rc" -eq 0 ] || note "$(cat "$T/cc.out")"
"$T/tables" >"$T/words"

# words KIND: what the tables have of a kind, once each
words() { sed -n "s/^$1 //p" "$T/words" | sort -u; }

same 'telemetry(7): every span' \
    "$(section "$TELEMETRY7" '.Ss Spans' '.S' | items Cm)" "$(words span)"
same 'telemetry(7): every attribute' \
    "$(section "$TELEMETRY7" '.Ss Attributes' '.S' | items Cm)" \
    "$(words attribute)"
variables() { section "$TELEMETRY7" '.Sh ENVIRONMENT'; }
same 'telemetry(7): every variable' "$(variables | items Ev)" \
    "$(words variable)"
same 'telemetry(7): every default of a variable' "$(variables | awk '
	/^\.It Ev / && name == "" { name = $3 }
	/^Default: / {
		gsub(/^Default: |\.$/, "")
		# Not a default but the lack of one, where "none" is no value.
		if ($0 != "none" || name ~ /COMPRESSION/)
			print name, $0
		name = ""
	}')" "$(words variabledefault)"
is "$(tr '\n' ' ' <"$TELEMETRY7" |
    grep -c "version $(words conventions | sed 's/ and GenAI/ and the GenAI conventions/')")" 1 \
    'telemetry(7): which conventions'
same 'broker(7): every reason of a refusal' \
    "$(section "$BROKER7" '.Sh REFUSALS' | items Cm)" "$(words reason)"
same 'broker(7): every class' \
    "$(section "$BROKER7" '.Sh REFUSALS' | sed -n 's/^\.It Cm //p' |
	awk '/ Pq / { sub(/.*Pq Cm /, ""); gsub(/ , /, "\n"); print; next }
	    { print }' | sort -u)" "$(words class)"
same 'broker(7): every word of a failure' \
    "$(section "$BROKER7" '.Sh FAILURES' | items Cm)" "$(words failure)"
layers() { section "$BROKER7" '.Ss Layers' '.Ss'; }
same 'broker(7): every layer of the sandbox' "$(layers | items Cm)" \
    "$(words layer)"
# How each layer is marked: a line of its own, or two with the layer that
# makes up for it.
same 'broker(7): which are always there, required, made up for, optional' \
    "$(layers | awk '
	/^\.It Cm / { name = $3 }
	/^(Always|Optional|Extra|Required)\.$/ { print name, $0 }
	or { print name, "Required, or", $2 }
	{ or = /^Required, or$/ }')" "$(words mark)"
is "$(layers | items Cm | tr '\n' ' ')" \
    "$(sed -n 's/^layer //p' "$T/words" | tr '\n' ' ')" \
    'broker(7): the layers in the order in which they are put on'

# The groups of the filter, and each call that is recorded. The tables are read
# as text, since they are private to their file.
calls_of() { section "$BROKER7" '.Ss System calls' '.Ss'; }
# groups ANSWER: "name: call call ...", of those for the skill
groups() {
	awk '/^static const struct group groups/ { on = 1; next }
	    on && /^};/ { exit }
	    on' enforce/seccomp.c | sed 's,/\*.*\*/,,' | tr '\n\t' '  ' |
	    sed 's/{ /\
&/g' | sed -n "s/^{ SKILL, $1, \\(.*\\) },.*/\\1/p" |
	    sed 's/" *"//g; s/^"\([^"]*\)", */\1: /; s/"//g'
}
same 'broker(7): every group of calls that is recorded, with its calls' \
    "$(calls_of | sed -n '/^These are refused with$/,/^\.El/p' | awk '
	function flush() { if (name != "") print name ":" calls }
	/^\.It / { flush(); name = substr($0, 5); calls = ""; next }
	/^\.Ic / && $2 != "prlimit64" && $2 != "clone" && $2 != "unshare" { calls = calls " " $2 }
	END { flush() }' | grep -Ev '^(sockets|set-id bits and devices|terminals):')" \
    "$(groups NOTIFY)"
missing=
calls=$(awk '/^static const struct rule rules/ { on = 1; next }
    on && /^};/ { exit }
    on' enforce/seccomp.c |
    sed -n 's/.*{ SKILL, "\([a-z0-9_]*\)", NOTIFY,.*/\1/p' | sort -u)
for call in $calls; do
	calls_of | sed -n '/^These are refused with$/,/^\.El/p' |
	    grep -Eq "^\\.Ic $call( ;| ,|\$)" || missing="$missing $call"
done
[ "$(printf '%s\n' "$calls" | wc -l)" -ge 10 ] || missing="$missing (no rules)"
is "$missing" '' 'broker(7): every call that is recorded for its arguments'
quiet=$(calls_of | sed -n '/^These are refused quietly/,/^\.El/p')
missing=
groups EPERM | sed 's/:.*//' >"$T/quiet"
while read -r name; do
	printf '%s\n' "$quiet" | grep -qx "\\.It $name" ||
	    missing="$missing $name;"
done <"$T/quiet"
[ "$(wc -l <"$T/quiet")" -ge 3 ] || missing="$missing (no groups)"
is "$missing" '' 'broker(7): every group of calls that is refused quietly'

same 'broker(7): the capabilities that the broker keeps' \
    "$(section "$BROKER7" '.Ss The broker itself' '.Sh' |
	sed -n 's/^\.Dv \(CAP_[A-Z_]*\).*/\1/p')" \
    "$(sed -n '/kept_capabilities\[\] = {/,/};/p' enforce/narrow.c |
	grep -o 'CAP_[A-Z_]*')"
like "$(section "$BROKER7" '.Ss Recorded attempts' '.Ss')" \
    " for at most $(sed -n 's/^#define NOTIFY_DISTINCT[[:space:]]*\([0-9]*\).*/\1/p' \
	enforce/notify.h) of them\\.\$" 'broker(7): how many attempts are rows'
like "$(cat "$LEDGER5")" \
    "^At most $(sed -n 's/^#define PEER_ROWS \([0-9]*\).*/\1/p' \
	broker/server.c) rows;" 'ledger(5): how many strangers are rows'

doctor() { section "$RUN1" '.Ss doctor' '.Ss'; }
same 'doctor: every attempt is in the manual' "$(doctor | items Cm)" \
    "$(words attempt)"
missing=
words 'verdict' >"$T/told"
words 'found' >>"$T/told"
while read -r word; do
	doctor | grep -qE "^\\.Dq $word( [,:])?\$" || missing="$missing 1:$word;"
	grep -qE "^\\.Li $word( [,)].*)?\$" "$LEDGER5" ||
	    missing="$missing 5:$word;"
done <"$T/told"
words state >"$T/told"
while read -r word; do
	section "$RUN1" '.Ss run' '.Ss' | grep -qE "^\\.Dq $word( [),].*)?\$" ||
	    missing="$missing run:$word;"
done <"$T/told"
is "$missing" '' 'doctor, ledger(5): every word for what was found'
same 'broker(7): every method' \
    "$(section "$BROKER7" '.Ss Methods' '.S' | items Ic)" \
    "$(names broker/dispatch.c '} methods[] ='
	sed -n 's/.*strcmp(r->method, "\([a-z.]*\)").*/\1/p' broker/dispatch.c)"

same 'broker(1): every metric with its labels' \
    "$(section "$RUN1" '.Sh METRICS' | sed -n 's/^\.It Cm //p')" \
    "$(words metric)"
missing=
for word in $(words label); do
	section "$RUN1" '.Sh METRICS' | grep -E '^\.Cm ' | grep -qw "$word" ||
	    missing="$missing $word"
done
is "$missing" '' 'broker(1): every word of their labels'

same 'ledger(5): every kind of row' \
    "$(section "$LEDGER5" '.Ss Kinds in a segment' '.Ss' | items Cm
	section "$LEDGER5" '.Ss Kinds of anchors' '.Ss' | items Cm)" \
    "$(words kind)"
# The fields stand in the table of row.c behind the kind.
fields=$(awk '/^} kinds\[ROW_KINDS\] =/ { on = 1; next }
    on && /^};/ { exit }
    on' audit/row.c | tr '\n\t' '  ' | sed 's/\[ROW_/\
&/g' | sed -n 's/^\[ROW_[A-Z_]* *\] = { *"\([a-z._]*\)", *{\(.*\)}.*/\1 \2/p' |
    sed 's/[",?{}]/ /g')
missing=
printf '%s\n' "$fields" >"$T/fields"
while read -r kind rest; do
	text=$(awk -v kind="$kind" '
	    /^\.It / || /^\.El/ { on = 0 }
	    $1 == ".It" && $3 == kind { on = 1; next }
	    on' "$LEDGER5")
	for field in $rest; do
		printf '%s\n' "$text" | grep -q "^\\.Cm $field\\b" ||
		    missing="$missing $kind:$field"
	done
done <"$T/fields"
[ "$(wc -l <"$T/fields")" -eq "$(words kind | wc -l)" ] ||
    missing="$missing (not every kind was seen)"
is "$missing" '' 'ledger(5): every field of every kind'

same 'skill(5): every error code' \
    "$(section "$SKILL5" '.Sh DIAGNOSTICS' | items Er)" "$(words code)"
same 'skill(5): every key of the frontmatter' \
    "$(section "$SKILL5" '.Ss Required keys' '.Ss Types' | items Cm)" \
    "$(names enforce/manifest.c 'struct field fields[]')"
same 'skill(5): which of them are required' \
    "$(section "$SKILL5" '.Ss Required keys' '.Ss' | items Cm)" \
    "$(table enforce/manifest.c 'struct field fields[]' |
	sed -n 's/^\([^ ]*\) *".*/\1/p')"
missing=
for key in $(section "$SKILL5" '.Ss Optional keys' '.Ss' | items Cm); do
	awk -v key="$key" '/^\.It / || /^\.El/ { on = 0 }
	    $1 == ".It" && $3 == key { on = 1 }
	    on' "$SKILL5" | grep -q '^Default:' || missing="$missing $key"
done
is "$missing" '' 'skill(5): every optional key has its default'

same 'broker.yaml(5): every key' "$(items Cm <"$YAML5")" "$(words key)"
same 'broker.yaml(5): every key with its type' \
    "$(sed -n 's/^\.It Cm //p' "$YAML5")" "$(words type)"
# A default that is "built in" is a path that settings.c knows, or none.
missing=
words default >"$T/defaults"
while read -r key value; do
	text=$(awk -v key="$key" '/^\.It / || /^\.El/ { on = 0 }
	    $1 == ".It" && $3 == key { on = 1 }
	    on' "$YAML5" | sed -n 's/^Default: //p')
	case $key in
	skills) value=$(sed -n 's/^#define DEFAULT_SKILLS "\(.*\)"/\1/p' \
	    supervisor/settings.c) ;;
	socket_dir) value=$(sed -n \
	    's/^#define DEFAULT_SOCKET_DIR "\(.*\)"/\1/p' \
	    supervisor/settings.c) ;;
	store) value='see FILES in' text=$text. ;;
	ca_file) value="the system's" ;;
	*) [ "$value" != 'built in' ] || value=none ;;
	esac
	[ "$text" = "$value." ] || missing="$missing $key ($value)"
done <"$T/defaults"
is "$missing" '' 'broker.yaml(5): every default'

same 'broker(7): a section for each tool' \
    "$(section "$BROKER7" '.Sh TOOLS' | sed -n 's/^\.Ss \([A-Z].*\)/\1/p')" \
    "$(words tool)"
missing=
for tool in $(words tool); do
	section "$BROKER7" ".Ss $tool" '.S' >"$T/tool"
	got=$(items Va <"$T/tool" | sort | tr '\n' ' ')
	want=$(words "arg $tool" | tr '\n' ' ')
	[ "$got" = "$want" ] || missing="$missing $tool: $got, not $want;"
	got=$(sed -n 's/^\.It Va \([^ ]*\) .*required$/\1/p' "$T/tool" |
	    sort | tr '\n' ' ')
	want=$(words "required $tool" | tr '\n' ' ')
	[ "$got" = "$want" ] ||
	    missing="$missing $tool requires: $got, not $want;"
	words "argword $tool" >"$T/argwords"
	while read -r arg word; do
		grep -q "^\\.It Va $arg .*\\b$word\\b" "$T/tool" ||
		    missing="$missing $tool $arg: $word;"
	done <"$T/argwords"
done
is "$missing" '' 'broker(7): every argument of every tool'
missing=
for tool in $(words tool); do
	section "$BROKER7" ".Ss $tool" '.S' | sed -n 's/^\.It Va //p' |
	    grep -vE ' : (Li|No one of) ' | sed 's/ : No / /' | sort >"$T/got"
	words "bound $tool" >"$T/want"
	cmp -s "$T/got" "$T/want" ||
	    missing="$missing $tool: $(diff "$T/got" "$T/want" | tr '\n' ';')"
done
[ "$(words bound | wc -l)" -gt 30 ] || missing="$missing (no bounds)"
is "$missing" '' 'broker(7): the type and the bounds of every argument'

# The words that each tool may fail with: tools, then the words.
section "$BROKER7" '.Sh FAILURES' >"$T/failures"
sed -n '1,/^They mean/p' "$T/failures" | awk '
    /^\.It Ic / { gsub(/^\.It Ic | ,/, ""); n = split($0, tools, " "); next }
    /^\.Cm / && n { sub(/^\.Cm /, ""); gsub(/ [,.]/, ""); m = split($0, w, " ")
	for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print tools[i], w[j] }
    /^\.El/ { n = 0 }' >"$T/got"
same 'broker(7): the words that each tool may fail with' "$(cat "$T/got")" \
    "$(words fails)"
same 'broker(7): and those of all of them' "$(awk '
    /^\.Bl/ { exit }
    /^\.Cm / { print }' "$T/failures" | grep -v 'message\|data\.detail' |
    sed 's/^\.Cm //; s/ ,/\n/g' | tr -d ' ')" "$(words always)"

# --- what the pages say that can be tried ---

# Every complete SKILL.md in skill(5) is valid.
awk '/^---$/ && !on { on = 1; n++; fences = 0 }
    /^\.Ed/ { on = 0 }
    on { print > (dir "/example." n) }' dir="$T" "$SKILL5"
for example in "$T"/example.*; do
	mkdir -p "$T/valid"
	cp "$example" "$T/valid/SKILL.md"
	"$CYBEROS" skill validate --json "$T/valid" >"$T/out"
	is "$?" 0 "skill(5): the example ${example##*.} is valid"
done

# The example of broker.yaml(5) is accepted, and bounds what it says.
awk '/^ceiling:$/ { on = 1 } /^\.Ed/ { on = 0 } on' "$YAML5" >"$T/c.yaml"
"$CYBEROS" skill broker status --store "$STORE" --config "$T/c.yaml" \
    >"$T/out" 2>&1
is "$?" 0 'broker.yaml(5): the example is accepted'
in_skill 'cyberos skill call Read path=/etc/hostname' \
    'allowed_tools: [Read]' 'x-allowed-files: [/etc/hostname]'
is "$RC" 0 'broker.yaml(5): without it a file is read'
printf '#!/bin/sh\ncyberos skill call Read path=/etc/hostname\n' |
    skill probe 'allowed_tools: [Read]' 'x-allowed-files: [/etc/hostname]'
broker_run --config "$T/c.yaml" probe
is "$RC" 5 'broker.yaml(5): with it the same file is refused'
refused ceiling Read

# The loop of ledger(5) finds nothing in a segment, and what was changed in it.
segment >"$T/segment.jsonl"
awk '/^prev=$/ { on = 1 } /^\.Ed/ { on = 0 } on' "$LEDGER5" |
    sed 's/\\e/\\/g' >"$T/verify.sh"
like "$(cat "$T/verify.sh")" '^done <segment.jsonl$' 'ledger(5): has its loop'
is "$(cd "$T" && sh verify.sh)" '' 'ledger(5): its loop finds a segment intact'
sed -i '2s/"Read"/"Reap"/' "$T/segment.jsonl"
like "$(cd "$T" && sh verify.sh)" '^changed: .*"seq":2,' \
    'ledger(5): its loop finds a row that was changed'
segment | sed 2d >"$T/segment.jsonl"
like "$(cd "$T" && sh verify.sh)" '^gap: .*"seq":3,' \
    'ledger(5): its loop finds a row that was taken out'

# Doctor: names, words and exit status.
"$CYBEROS" skill broker doctor --json >"$T/doctor"
rc=$?
holds=$(jq -r .enforced "$T/doctor")
is "$holds $rc" "$([ "$rc" -eq 0 ] && echo 'true 0' || echo 'false 1')" \
    'doctor: the exit status is what it found'
if [ "$(jq -r .error "$T/doctor")" = null ]; then
	same 'doctor: a word for every layer' \
	    "$(jq -r '.layers | keys[]' "$T/doctor")" "$(words layer)"
	like "$("$CYBEROS" skill broker doctor | tr -s ' \n' ' ')" \
	    'its own processes only; all end together' 'doctor: no text is cut'
	same 'doctor: a word for every attempt' \
	    "$(jq -r '.attempts | keys[]' "$T/doctor")" "$(words attempt)"
else
	skip 'doctor: its words' "$(jq -r .error "$T/doctor")"
fi
"$CYBEROS" skill broker doctor --config "$T/none.yaml" >"$T/out" 2>&1
is "$?" 3 'doctor: no such configuration'
"$CYBEROS" skill broker doctor more >"$T/out" 2>&1
is "$?" 2 'doctor: wrong usage'

# --attest records the same before the start.
printf '#!/bin/sh\necho ran >/tmp/ran; echo ran\n' | skill attested
broker_run --attest attested
is "$RC $OUT" '0 ran' '--attest: a skill runs behind layers that hold'
is "$(segment | jq -r .kind | head -n 2 | tr '\n' ' ')" \
    'skill.sandbox_attested skill.invoked_started ' \
    '--attest: its row is there before the start'
is "$(rows skill.sandbox_attested \
    '| .layers | to_entries[] | select(.value == "BROKEN") | .key')" '' \
    '--attest: and no layer is broken'

# A host that lies: setuid(0) is answered with "done" by an outer filter.
cat >"$T/lie.c" <<'EOT'
#include <seccomp.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	if (argc < 2 || ctx == NULL ||
	    seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0), SCMP_SYS(setuid), 0) != 0 ||
	    seccomp_load(ctx) != 0)
		return 99;
	execv(argv[1], argv + 1);
	return 99;
}
EOT
${CC:-cc} -o "$T/lie" "$T/lie.c" -lseccomp >"$T/cc.out" 2>&1
ok "$?" 'a filter that lies can be built'
"$T/lie" "$CYBEROS" skill broker doctor --json >"$T/doctor"
is "$? $(jq -r '[.layers.identity, .attempts.be_root, .enforced] | @tsv' \
    "$T/doctor" | tr '\t' ' ')" '1 BROKEN POSSIBLE false' \
    'doctor: an attempt that succeeds breaks its layer'
REAL=$CYBEROS
CYBEROS=$T/lying
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$T/lie" "$REAL" >"$CYBEROS"
chmod 755 "$CYBEROS"
broker_run --attest attested
CYBEROS=$REAL
is "$RC $OUT" '125 ' '--attest: no skill behind a broken layer'
is "$(result outcome)" refused '--attest: and it says so'
is "$(segment | jq -r .kind | tr '\n' ' ')" \
    'skill.sandbox_attested skill.invoked_completed ' \
    '--attest: a start was not recorded'

# Attempts: one row each at first sight, and one for all others.
cat >"$T/perl_main" <<'EOT'
#!/usr/bin/perl
use Socket;
my $n = 0;
for my $family (20 .. 99) { socket(my $s, $family, SOCK_STREAM, 0) || $n++; }
socket(my $s, AF_INET, SOCK_STREAM, 0) || $n++ for 1 .. 3;
socket(my $q, 16, SOCK_RAW, 0) || print "netlink: $!\n";
print "$n\n";
EOT
skill attempts <"$T/perl_main"
broker_run attempts
is "$OUT" 'netlink: Operation not permitted
83' 'attempts: each was refused'
is "$(rows skill.cap_bypass_attempt '| select(.count == 1) | .syscall' |
    sort | uniq -c | tr -s ' ')" ' 63 "socket"' 'attempts: 63 have a row'
is "$(rows skill.cap_bypass_attempt | tail -n 1 |
    jq -c '[.syscall, .target, .count]')" '["*",null,20]' \
    'attempts: the last row counts the others'

done_testing
