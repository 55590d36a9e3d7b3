# Lockstep's one Makefile. `make help` lists what it can do.
#
# Everything is built under $(BUILD). Libraries come from pkg-config. `make test` and `make demo`
# install what is missing first (scripts/setup).

BUILD  ?= build
PREFIX ?= /usr/local
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
PKGS   := $(MPI) openblas $(HDF5) libxxhash zlib inih
# -isystem keeps our warnings out of other people's headers.
PKG_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS) 2>/dev/null))
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread
TEST_LIBS  := $(shell pkg-config --libs cmocka mpfr 2>/dev/null)

WARN := -Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow -Wstrict-prototypes \
        -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual -Wwrite-strings \
        -Wdouble-promotion -Wimplicit-fallthrough
# -ffp-contract=off: a fused multiply-add would change bits from one instruction set to another,
# and break TwoSum. -fno-math-errno and -fno-trapping-math change no value: they let loops with
# square roots and selections be vectorised.
OPT     ?= -O3
CFLAGS  += -std=c17 -D_GNU_SOURCE $(OPT) -g -march=$(ARCH) -ffp-contract=off -fno-math-errno \
           -fno-trapping-math $(WARN) $(SANITIZE) -Iinclude -Isrc $(PKG_CFLAGS)
LDFLAGS += $(SANITIZE)

lib_src  := $(filter-out src/cli/%,$(wildcard src/*/*.c))
cli_src  := $(wildcard src/cli/*.c)
sup_src  := $(wildcard tests/support/*.c)
unit_src := $(wildcard tests/unit/*_test.c)
sim_src  := $(wildcard tests/sim/*_test.c)
mpi_src  := $(wildcard tests/mpi/*_test.c)
cli_test_src := $(wildcard tests/cli/*_test.c)
test_src := $(unit_src) $(sim_src) $(mpi_src) $(cli_test_src)

obj  = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
exe  = $(patsubst %.c,$(BUILD)/%,$(1))
all_obj := $(call obj,$(lib_src) $(cli_src) $(sup_src) $(test_src))

.PHONY: all help setup demo test build-tests run-tests test-peer check check-format check-layers \
        check-static sanitize bench bench-peers install uninstall format clean
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BUILD)/lockstep ## build the lockstep program

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS) $(if $(filter tests/%,$<),-Itests) -MMD -MP -c $< -o $@

$(BUILD)/liblockstep.a: $(call obj,$(lib_src))
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/lockstep: $(call obj,$(cli_src)) $(BUILD)/liblockstep.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

$(BUILD)/tests/%_test: $(BUILD)/obj/tests/%_test.o $(call obj,$(sup_src)) $(BUILD)/liblockstep.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) $^ $(TEST_LIBS) $(PKG_LIBS) -o $@

setup: ## install the packages that are missing
	scripts/setup

build-tests: $(BUILD)/lockstep $(call exe,$(test_src))

run-tests: build-tests
	LOCKSTEP=$(BUILD)/lockstep scripts/run-tests $(BUILD)

test: setup ## install what is missing, build, pass all tests
	+$(MAKE) run-tests

clean: ## remove everything built
	rm -rf build

-include $(all_obj:.o=.d)
