# SPDX-License-Identifier: Apache-2.0
# kernels.mk: compiles the portable kernels, for the Makefile of a plugin. The page portable-kernels.md explains it.
#
#     include $(shell pkg-config --variable=kernelsdir backplane)/kernels.mk
#
# Variables to set before:
#   KERNELS_PLUGIN      name of the plugin, with which the names of its kernel rows begin. Required
#   KERNELS_OUT         directory for objects (kernels)
#   KERNELS_CC          compiler for the chip ($(CC)), and its options:
#   KERNELS_CFLAGS      (-O2, and what lets loops become vectors)
#   KERNELS_TYPES       types to compile (all). With fewer, a call of another type fails: for trials
#   KERNELS_HOST_CC     compiler for the host ($(CC)), and its options:
#   KERNELS_HOST_CFLAGS (-O2)
#   KERNELS_OWN         file with the plugin's own kernel rows: rows.c explains it (none)
# Variables to use after:
#   KERNELS_OBJECTS      for the chip: all kernels, and portable_compute, which runs them
#   KERNELS_HOST_OBJECTS for the host: the kernel rows, portable_rows, and their launch functions
#   KERNELS_INCLUDES     options that find all headers
KERNELS_GOAL := $(.DEFAULT_GOAL)
KERNELS_DIR := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
KERNELS_PLUGIN ?= $(error set KERNELS_PLUGIN, the name of the plugin, before you include kernels.mk)
KERNELS_OUT ?= kernels
KERNELS_CC ?= $(CC)
KERNELS_CFLAGS ?= -O2 -fopenmp-simd -fno-trapping-math -fno-math-errno -ffp-contract=fast
KERNELS_TYPES ?= i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128
KERNELS_HOST_CC ?= $(CC)
KERNELS_HOST_CFLAGS ?= -O2
KERNELS_INCLUDES := -I$(KERNELS_DIR) $(shell pkg-config --cflags backplane)

# A chip may have no position-independent code; the host's objects go into a shared object.
KERNELS_FIXED := -std=c11 -Werror=implicit-function-declaration -MMD -fPIC -fvisibility=hidden
KERNELS_UNITS := $(sort $(foreach type,$(KERNELS_TYPES),$(wildcard $(KERNELS_DIR)/units/*_$(type).c)))
KERNELS_HOST_SOURCES := $(addprefix $(KERNELS_DIR)/dialect/,portable.c rows.c walk_plan.c) \
    $(sort $(wildcard $(KERNELS_DIR)/ops/*/launch*.c))
KERNELS_OBJECTS := $(patsubst $(KERNELS_DIR)/%.c,$(KERNELS_OUT)/%.o,$(KERNELS_UNITS) $(KERNELS_DIR)/dialect/compute.c)
KERNELS_HOST_OBJECTS := $(patsubst $(KERNELS_DIR)/%.c,$(KERNELS_OUT)/%.o,$(KERNELS_HOST_SOURCES))

$(KERNELS_OBJECTS): $(KERNELS_OUT)/%.o: $(KERNELS_DIR)/%.c
	@mkdir -p $(@D)
	@echo $(<:$(KERNELS_DIR)/%=%)
	@$(KERNELS_CC) $(KERNELS_FIXED) $(KERNELS_CFLAGS) $(KERNELS_INCLUDES) -c $< -o $@

$(KERNELS_HOST_OBJECTS): $(KERNELS_OUT)/%.o: $(KERNELS_DIR)/%.c
	@mkdir -p $(@D)
	@echo $(<:$(KERNELS_DIR)/%=%)
	@$(KERNELS_HOST_CC) $(KERNELS_FIXED) $(KERNELS_HOST_CFLAGS) $(KERNELS_INCLUDES) \
	    '-DPORTABLE_PLUGIN="$(KERNELS_PLUGIN)"' $(if $(KERNELS_OWN),'-DPORTABLE_OWN="$(abspath $(KERNELS_OWN))"') -c $< -o $@

-include $(KERNELS_OBJECTS:.o=.d) $(KERNELS_HOST_OBJECTS:.o=.d)

# The rules above do not become the default goal of the Makefile that includes this one.
.DEFAULT_GOAL := $(KERNELS_GOAL)
