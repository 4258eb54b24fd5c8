# cyberos skill broker: build, test, install.
#
#   make demo     build and show the main job
#   make test     build and run every test
#   make help     the other targets

VERSION = 1.0.0
PREFIX = /usr/local
BINDIR = $(PREFIX)/bin
LIBEXECDIR = $(PREFIX)/libexec/cyberos
MANDIR = $(PREFIX)/share/man

CC = cc
OPT = -O2 -g
B = build
BIN = cyberos

# Quiet unless V=1.
Q = $(if $(V),,@)
say = @$(if $(V),:,printf '  %-4s %s\n')

WARN = -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings \
	-Wformat=2 -Wvla -Wundef -Wconversion -Wswitch-enum \
	-Wimplicit-fallthrough
# clang before 16 wants to be asked twice for zeroed variables: leave it out.
ZERO := $(shell $(CC) -Werror -ftrivial-auto-var-init=zero -x c -c -o /dev/null /dev/null 2>/dev/null && echo -ftrivial-auto-var-init=zero)
HARDEN = -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
	-fstack-clash-protection -fcf-protection \
	$(ZERO) -fPIE
HARDEN_LD = -pie -Wl,-z,relro,-z,now,-z,noexecstack,--as-needed,--gc-sections
# libbsd's overlay keeps the includes of the BSDs (<string.h>, <stdlib.h>).
DEFS = -std=c11 -D_GNU_SOURCE -DCYBEROS_VERSION='"$(VERSION)"' \
	-DLIBEXECDIR='"$(LIBEXECDIR)"' -I. -isystem /usr/include/bsd \
	-DLIBBSD_OVERLAY
SANITIZE =

CFLAGS_ALL = $(DEFS) $(OPT) $(WARN) $(if $(SANITIZE),,$(HARDEN)) $(SANITIZE) \
	$(CFLAGS)
LDFLAGS_ALL = $(if $(SANITIZE),,$(HARDEN_LD)) $(SANITIZE) $(LDFLAGS)
# Loading shared libraries is a third of what a start costs, so those that
# have an archive are linked from it; STATIC= links none of them.
STATIC = $(if $(SANITIZE),,1)
archive = $(if $(STATIC),$(if $(wildcard $(shell $(CC) -print-file-name=lib$(1).a)),-l:lib$(1).a,-l$(1)),-l$(1))
LIBS := $(foreach l,pcre2-8 seccomp cjson yaml crypto bsd md,$(call archive,$(l))) -lm -lpthread

FOLDERS = audit enforce tools broker supervisor
# cyberos-net is a program of its own, with a few files of ours.
NET = $(dir $(BIN))libexec/cyberos/cyberos-net
NET_SRC = tools/net_main.c tools/transfer.c
NET_OBJ = $(NET_SRC:%.c=$(B)/%.o) $(patsubst %,$(B)/%.o,audit/buf audit/clock \
	audit/json enforce/fence enforce/filter enforce/filters enforce/glob \
	enforce/host enforce/landlock enforce/route)
NET_LIBS = -lcurl -lcjson -lbsd -lm
# The system call filters are compiled when we are.
FILTERS = $(B)/enforce/filters.c
FILTERS_OBJ = $(B)/enforce/filter_main.o $(B)/enforce/seccomp.o
SRC = $(filter-out $(NET_SRC) enforce/filter_main.c,$(sort $(foreach f,$(FOLDERS),$(wildcard $(f)/*.c))))
OBJ = $(SRC:%.c=$(B)/%.o) $(FILTERS:.c=.o)
LIBOBJ = $(filter-out $(B)/supervisor/main.o,$(OBJ))
UNITS = $(patsubst t/unit/%.c,$(B)/unit/%.t,$(sort $(wildcard t/unit/*.c)))
SKILLS_C = $(sort $(wildcard t/skills/*/main.c))
SKILLS = $(SKILLS_C:%.c=%)

# Each command needs the libraries; ask for them once, before the first compile.
all: deps
	@$(MAKE) --no-print-directory build

build: $(BIN) $(NET)

$(BIN): $(OBJ)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(OBJ) $(LIBS)

$(NET): $(NET_OBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(NET_OBJ) $(NET_LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(B)/filters: $(FILTERS_OBJ)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(FILTERS_OBJ) -lseccomp -lbsd

$(FILTERS): $(B)/filters
	$(say) MAKE $@
	$(Q)./$< >$@.new && mv $@.new $@

$(FILTERS:.c=.o): $(FILTERS)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# A unit test is linked with everything below main(); only the folders that it
# includes matter, and t/00-layers.t looks at those.
$(B)/unit/%.t: $(B)/t/unit/%.o $(LIBOBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< $(LIBOBJ) $(LIBS)

# The product with a broken matcher: what holds then is the kernel's.
$(B)/unit/planted: $(B)/t/planted.o $(OBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -Wl,--wrap=glob_match_path -o $@ $^ $(LIBS)

# Skills for the tests: programs of their own that share nothing with us.
t/skills/%/main: t/skills/%/main.c
	$(say) CC $<
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -o $@ $<

deps:
	@sh .ci/deps build

deps-test:
	@sh .ci/deps test

deps-bench:
	@sh .ci/deps bench

demo: all
	@sh t/demo.sh

test: deps-test
	@$(MAKE) --no-print-directory tests

tests: build $(UNITS) $(B)/unit/planted $(SKILLS)
	@BIN=$(BIN) sh t/run.sh $(B)

# The whole suite with sanitizers. In the sandbox, where address space is
# limited, the client is the plain binary.
asan: deps-test
	@$(MAKE) --no-print-directory build B=build/plain BIN=build/plain/cyberos
	@$(MAKE) --no-print-directory tests B=build/asan \
		BIN=build/asan/cyberos OPT='-O1 -g' \
		CFLAGS='-DCLIENT_BINARY=\"$(CURDIR)/build/plain/cyberos\"' \
		SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer'

# The long form of the tests of crashes and write faults, as root.
fault: deps-test build t/skills/wire/main
	@sh t/fault/run.sh

lint: deps-test
	@sh .ci/lint

$(B)/bench/%: t/bench/%.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -o $@ $< -lcrypto

$(B)/bench/ledger: $(B)/t/bench/ledger.o $(LIBOBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< $(LIBOBJ) $(LIBS)

bench: deps-bench all $(B)/bench/call $(B)/bench/floor $(B)/bench/start $(B)/bench/ledger t/skills/wire/main
	@sh t/bench/run.sh $(B)
	@sh t/bench/find.sh
	@sh t/bench/ledger.sh $(B)

install: build
	install -d $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 \
		$(DESTDIR)$(MANDIR)/man5 $(DESTDIR)$(MANDIR)/man7
	install -m 755 cyberos $(DESTDIR)$(BINDIR)/cyberos
	install -m 755 $(NET) $(DESTDIR)$(LIBEXECDIR)/cyberos-net
	for s in 1 5 7; do \
		install -m 644 man/*.$$s $(DESTDIR)$(MANDIR)/man$$s || exit 1; \
	done

clean:
	rm -rf build cyberos libexec $(SKILLS)

help:
	@sed -n 's/^#   //p' Makefile; echo 'make deps | asan | fault | lint | bench | install | clean'

.PHONY: all build deps deps-test deps-bench demo test tests asan fault lint bench install clean help

-include $(OBJ:.o=.d) $(NET_OBJ:.o=.d) $(FILTERS_OBJ:.o=.d)
