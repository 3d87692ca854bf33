# SPDX-License-Identifier: Apache-2.0
# The one build file; nothing recurses.  `make help` lists the targets.
#   O=dir build directory   V=1 show commands   SAN=address,undefined

VERSION     := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
O           ?= build$(if $(SAN),/san)
CC          ?= gcc
CLANG       ?= clang
CLANG_TIDY  ?= clang-tidy
BPFTOOL     ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
PKG_CONFIG  ?= pkg-config
PYTHON      ?= /usr/bin/python3
VMLINUX_BTF ?= /sys/kernel/btf/vmlinux
FUZZ_SECS   ?= 20
PREFIX      ?= /usr
LIBEXECDIR  ?= $(PREFIX)/libexec/cordon
T           ?=

# --- The map: the rooms, what each may include, what each program links
ROOMS := base wipe wire json digest confine config policy session receipt artifact audit skill files \
	supervisor broker worker launcher gateway ledger verify statement image cli skills
uses_wire       := base
uses_json       := base
uses_digest     := base
uses_confine    := base
uses_config     := policy wire digest base
uses_policy     := base
uses_session    := policy digest json base
uses_receipt    := digest json base
uses_artifact   := digest json base
uses_audit      := digest json base
uses_supervisor := config policy confine wire digest base
uses_broker     := session receipt artifact config policy confine wire json digest base wipe
uses_worker     := config policy confine wire digest base
uses_launcher   := policy base
uses_gateway    := config policy confine wire json digest base wipe
uses_ledger     := audit config policy confine wire json digest base
uses_verify     := audit confine json digest base
uses_image      := config policy wire digest json base
uses_cli        := skill files audit session receipt artifact config policy wire json digest base
uses_skill      := json digest base
uses_files      := base
uses_statement  := receipt digest json base
uses_skills     := skill config policy confine wire json digest base
path_skills     := fuse-skills
PROGRAMS        := supervisor broker worker gateway ledger verify statement image cli skills
STATIC_PROGRAMS := launcher
name_supervisor := cordond
name_cli        := cordon
pkgs_confine    := libseccomp libcap
pkgs_json       := jansson
pkgs_image      := libarchive
pkgs_digest     := libcrypto
pkgs_broker     := libmicrohttpd
pkgs_worker     := libbpf libnl-3.0 libnl-route-3.0 libnftables
pkgs_gateway    := libcares
pkgs_audit      := sqlite3
pkgs_skills     := fuse3
BPF_PROGS       := $(patsubst bpf/%.bpf.c,%,$(wildcard bpf/*.bpf.c))

# --- Flags
CFLAGS      ?= -O2 -g
WARN        := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla \
	-Wpointer-arith -Wwrite-strings -Wundef $(if $(CI),-Werror)
INCLUDES     = -Iuserspace -Iinclude -I. -I$(O)/gen
ALL_CFLAGS   = -std=gnu11 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -DLIBEXECDIR='"$(LIBEXECDIR)"' $(INCLUDES) \
	$(WARN) -fno-strict-aliasing -fstack-protector-strong -fPIE -MMD -MP \
	$(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer,-D_FORTIFY_SOURCE=2 -fstack-clash-protection) \
	$(CFLAGS)
ALL_LDFLAGS  = -pie -Wl,-z,relro,-z,now,-z,noexecstack,--as-needed $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
ARCH        := $(shell uname -m | sed 's/x86_64/x86/;s/aarch64/arm64/')
BPF_CFLAGS  := -g -O2 -Wall -Wextra $(if $(CI),-Werror) -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -I$(O)/gen -Iinclude -MMD -MP

say   = $(if $(V),,@printf '  %-5s %s\n' $(1) $(patsubst $(O)/%,%,$@);)
where = $(or $(path_$(1)),userspace/$(1))
room  = $(filter-out %/main.c,$(wildcard $(call where,$(1))/*.c))
objs  = $(patsubst %.c,$(O)/%.o,$(1))
bin   = $(O)/bin/$(or $(name_$(1)),cordon-$(1))
first = $(firstword $(subst _, ,$(1)))
libs  = $(patsubst %,$(O)/lib%.a,$(1) $(uses_$(1)))
pkgs  = $(foreach r,$(1) $(uses_$(1)),$(pkgs_$(r)))
pclibs = $(if $(strip $(call pkgs,$(1))),$$(shell $(PKG_CONFIG) --libs $(call pkgs,$(1))))
built = $(foreach p,$(1),$(if $(wildcard $(call where,$(p))/main.c),$(call bin,$(p))))
SKELS := $(BPF_PROGS:%=$(O)/gen/%.skel.h)

.PHONY: all deps run images check check-san san faults soak unit system vmtest lint bench golden proofs fuzz static coverage \
	guards install clean help
.DELETE_ON_ERROR:
.SECONDARY:
all: $(call built,$(PROGRAMS) $(STATIC_PROGRAMS))

# --- C: objects, one archive per room, one binary per program
$(O)/%.o: %.c | $(SKELS)
	$(call say,CC)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) -c -o $@ $<
$(O)/lib%.a:
	$(call say,AR)mkdir -p $(@D) && rm -f $@ && ar rcs $@ $^
# One rule each: a pattern of several targets would be run once for a stem they share.
define LINK
$(O)/$(1)/%:
	$$(call say,LD)mkdir -p $$(@D) && $$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $$(LIBS)
endef
$(foreach k,bin unit proof replay,$(eval $(call LINK,$(k))))
$(O)/userspace/worker/egress_%.o: INCLUDES += $(shell $(PKG_CONFIG) --cflags-only-I libnl-3.0)
$(O)/userspace/worker/egress_nft.o: nft/slot.nft
define ROOM
$(O)/lib$(1).a: $(call objs,$(call room,$(1)))
endef
define PROGRAM
$(call bin,$(1)): $(O)/$(call where,$(1))/main.o $(call libs,$(1))
$(call bin,$(1)): LIBS = $(call pclibs,$(1))
endef
$(foreach r,$(ROOMS),$(eval $(call ROOM,$(r))))
$(foreach p,$(PROGRAMS),$(eval $(call PROGRAM,$(p))))

# The CLI stands on the path of every command: static, it starts in 4.5 ms where a
# dynamic one took 14 and /bin/true 7 (one run beside a busy machine).
ifndef SAN
$(call bin,cli): ALL_LDFLAGS = -static-pie -Wl,-z,relro,-z,now,-z,noexecstack $(LDFLAGS)
endif

# The seccomp program is assembled at build time from the table of calls.
$(O)/gen/seccomp_filter.h: userspace/launcher/gen/filter.c userspace/launcher/syscalls.def
	$(call say,GEN)mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE -Iuserspace -o $(O)/gen/filter $< -lseccomp && $(O)/gen/filter > $@
$(O)/userspace/launcher/drop.o: $(O)/gen/seccomp_filter.h
$(O)/userspace/broker/api_plane.o: userspace/broker/openapi.json
# The launcher is pid 1 of every sandbox: static, musl (8 page faults at start, glibc's 26), no
# sanitizer runtime. musl-gcc does not know the kernel's headers: they come last.
MUSL_CC ?= musl-gcc
LAUNCHER_CFLAGS = $(filter-out -fsanitize=% -fPIE,$(ALL_CFLAGS)) -fno-pie -idirafter /usr/include \
	-idirafter /usr/include/$(shell $(CC) -print-multiarch) $(if $(SAN),-fsanitize=undefined -fsanitize-undefined-trap-on-error)
$(O)/userspace/launcher/%.o: userspace/launcher/%.c
	$(call say,CC)mkdir -p $(@D) && $(MUSL_CC) $(LAUNCHER_CFLAGS) -c -o $@ $<
$(O)/bin/cordon-launcher: $(O)/userspace/launcher/main.o $(O)/liblauncher.a
	$(call say,LD)mkdir -p $(@D) && $(MUSL_CC) -static -no-pie -Wl,-z,relro,-z,now,-z,noexecstack -o $@ $^

# --- BPF: kernel types -> object -> skeleton
$(O)/gen/vmlinux.h:
	$(call say,BTF)mkdir -p $(@D) && $(BPFTOOL) btf dump file $(VMLINUX_BTF) format c > $@
$(O)/bpf/%.bpf.o: bpf/%.bpf.c $(O)/gen/vmlinux.h
	$(call say,BPF)mkdir -p $(@D) && $(CLANG) $(BPF_CFLAGS) -c -o $@ $<
$(O)/gen/%.skel.h: $(O)/bpf/%.bpf.o
	$(call say,SKEL)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# --- Probes: what the system tests run inside a sandbox
PROBES := $(patsubst tests/probe/%.c,$(O)/probe/%,$(wildcard tests/probe/*.c))
$(O)/probe/%: tests/probe/%.c
	$(call say,PROBE)mkdir -p $(@D) && $(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(WARN) -static -pthread -o $@ $<

# --- Tests: test_<room>_<file>.c links its room and what that room may use, no more
UNIT := $(patsubst tests/unit/test_%.c,%,$(wildcard tests/unit/test_*.c))
define UNITTEST
$(O)/unit/$(1): $(O)/tests/unit/test_$(1).o $(call libs,$(call first,$(1)))
$(O)/unit/$(1): LIBS = -lcmocka $(call pclibs,$(call first,$(1)))
endef
$(foreach t,$(UNIT),$(eval $(call UNITTEST,$(t))))

# --- Proofs: tests/proof/<room>_<what>.c, one property over every case of the domain the file names
PROOFS := $(patsubst tests/proof/%.c,%,$(wildcard tests/proof/*.c))
define PROOF
$(O)/proof/$(1): $(O)/tests/proof/$(1).o $(call libs,$(call first,$(1)))
$(O)/proof/$(1): LIBS = $(call pclibs,$(call first,$(1)))
endef
$(foreach p,$(PROOFS),$(eval $(call PROOF,$(p))))
$(PROOFS:%=$(O)/tests/proof/%.o): CFLAGS += -O3
proofs: $(PROOFS:%=$(O)/proof/%)
	@$(PYTHON) tests/run.py --build $(O) $(PROOFS:%=$(O)/proof/%)

# --- Fuzzing: fuzz_<room>_<what>.c and the proofs, libFuzzer with ASan and UBSan, corpora under tests/fuzz/corpus
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c)) $(PROOFS:%=proof_%)
FUZZ_CFLAGS = -std=gnu11 -D_GNU_SOURCE -DFUZZING -DVERSION='"fuzz"' -DLIBEXECDIR='"$(LIBEXECDIR)"' $(INCLUDES) \
	-g -O1 -MMD -MP -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
fuzzed = $(patsubst %.c,$(O)/fuzz/obj/%.o,$(1))
$(O)/fuzz/obj/%.o: %.c | $(SKELS)
	$(call say,FUZZ)mkdir -p $(@D) && $(CLANG) $(FUZZ_CFLAGS) -c -o $@ $<
$(O)/fuzz/lib%.a:
	$(call say,AR)rm -f $@ && ar rcs $@ $^
$(O)/fuzz/bin/%:
	$(call say,LD)mkdir -p $(@D) && $(CLANG) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)
$(O)/fuzz/obj/userspace/launcher/drop.o: $(O)/gen/seccomp_filter.h
$(foreach r,$(ROOMS),$(eval $(O)/fuzz/lib$(r).a: $(call fuzzed,$(call room,$(r)))))
define FUZZTEST
$(O)/fuzz/bin/$(1): $(call fuzzed,$(2)) $(patsubst %,$(O)/fuzz/lib%.a,$(3) $(uses_$(3)))
$(O)/fuzz/bin/$(1): LIBS = $(call pclibs,$(3))
$(O)/replay/$(1): $(O)/$(2:.c=.o) $(O)/tests/fuzz/replay.o $(call libs,$(3))
$(O)/replay/$(1): LIBS = $(call pclibs,$(3))
endef
$(foreach f,$(filter-out proof_%,$(FUZZ)),$(eval $(call FUZZTEST,$(f),tests/fuzz/fuzz_$(f).c,$(call first,$(f)))))
$(foreach p,$(PROOFS),$(eval $(call FUZZTEST,proof_$(p),tests/proof/$(p).c,$(call first,$(p)))))
fuzz: $(FUZZ:%=$(O)/fuzz/bin/%)
	@tests/fuzz/run.sh $(O) $(FUZZ_SECS) $(FUZZ)

# --- Static: clang-tidy (.clang-tidy) on what changed, cppcheck on all
SOURCES := $(foreach r,$(ROOMS),$(wildcard $(call where,$(r))/*.c))
STATIC_FLAGS = -std=gnu11 -D_GNU_SOURCE -DVERSION='"static"' -DLIBEXECDIR='"$(LIBEXECDIR)"' $(INCLUDES)
$(O)/static/%.ok: $(O)/%.o .clang-tidy
	$(call say,TIDY)mkdir -p $(@D) && { $(CLANG_TIDY) --quiet $*.c -- $(STATIC_FLAGS) \
		$(shell $(PKG_CONFIG) --cflags-only-I libnl-3.0 fuse3) >$@.log 2>&1 || { cat $@.log; exit 1; }; } && touch $@
$(O)/static/cppcheck.ok: $(SOURCES:%.c=$(O)/%.o) tests/lint/cppcheck.txt
	$(call say,CPP)mkdir -p $(@D)/cppcheck && cppcheck -q --std=c11 --enable=warning,portability --error-exitcode=1 \
		--suppressions-list=tests/lint/cppcheck.txt --suppress=missingIncludeSystem --cppcheck-build-dir=$(@D)/cppcheck \
		-j 2 $(filter -D% -I%,$(STATIC_FLAGS)) $(SOURCES) && touch $@
static: $(SOURCES:%.c=$(O)/static/%.ok) $(O)/static/cppcheck.ok

# --- What is run, of all that
# The images tests run on, before any of them moves into a network of its own.
images: all
	@mkdir -p $(O)/images && for i in busybox debian; do \
		$(O)/bin/cordon-image build --name $$i --store $(abspath $(O))/images --root $(abspath $(O)) || exit 1; done
check: lint static all images $(PROBES) $(UNIT:%=$(O)/unit/%) $(PROOFS:%=$(O)/proof/%) $(FUZZ:%=$(O)/fuzz/bin/%)
	@FUZZ_SEED=1 tests/fuzz/run.sh $(O) 3 $(FUZZ)
	@$(PYTHON) tests/run.py --build $(O) --claims vmtests/run.py $(UNIT:%=$(O)/unit/%) $(PROOFS:%=$(O)/proof/%) $(sort $(wildcard tests/system/test_*)) $(T)
# The whole suite once over a sanitizer build (not the guests, the proofs and the fuzzers): a report
# of anything a test starts fails it (tests/lib/reports.py). Leaks are looked for where no confinement
# forbids it (confine/confine.c): the unit tests, the command line, the image builder.
check-san:
	@mkdir -p $(O)/san && cp -aln $(O)/images $(O)/san/ && \
		$(MAKE) --no-print-directory SAN=address,undefined O=$(O)/san san
san: images $(PROBES) $(UNIT:%=$(O)/unit/%)
	@TEST_TIMEOUT_SCALE=4 $(PYTHON) tests/run.py --build $(O) $(UNIT:%=$(O)/unit/%) $(sort $(wildcard tests/system/test_*)) $(T)
unit: $(UNIT:%=$(O)/unit/%)
	@$(PYTHON) tests/run.py --build $(O) $(UNIT:%=$(O)/unit/%)
system: all images $(PROBES)
	@$(PYTHON) tests/run.py --build $(O) $(or $(T),$(sort $(wildcard tests/system/test_*)))
lint: all $(ROOMS:%=$(O)/lib%.a)
	@$(foreach r,$(ROOMS),tests/lint/layers.sh $(r) '$(uses_$(r))' $(O)/$(call where,$(r)) &&) tests/lint/pure.sh $(O)
	@tests/lint/headers.sh $(O) && tests/lint/spdx.sh && tests/lint/map.py && tests/lint/claims.py && tests/guards.py --check
coverage:
	@$(PYTHON) tests/coverage.py --build $(O)
guards: all $(PROBES)
	@$(PYTHON) tests/guards.py --build $(O) $(T)
vmtest: all $(PROBES) $(patsubst %,$(O)/unit/%,$(filter %_privileges,$(UNIT)))
	@vmtests/run.py --build $(O) $(T)
# Every fault at every step; `make check` runs one error of each, and the kills test_kill.py has not.
faults: all images
	@FAULTS=all TEST_TIMEOUT_SCALE=4 $(PYTHON) tests/run.py --build $(O) -v tests/system/test_faults.py tests/system/test_kill.py
SOAK_COMMANDS ?= 2000
soak: all images
	@SOAK_COMMANDS=$(SOAK_COMMANDS) TEST_TIMEOUT_SCALE=4 $(PYTHON) tests/run.py --build $(O) -v tests/system/test_soak.py
bench: all
	@$(PYTHON) tests/bench/run.py --build $(O) $(T)

run: deps
	@$(MAKE) --no-print-directory all && tests/system/demo.sh $(O)
deps:
	@.ci/deps
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(patsubst %,$(DESTDIR)$(PREFIX)/share/man/man%,1 5 8)
	install -m 0755 $(O)/bin/cordon $(DESTDIR)$(PREFIX)/bin
	install -m 0755 $(filter-out $(O)/bin/cordon,$(wildcard $(O)/bin/*)) $(DESTDIR)$(LIBEXECDIR)
	install -m 0644 $(wildcard userspace/*/*.1) $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 0644 $(wildcard userspace/*/*.8) $(DESTDIR)$(PREFIX)/share/man/man8
	$(O)/bin/cordon config --man > $(DESTDIR)$(PREFIX)/share/man/man5/cordon.conf.5
	install -m 0644 userspace/cli/completion/cordon.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/cordon
golden: all $(PROBES)
	@GOLDEN_WRITE=1 $(PYTHON) tests/run.py --build $(O) $(sort $(wildcard tests/system/test_*golden*))
clean:
	rm -rf $(O)
help:
	@sed -n 's/^\([a-z-]*\):.*/  make \1/p' Makefile

-include $(shell find $(O) \( -name images -o -name run-instance \) -prune -o -type f -name '*.d' -print 2>/dev/null)
