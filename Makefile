# make         build the command           make demo   build it and show what it does
# make test    every check this machine can run        make install PREFIX=/usr/local
# make test-all   the same, and all of it, not a sample (half an hour and more)
#
# make wheel   the package of Python, as it is given out: build-package/flashtl-....whl
#
# CMake and Ninja do the work; what they need is installed by tools/setup.sh where it is missing.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
BUILD ?= build

.PHONY: all setup demo test test-all wheel install clean

all: setup
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DFLASHTL_TESTS=OFF
	ninja -C $(BUILD) -j $(JOBS)

setup:
	@tools/setup.sh

demo: all
	$(BUILD)/flashtl demo

test:
	@tools/setup.sh --tests
	@tools/test.sh

test-all:
	@tools/setup.sh --tests
	@tools/test.sh --all

wheel: setup
	@python3 tools/wheel.py

install: all
	cmake --install $(BUILD)

clean:
	rm -rf build build-*
