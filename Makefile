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
SHAREDIR = $(PREFIX)/share/cyberos
BASHDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR = $(PREFIX)/share/zsh/site-functions

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
LIBS := $(foreach l,pcre2-8 seccomp cjson yaml crypto bsd md,$(call archive,$(l))) -lpthread

FOLDERS = audit enforce tools broker supervisor
# cyberos-net is a program of its own, with a few files of ours.
NET = $(dir $(BIN))libexec/cyberos/cyberos-net
NET_SRC = tools/net_main.c tools/transfer.c tools/unpack.c tools/exporter.c
NET_OBJ = $(NET_SRC:%.c=$(B)/%.o) $(patsubst %,$(B)/%.o,audit/buf audit/clock \
	audit/json audit/ring audit/span audit/trace enforce/fdpass enforce/fence enforce/filter enforce/filters enforce/glob \
	enforce/host enforce/landlock enforce/route)
NET_LIBS = -lcurl -lssl -lbrotlidec -lz -lcjson -lbsd -lm
# So is cyberos-ed25519: the library's keys would make each start dearer.
ED25519 = $(dir $(BIN))libexec/cyberos/cyberos-ed25519
ED25519_OBJ = $(B)/enforce/ed25519_main.o
ED25519_LIBS := $(call archive,crypto) -lpthread
MAINS = enforce/filter_main.c enforce/ed25519_main.c
# The system call filters are compiled when we are.
FILTERS = $(B)/enforce/filters.c
FILTERS_OBJ = $(B)/enforce/filter_main.o $(B)/enforce/seccomp.o
SRC = $(filter-out $(NET_SRC) $(MAINS),$(sort $(foreach f,$(FOLDERS),$(wildcard $(f)/*.c))))
OBJ = $(SRC:%.c=$(B)/%.o) $(FILTERS:.c=.o)
LIBOBJ = $(filter-out $(B)/supervisor/main.o,$(OBJ))
UNITS = $(patsubst t/unit/%.c,$(B)/unit/%.t,$(sort $(wildcard t/unit/*.c))) \
	$(MODELS)
MODELS = $(patsubst t/model/%.c,$(B)/unit/model-%.t,$(sort $(wildcard t/model/*.c)))
SKILLS_C = $(sort $(wildcard t/skills/*/main.c))
SKILLS = $(SKILLS_C:%.c=%)

# Each command needs the libraries; ask for them once, before the first compile.
all: deps
	@$(MAKE) --no-print-directory build

build: $(BIN) $(NET) $(ED25519)

$(BIN): $(OBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(OBJ) $(LIBS)

$(NET): $(NET_OBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(NET_OBJ) $(NET_LIBS)

$(ED25519): $(ED25519_OBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(ED25519_OBJ) $(ED25519_LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# What knows where the programs will be is compiled anew when that changes.
$(B)/libexecdir: force
	@mkdir -p $(@D)
	@echo '$(LIBEXECDIR)' | cmp -s - $@ || echo '$(LIBEXECDIR)' >$@
$(B)/enforce/libexec.o $(B)/broker/broker.o: $(B)/libexecdir

$(B)/filters: $(FILTERS_OBJ)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(FILTERS_OBJ) -lseccomp -lbsd

$(FILTERS): $(B)/filters
	$(say) MAKE $@
	$(Q)$(abspath $<) >$@.new && mv $@.new $@

$(FILTERS:.c=.o): $(FILTERS)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# A unit test is linked with everything below main(); only the folders that it
# includes matter, and t/00-layers.t looks at those.
$(B)/unit/%.t: $(B)/t/unit/%.o $(LIBOBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< $(LIBOBJ) $(LIBS)

# What should be allowed, against what is: linked in the same way.
$(B)/unit/model-%.t: $(B)/t/model/%.o $(LIBOBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< $(LIBOBJ) $(LIBS)

# The product with a broken matcher: what holds then is the kernel's.
$(B)/unit/planted: $(B)/t/planted.o $(OBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -Wl,--wrap=glob_match_path -o $@ $^ $(LIBS)

# The product with a wall clock and a disk that a test sets.
$(B)/unit/faulty: $(B)/t/faulty.o $(OBJ)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_ALL) -Wl,--wrap=clock_gettime,--wrap=write -o $@ $^ $(LIBS)

# Skills for the tests: programs of their own that share nothing with us.
t/skills/%/main: t/skills/%/main.c
	$(say) CC $<
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -o $@ $<

deps:
	@sh .ci/deps build

deps-test:
	@sh .ci/deps test

deps-deb:
	@sh .ci/deps deb

deps-bench:
	@sh .ci/deps bench

demo: all
	@sh t/demo.sh

test: deps-test
	@$(MAKE) --no-print-directory $(if $(findstring j,$(firstword -$(MAKEFLAGS))),,-j$(shell nproc)) tests

tests: build $(UNITS) $(B)/unit/planted $(B)/unit/faulty $(SKILLS)
	@MAKEFLAGS= MFLAGS= BIN=$(BIN) sh t/run.sh $(B)

# The whole suite with sanitizers. In the sandbox, where address space is
# limited, the client is the plain binary.
asan: deps-test
	@$(MAKE) --no-print-directory build B=build/plain BIN=build/plain/cyberos
	@$(MAKE) --no-print-directory tests B=build/asan \
		BIN=build/asan/cyberos OPT='-O1 -g' \
		CFLAGS='-DCLIENT_BINARY=\"$(CURDIR)/build/plain/cyberos\"' \
		SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer'

# The long form of the tests of crashes, write faults and checks, as root.
fault: deps-test build $(SKILLS) $(MODELS) $(B)/unit/glob.t
	@BUILD=$(B) sh t/fault/run.sh

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

$(B)/bench/start_floor: t/bench/start_floor.c $(B)/enforce/filter.o $(FILTERS:.c=.o)
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(DEFS) $(OPT) $(WARN) -o $@ $^ -lbsd

# Ratios to other programs and curves, as tables; the curves as a picture too.
bench: deps-bench all $(B)/bench/call $(B)/bench/floor $(B)/bench/start $(B)/bench/start_floor $(B)/bench/mcp $(B)/bench/ledger t/skills/wire/main
	@sh t/bench/run.sh $(B) | tee $(B)/bench/goals.tsv
	@sh t/bench/export.sh $(B) | tee $(B)/bench/export.tsv
	@sh t/bench/find.sh | tee $(B)/bench/find.tsv
	@sh t/bench/busy.sh $(B) | tee $(B)/bench/busy.tsv
	@sh t/bench/ledger.sh $(B) | tee $(B)/bench/ledger.tsv
	@sh t/bench/many.sh $(B) | tee $(B)/bench/many.tsv
	@sh t/bench/curves.sh $(B)

# Where each file goes. Of man/share everything, but not what a tool left there.
SHARED = $(sort $(shell cd man/share && find * -type f ! -path 'completion/*' \
	! -path '*/.*' ! -name '*.pyc'))
PAGES = $(notdir $(sort $(wildcard man/*.[1-9])))
page = $(MANDIR)/man$(subst .,,$(suffix $(1)))/$(1)
INSTALLED = $(BINDIR)/cyberos $(LIBEXECDIR)/cyberos-net $(LIBEXECDIR)/cyberos-ed25519 \
	$(foreach p,$(PAGES),$(call page,$(p))) $(SHARED:%=$(SHAREDIR)/%) \
	$(BASHDIR)/cyberos $(ZSHDIR)/_cyberos
put = install -D -m $(1) $(2) $(DESTDIR)$(3)$(newline)
define newline

	$(Q)
endef

install: build
	$(say) INST $(DESTDIR)$(PREFIX)
	$(Q)$(call put,755,$(BIN),$(BINDIR)/cyberos)
	$(Q)$(call put,755,$(NET),$(LIBEXECDIR)/cyberos-net)
	$(Q)$(call put,755,$(ED25519),$(LIBEXECDIR)/cyberos-ed25519)
	$(Q)$(foreach p,$(PAGES),$(call put,644,man/$(p),$(call page,$(p))))
	$(Q)$(foreach f,$(SHARED),$(call put,644,man/share/$(f),$(SHAREDIR)/$(f)))
	$(Q)$(call put,644,man/share/completion/cyberos,$(BASHDIR)/cyberos)
	$(Q)$(call put,644,man/share/completion/cyberos,$(ZSHDIR)/_cyberos)

# What install put there, and directories of ours that are empty then.
uninstall:
	$(say) RM $(DESTDIR)$(PREFIX)
	$(Q)rm -f $(INSTALLED:%=$(DESTDIR)%)
	$(Q)for d in $(LIBEXECDIR) $(SHAREDIR); do \
		[ ! -d $(DESTDIR)$$d ] || \
		    find $(DESTDIR)$$d -depth -type d -empty -delete; \
	done

# A package for this Debian or Ubuntu, in build/.
deb: deps-deb
	@MAKE='$(MAKE)' sh .ci/deb/build $(B) $(VERSION)

# The same package, looked at by lintian and tried in a fresh Debian; as root,
# and with the network.
deb-test: deb
	@sh .ci/deb/try $(B) $(VERSION)

clean:
	rm -rf build cyberos libexec $(SKILLS)

help:
	@sed -n 's/^#   //p' Makefile; echo 'make deps | asan | fault | lint | bench | install | uninstall | deb | deb-test | clean'

.PHONY: force all build deps deps-test deps-bench deps-deb uninstall deb deb-test demo test tests asan fault lint bench install clean help

-include $(OBJ:.o=.d) $(NET_OBJ:.o=.d) $(ED25519_OBJ:.o=.d) $(FILTERS_OBJ:.o=.d) $(wildcard $(B)/t/*/*.d)
