/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* module - loaded code and its functions, between module.c and launch.c. */
#ifndef FAKE_MODULE_H
#define FAKE_MODULE_H

#include "tests/fake/code.h"

struct fake_function {
	uint64_t handle;
	struct fake_function *next;
	struct fake_module *module;
	const struct fake_entry *entry;
	const struct fake_kernel *kernel;
};

struct fake_module {
	uint64_t handle;
	struct fake_module *next;
	struct fake_context *ctx; /* NULL: a library */
	struct fake_code code;
	struct fake_function *functions;
};

#endif
