/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_module: which kernels of SPIR-V modules have the arguments of a
 * program.  A library would take a client's numbers for pointers of its own.
 * And which versions a device takes that has them by an extension.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/device/opencl.h"
#include "agent/device/spirv.h"
#include "tests/support/spirv_kernel.h"
#include "tests/support/tap.h"

/* As is, in memory of its own, so that a sanitizer sees where it ends. */
static int try(const uint32_t *words, size_t n, const char *kernel,
	       char ret_why[GM_BUILD_LOG])
{
	uint32_t *copy = malloc(n * sizeof(*words));
	const struct gm_kernel_image image = { copy, n * sizeof(*words),
					       kernel };
	int rc;

	memcpy(copy, words, n * sizeof(*words));
	ret_why[0] = '\0';
	OK(gm_spirv_check(copy, image.n) == NULL);
	rc = gm_opencl_module(&image, ret_why);
	free(copy);
	return rc;
}

static void the_form_is_taken(void)
{
	uint32_t words[SPIRV_KERNEL_WORDS];
	size_t n = spirv_kernel(words);
	char why[GM_BUILD_LOG];

	EQ(try(words, n, "square", why), 0);
	EQ(try(words, n, "squar", why), -ENOENT);
	OK(strstr(why, "no kernel squar"));
	EQ(try(words, n, "squares", why), -ENOENT);
	/* The last argument may be missing: it is made a no-operation. */
	spirv_find(words, n, GM_SPIRV_FUNCTION_PARAMETER, 2, 22)[0] = 3u << 16;
	EQ(try(words, n, "square", why), 0);
	spirv_find(words, n, GM_SPIRV_FUNCTION_PARAMETER, 2, 21)[0] = 3u << 16;
	EQ(try(words, n, "square", why), -ENOEXEC);
	OK(strstr(why, "argument 5 of kernel square"));
}

static void others_are_refused(void)
{
	static const struct {
		uint32_t op, at, value; /* of the instruction */
		uint32_t word, is;      /* that is another */
		const char *why;
	} odd[] = {
		/* pointers to local memory, or to an image */
		{ GM_SPIRV_TYPE_POINTER, 1, 9, 2, 4, "argument 1" },
		{ GM_SPIRV_TYPE_POINTER, 1, 9, 0, 4u << 16 | 25, "argument 1" },
		{ GM_SPIRV_FUNCTION_PARAMETER, 2, 17, 1, 4, "argument 1" },
		/* numbers of 32 bits, and none */
		{ GM_SPIRV_TYPE_INT, 1, 4, 2, 32, "argument 2" },
		{ GM_SPIRV_FUNCTION_PARAMETER, 2, 18, 1, 5, "argument 2" },
		{ GM_SPIRV_FUNCTION_PARAMETER, 2, 18, 1, 9, "argument 2" },
		{ GM_SPIRV_FUNCTION_PARAMETER, 2, 19, 1, 12, "argument 3" },
		{ GM_SPIRV_FUNCTION_PARAMETER, 2, 20, 1, 4000, "argument 4" },
		/* no struct, and none by value */
		{ GM_SPIRV_FUNCTION_PARAMETER, 2, 22, 1, 13, "argument 6" },
		{ GM_SPIRV_FUNCTION_PARAMETER, 2, 22, 1, 9, "argument 6" },
		{ GM_SPIRV_DECORATE, 1, 22, 3, 5, "argument 6" },
		/* numbers that are made twice, or too large */
		{ GM_SPIRV_TYPE_INT, 1, 3, 1, 4, "argument 1" },
		{ GM_SPIRV_TYPE_INT, 1, 3, 1, UINT32_MAX, "argument 1" },
		/* for another model, and a kernel without its function */
		{ GM_SPIRV_ENTRY_POINT, 2, 1, 1, 5, "no kernel" },
		{ GM_SPIRV_FUNCTION, 2, 1, 2, 14, "argument 1" },
	};
	uint32_t words[SPIRV_KERNEL_WORDS], *at;
	char why[GM_BUILD_LOG];

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		size_t n = spirv_kernel(words);

		at = spirv_find(words, n, odd[i].op, odd[i].at, odd[i].value);
		if (!OK(at))
			continue;
		at[odd[i].word] = odd[i].is;
		OK(try(words, n, "square", why) < 0);
		if (!OK(strstr(why, odd[i].why)))
			NOTE("%zu: %s", i, why);
	}
}

/* Behind the six of the form. */
static void a_seventh_argument_is_refused(void)
{
	uint32_t words[SPIRV_KERNEL_WORDS + 3], *at;
	size_t n = spirv_kernel(words), before;
	char why[GM_BUILD_LOG];

	at = spirv_find(words, n, GM_SPIRV_FUNCTION_PARAMETER, 2, 22);
	before = (size_t)(at - words);
	memmove(at + 3, at, (n - before) * sizeof(*at));
	EQ(try(words, n + 3, "square", why), -ENOEXEC);
	OK(strstr(why, "argument 7"));
}

static void versions_are_looked_at(void)
{
	const char *build = getenv("abs_top_builddir");
	char folder[] = "/tmp/gpumap-test-module.XXXXXX";
	const struct gm_opencl_calls *calls;
	char vendor[512], library[64], why[GM_GPU_WHY_BYTES] = "";
	gm_cl device;

	snprintf(vendor, sizeof(vendor), "%s/tests/fake/.libs/libvendor.so",
		 build ? build : ".");
	if (!OK(mkdtemp(folder)))
		return;
	snprintf(library, sizeof(library), "%s/libvendor-khr.so", folder);
	EQ(symlink(vendor, library), 0);
	if (EQ(gm_opencl_library(library, NULL, &calls, &device, why), 0)) {
		OK(gm_opencl_il(device, 0x00010000, why));
		OK(gm_opencl_il(device, 0x00010100, why));
		OK(gm_opencl_il(device, 0x00010200, why));
		OK(!gm_opencl_il(device, 0x00010300, why));
		STR(why, "the program is of SPIR-V 1.3, and this row takes "
			 "OpenCL C and SPIR-V_1.0 SPIR-V_1.2");
		OK(!gm_opencl_il(device, 0x00020000, why));
	}
	unlink(library);
	rmdir(folder);
}

TAP_CASE()
{
	versions_are_looked_at();
	the_form_is_taken();
	others_are_refused();
	a_seventh_argument_is_refused();
	return tap_done();
}
