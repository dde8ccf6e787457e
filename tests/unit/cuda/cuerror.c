/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* cuerror: what each error of the driver means, and that none is forgotten. */

#include <errno.h>

#include "agent/cuda/cuerror.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* All there are, so that what is not in the list is checked too. */
static void only_these_end_the_process(void)
{
	static const gm_cu_result sticky[] = {
		214, 220, 226, 700, 702, 710, 714, 715,
		716, 717, 718, 719, 721, 810, 911, 999,
	};
	size_t next = 0;
	int wrong = 0;

	for (gm_cu_result r = 0; r < 1100; r++) {
		bool is = next < COUNT(sticky) && sticky[next] == r;

		if ((gm_cuerror_class(r) == GM_CUERROR_STICKY) != is) {
			NOTE("%u is in class %u", r, gm_cuerror_class(r));
			wrong++;
		}
		if (is && gm_cuerror_errno(r) != -EIO)
			wrong++;
		next += is;
	}
	EQ(wrong, 0);
	EQ(next, COUNT(sticky));
}

static void these_may_pass(void)
{
	static const gm_cu_result retry[] = { 2,   46,  802, 803, 804, 805,
					      806, 807, 808, 809, 909 };

	for (size_t i = 0; i < COUNT(retry); i++)
		EQ(gm_cuerror_class(retry[i]), GM_CUERROR_RETRY);
}

static void classes_of_their_own(void)
{
	EQ(gm_cuerror_class(GM_CU_SUCCESS), GM_CUERROR_NONE);
	EQ(gm_cuerror_class(GM_CU_NOT_READY), GM_CUERROR_PENDING);
	EQ(gm_cuerror_class(GM_CU_NO_DEVICE), GM_CUERROR_ABSENT);
	EQ(gm_cuerror_class(GM_CU_INVALID_VALUE), GM_CUERROR_REFUSED);
	EQ(gm_cuerror_class(GM_CU_UNSUPPORTED_PTX_VERSION), GM_CUERROR_REFUSED);
	EQ(gm_cuerror_class(GM_CU_HOST_MEMORY_ALREADY_REGISTERED),
	   GM_CUERROR_REFUSED);
	EQ(gm_cuerror_class(GM_CU_INVALID_CONTEXT), GM_CUERROR_DOUBT);
	/* Numbers of a driver to come. */
	EQ(gm_cuerror_class(917), GM_CUERROR_DOUBT);
	EQ(gm_cuerror_class(123456), GM_CUERROR_DOUBT);
	EQ(gm_cuerror_class((gm_cu_result)-1), GM_CUERROR_DOUBT);
}

static void statuses(void)
{
	EQ(gm_cuerror_errno(GM_CU_SUCCESS), 0);
	EQ(gm_cuerror_errno(GM_CU_NOT_READY), -EAGAIN);
	EQ(gm_cuerror_errno(GM_CU_OUT_OF_MEMORY), -ENOMEM);
	EQ(gm_cuerror_errno(GM_CU_NO_DEVICE), -ENODEV);
	EQ(gm_cuerror_errno(GM_CU_NOT_SUPPORTED), -EOPNOTSUPP);
	EQ(gm_cuerror_errno(GM_CU_INVALID_VALUE), -EINVAL);
	EQ(gm_cuerror_errno(GM_CU_INVALID_PTX), -ENOEXEC);
	EQ(gm_cuerror_errno(GM_CU_NOT_FOUND), -ENOENT);
	EQ(gm_cuerror_errno(GM_CU_NOT_PERMITTED), -EPERM);
	EQ(gm_cuerror_errno(4242), -EIO);
}

static void names(void)
{
	STR(gm_cuerror_name(0), "SUCCESS");
	STR(gm_cuerror_name(1), "INVALID_VALUE");
	STR(gm_cuerror_name(700), "ILLEGAL_ADDRESS");
	STR(gm_cuerror_name(999), "UNKNOWN");
	STR(gm_cuerror_name(10), "unknown error");
	STR(gm_cuerror_name(70000), "unknown error");
}

static void remedies(void)
{
	static const struct {
		gm_cu_result result;
		const char *word;
	} table[] = {
		{ 34, "LD_LIBRARY_PATH" },
		{ 46, "exclusive" },
		{ 100, "/dev/nvidia" },
		{ 209, "compute capability" },
		{ 218, "PTX" },
		{ 221, "ptxjitcompiler" },
		{ 222, "newer driver" },
		{ 223, "CUDA_DISABLE_PTX_JIT" },
		{ 802, "fabricmanager" },
		{ 803, "compat" },
		{ 804, "compat" },
		{ 805, "cuda.mps" },
		{ 999, "nvidia-uvm" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		const char *text = gm_cuerror_remedy(table[i].result);

		if (!OK(text && strstr(text, table[i].word)))
			NOTE("%u: %s", table[i].result, text ? text : "none");
	}
	OK(strstr(gm_cuerror_remedy_hip(101), "/dev/kfd") != NULL);
	OK(strstr(gm_cuerror_remedy_hip(209), "gfx") != NULL);
	STR(gm_cuerror_remedy_hip(802), NULL); /* of CUDA alone */
	STR(gm_cuerror_name(53), "PRIOR_LAUNCH_FAILURE");
	STR(gm_cuerror_remedy(0), NULL);
	STR(gm_cuerror_remedy(700), NULL);
}

TAP_CASE()
{
	only_these_end_the_process();
	these_may_pass();
	classes_of_their_own();
	statuses();
	names();
	remedies();
	return tap_done();
}
