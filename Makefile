# Lockstep's one Makefile. `make help` lists what it can do.
#
# Everything is built under $(BUILD). Libraries come from pkg-config. `make test` and `make demo`
# install what is missing first (scripts/setup).

BUILD  ?= build
PREFIX ?= /usr/local
VERSION = $(shell sed -n 's/.*LS__VERSION "\(.*\)"/\1/p' src/base/version.h)
ifeq ($(origin CC),default)
CC     := gcc
endif
# V=1 shows the commands themselves.
Q      := $(if $(V),,@)
# The instruction set to build for. `native` is this machine; for a cluster of mixed machines name
# the oldest one, for example ARCH=x86-64-v3.
ARCH   ?= native

HDF5   := $(firstword $(foreach p,hdf5-openmpi hdf5,$(shell pkg-config --exists $(p) 2>/dev/null && echo $(p))))
MPI    := $(firstword $(foreach p,ompi-c ompi mpi-c mpich,$(shell pkg-config --exists $(p) 2>/dev/null && echo $(p))))
PKGS   := $(MPI) openblas $(HDF5) libxxhash zlib
# oneDNN brings no pkg-config file; it computes with the OpenMP runtime of gcc.
DNNL_LIBS := -ldnnl -lgomp
# -isystem keeps our warnings out of other people's headers.
PKG_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS) 2>/dev/null))
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) $(DNNL_LIBS) -lm -pthread
TEST_LIBS  := $(shell pkg-config --libs cmocka mpfr 2>/dev/null)

WARN := -Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow -Wstrict-prototypes \
        -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual -Wwrite-strings \
        -Wdouble-promotion -Wimplicit-fallthrough
# -ffp-contract=off: a fused multiply-add would change bits from one instruction set to another,
# and break TwoSum. -fno-math-errno and -fno-trapping-math change no value: they let loops with
# square roots and selections be vectorised.
# CFLAGS and LDFLAGS are the user's; what the program needs stands after them.
OPT      ?= -O3
ls_flags := -std=c17 -D_GNU_SOURCE $(OPT) -g -march=$(ARCH) -ffp-contract=off -fno-math-errno \
           -fno-trapping-math $(WARN) $(SANITIZE) -Iinclude -Isrc $(PKG_CFLAGS)

lib_src  := $(filter-out src/cli/%,$(wildcard src/*/*.c))
cli_src  := $(wildcard src/cli/*.c)
sup_src  := $(wildcard tests/support/*.c)
unit_src := $(wildcard tests/unit/*_test.c)
sim_src  := $(wildcard tests/sim/*_test.c)
mpi_src  := $(wildcard tests/mpi/*_test.c)
cli_test_src := $(wildcard tests/cli/*_test.c)
fault_src := $(wildcard tests/fault/*_test.c)
cluster_src := $(wildcard tests/cluster/*_test.c)
test_src := $(unit_src) $(sim_src) $(mpi_src) $(cli_test_src) $(fault_src) $(cluster_src)
fuzz_src := $(wildcard tests/fuzz/*_fuzz.c)
fuzz_sup := $(filter-out $(fuzz_src),$(wildcard tests/fuzz/*.c)) tests/support/test.c

obj  = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
exe  = $(patsubst %.c,$(BUILD)/%,$(1))
all_obj := $(call obj,$(lib_src) $(cli_src) $(sup_src) $(test_src) $(fuzz_src) $(fuzz_sup))

.PHONY: all help setup demo test build-tests run-tests test-peer check check-format check-layers \
        check-static sanitize run-sanitized fuzz run-fuzzers bench bench-peers install \
        uninstall format clean force
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BUILD)/lockstep ## build the lockstep program

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

# Changes whenever the flags do, and with it everything.
flags := $(CC) $(CFLAGS) $(ls_flags) $(LDFLAGS)
$(BUILD)/flags: force
	@mkdir -p $(@D)
	@echo '$(flags)' | cmp -s - $@ || echo '$(flags)' >$@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(ls_flags) $(if $(filter tests/%,$<),-Itests) -MMD -MP -c $< -o $@

$(BUILD)/liblockstep.a: $(call obj,$(lib_src))
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/lockstep: $(call obj,$(cli_src)) $(BUILD)/liblockstep.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

$(BUILD)/tests/%_test: $(BUILD)/obj/tests/%_test.o $(call obj,$(sup_src)) $(BUILD)/liblockstep.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) $^ $(TEST_LIBS) $(PKG_LIBS) -o $@

$(BUILD)/tests/%_fuzz: $(BUILD)/obj/tests/%_fuzz.o $(call obj,$(fuzz_sup)) $(BUILD)/liblockstep.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) -fsanitize=fuzzer $^ $(TEST_LIBS) $(PKG_LIBS) -o $@

setup: ## install the packages that are missing
	scripts/setup

build-tests: $(BUILD)/lockstep $(call exe,$(test_src))

run-tests: build-tests
	LOCKSTEP=$(BUILD)/lockstep scripts/run-tests $(BUILD)

test: setup ## install what is missing, build, pass all tests
	+$(MAKE) run-tests

demo: setup ## the whole path on the King James text, in five minutes
	+$(MAKE) all
	LOCKSTEP=$(BUILD)/lockstep scripts/demo

test-peer: ## compare with PyTorch (installs it)
	scripts/setup peer
	+$(MAKE) all
	/usr/bin/python3 tests/peer/compare_with_pytorch.py $(BUILD)/lockstep

# ---- what `make check` checks ----

sources := $(wildcard src/*/*.[ch] include/lockstep/*.h tests/*/*.[ch])

check: check-format check-layers check-static sanitize ## format, layers, static analysis, sanitizers

check-format:
	@clang-format --dry-run --Werror $(sources)
	shellcheck $(filter-out %.in,$(wildcard scripts/*)) bench/nanogpt bench/fashion-mnist bench/same-bits bench/exact-cost bench/cluster bench/overlap \
	    data/prepare-* .ci/run

check-layers:
	scripts/check-layers

# Another compiler's warnings, then two analysers.
check-static:
	+$(MAKE) CC=clang BUILD=build/clang build-tests
	cppcheck --quiet --error-exitcode=1 --inline-suppr --enable=warning \
	    --suppress=missingIncludeSystem --suppress=invalidFunctionArg --std=c11 -Iinclude -Isrc src
	@clang-tidy --quiet --warnings-as-errors='*' $(lib_src) $(cli_src) -- $(filter-out -W%,$(ls_flags))

# Tests of one process, under the address and undefined-behaviour sanitizers. gcc's warnings about
# truncated formats are false there: it warns about the checks that it inserts.
sanitize: ## the unit and simulation tests under sanitizers
	+$(MAKE) BUILD=build/sanitize SANITIZE="-fsanitize=address,undefined -fno-omit-frame-pointer \
	    -fno-sanitize-recover=undefined -Wno-format-truncation" run-sanitized

run-sanitized: $(call exe,$(unit_src) $(sim_src))
	scripts/run-tests $(BUILD) /unit/ /sim/

# Needs clang. What a fuzzer learns stays in its corpus, build/fuzz/corpus/NAME, for the next time;
# an input that ends it is left in build/fuzz/findings. Loops that count their own coverage are not
# vectorised, of which clang warns.
FUZZ_SECONDS ?= 60

fuzz: ## run each fuzzer for FUZZ_SECONDS (60) each
	+$(MAKE) CC=clang OPT=-O1 BUILD=build/fuzz run-fuzzers \
	    SANITIZE="-fsanitize=fuzzer-no-link,address,undefined \
	    -fno-sanitize-recover=undefined -Wno-pass-failed"

run-fuzzers: $(call exe,$(fuzz_src))
	@mkdir -p $(BUILD)/findings $(patsubst tests/fuzz/%_fuzz.c,$(BUILD)/corpus/%,$(fuzz_src))
	failed=; for name in $(patsubst tests/fuzz/%_fuzz.c,%,$(fuzz_src)); do \
	    $(BUILD)/tests/fuzz/$${name}_fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=30 \
	        -print_final_stats=1 -artifact_prefix=$(BUILD)/findings/$$name- \
	        $(BUILD)/corpus/$$name || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "fuzzers that found something:$$failed"; exit 1; }

# ---- measuring ----

bench: all ## the all-reduce at 2 and 4 ranks, and nanoGPT's recipe
	$(BUILD)/lockstep bench allreduce --ranks 2
	$(BUILD)/lockstep bench allreduce --ranks 4 --max-bytes 16M
	LOCKSTEP=$(BUILD)/lockstep bench/nanogpt

bench-peers: ## speed and memory beside PyTorch, and llm.c with LLMC=DIR (installs PyTorch)
	scripts/setup peer
	+$(MAKE) all
	LOCKSTEP=$(BUILD)/lockstep bench/peers/compare $(if $(LLMC),--llmc "$(LLMC)")

# ---- the rest ----

install: all ## install the program, the library and its headers (PREFIX, DESTDIR)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	    $(DESTDIR)$(PREFIX)/include/lockstep
	install -m 755 $(BUILD)/lockstep $(DESTDIR)$(PREFIX)/bin/lockstep
	install -m 644 $(BUILD)/liblockstep.a $(DESTDIR)$(PREFIX)/lib/liblockstep.a
	install -m 644 include/lockstep/*.h $(DESTDIR)$(PREFIX)/include/lockstep/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@REQUIRES@|$(PKGS)|' \
	    scripts/lockstep.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/lockstep.pc
	chmod 644 $(DESTDIR)$(PREFIX)/lib/pkgconfig/lockstep.pc

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/lockstep $(DESTDIR)$(PREFIX)/lib/liblockstep.a \
	    $(DESTDIR)$(PREFIX)/lib/pkgconfig/lockstep.pc
	rm -f $(patsubst include/%,$(DESTDIR)$(PREFIX)/include/%,$(wildcard include/lockstep/*.h))
	rmdir $(DESTDIR)$(PREFIX)/include/lockstep 2>/dev/null || true

format: ## put the sources into the project's format
	@clang-format -i $(sources)

clean: ## remove everything built
	rm -rf $(BUILD)

-include $(all_obj:.o=.d)
