# The front door. Meson does the work; tools/ holds the scripts.
BUILD  ?= build
PREFIX ?= $(shell [ "$$(id -u)" = 0 ] && echo /usr/local || echo $$HOME/.local)
FUZZ_SECONDS ?= 60

.PHONY: all help up check bench lint asan fuzz soak sdk-newest install uninstall clean

all: $(BUILD)/build.ninja # build, and nothing else
	ninja --quiet -C $(BUILD)

$(BUILD)/build.ninja:
	@command -v meson >/dev/null || { echo "meson is missing: 'tools/deps build' installs it" >&2; exit 1; }
	meson setup $(BUILD) --prefix=$(PREFIX)

help: # this list
	@sed -n 's/^\([a-z-]*\):[^#]*# \(.*\)/make \1\t\2/p' Makefile | expand -t 16

up: # packages, build, install, and a hello from a sandbox
	@BUILD=$(BUILD) PREFIX=$(PREFIX) tools/up

check: # everything that must hold; ends with "N passed, N failed, N skipped"
	@tools/deps build run check
	@tools/check

lint: # style, static analysis, layers
	@tools/deps build check
	@tools/lint

asan: # the C suites under the address and undefined-behaviour sanitizers
	@tools/deps build check
	@tools/check asan

sdk-newest: # the E2B clients that are newest in their registries, instead of those that are pinned
	@tools/deps build run check
	@SDK_NEWEST=1 tools/check sdk

fuzz: # FUZZ_SECONDS for each target
	@tools/deps build check
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

bench: all # the table of docs/design/speed.md; ARGS="--quick", "--only run", "--json FILE"
	@tools/deps build run bench
	@BUILD=$(BUILD) bench/run $(ARGS)

soak: # the long runs: another kernel, chaos, load, fuzzing
	@tools/deps build run check soak
	@tools/soak

# A PREFIX that was given counts in a tree that is configured already, too.
install: all # into PREFIX
	$(if $(filter-out file,$(origin PREFIX)),meson configure $(BUILD) -Dprefix=$(PREFIX) && ninja --quiet -C $(BUILD) build.ninja >/dev/null)
	meson install -C $(BUILD) --no-rebuild

uninstall: # remove what the last install put there; templates and settings stay
	@BUILD=$(BUILD) tools/uninstall

clean: # remove every build directory
	rm -rf build build-*
