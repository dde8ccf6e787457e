/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hip_code: the operators' code objects, as HIP's runtime would read them.
 * Nothing here runs one: no card is at hand.
 */

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cuda/operators.h"
#include "gpumap.h"
#include "tests/support/code_object.h"
#include "tests/support/tap.h"

#ifdef HAVE_HIP_OPERATORS
#include "agent/device/ops_hip_code.h"

/* Floats and doubles are rounded to the nearest, and subnormals are kept. */
#define MODE(word) ((word) >> 12 & 0xff)
#define VERSION_4  2 /* as ELF counts them */
#define EXACT      0xf0u

static struct code_object object;

/* Bytes of each argument, as gpu.h lists them. */
static const char *args_of(uint32_t op, uint32_t dtype)
{
	switch (op) {
	case GM_OPERATOR_SCALE:
	case GM_OPERATOR_AXPY:
		return dtype == GPUMAP_DTYPE_F64 ? "8888" : "8884";
	case GM_OPERATOR_MASK_ADD:
	case GM_OPERATOR_MASK_BOOL:
		return "888888";
	default:
		return "888";
	}
}

static bool is_right(const struct code_kernel *k, uint32_t op, uint32_t dtype)
{
	const char *args = args_of(op, dtype);
	bool is = k->n_args == strlen(args) && !k->is_hidden &&
		  k->stack_bytes == 0 &&
		  k->group == (op >= GM_OPERATOR_SUM ? 32 : 256) &&
		  (k->shared_bytes > 0) == (op >= GM_OPERATOR_SUM) &&
		  MODE(k->mode) == EXACT;

	for (uint32_t i = 0; is && i < k->n_args; i++)
		is = k->sizes[i] == args[i] - '0' && k->offsets[i] == 8 * i;
	return is;
}

static uint32_t count_right(uint32_t op, uint32_t dtype, uint32_t to)
{
	char name[GM_OPERATOR_NAME_BYTES];
	uint32_t n = 0;

	if (gm_operators_name(op, dtype, to, name) < 0)
		return 0;
	for (uint32_t i = 0; i < object.n; i++)
		n += strcmp(object.kernels[i].name, name) == 0 &&
		     is_right(&object.kernels[i], op, dtype);
	if (!n)
		NOTE("%s is not as it should be", name);
	OK(n == 1);
	return n;
}

static void every_operator_is_there(const char *set, const void *image)
{
	char target[64];
	uint32_t n = 0;

	if (!OK(code_object_read(image, &object)))
		return;
	snprintf(target, sizeof(target), "amdgcn-amd-amdhsa--%s", set);
	STR(object.target, target);
	EQ(((const unsigned char *)image)[EI_ABIVERSION], VERSION_4);
	n += count_right(GM_OPERATOR_FILL, GPUMAP_DTYPE_U8, 0);
	for (uint32_t op = GM_OPERATOR_SCALE; op < GM_OPERATORS; op++)
		for (uint32_t dtype = 0; dtype < 32; dtype++)
			if (op != GM_OPERATOR_CAST)
				n += count_right(op, dtype, 0);
	for (uint32_t dtype = 0; dtype < 32; dtype++)
		for (uint32_t to = 0; to < 32; to++)
			n += count_right(GM_OPERATOR_CAST, dtype, to);
	EQ(n, object.n);
}

/* Another reader of the notes. */
static void llvm_reads_it(const char *set, const void *image, size_t bytes)
{
	char path[] = "/tmp/gpumap-code.XXXXXX", command[256], line[64] = "";
	int fd = mkstemp(path);
	FILE *out;

	OK(fd >= 0 && write(fd, image, bytes) == (ssize_t)bytes);
	close(fd);
	snprintf(command, sizeof(command),
		 "for r in llvm-readelf llvm-readelf-14 llvm-readelf-19; do "
		 "command -v $r >/dev/null || continue; "
		 "$r -h -n %s | grep -c -e 'EM_AMDGPU' -e '--%s$' -e "
		 "'^ *\\.symbol: *gm_.*\\.kd'; break; done",
		 path, set);
	out = popen(command, "r");
	if (!out || !fgets(line, sizeof(line), out))
		LACK("hip-operators", 1, "there is no llvm-readelf");
	else
		EQ((uint32_t)atoi(line), object.n + 2);
	if (out)
		pclose(out);
	unlink(path);
}

TAP_CASE()
{
#define CODE(set)                           \
	every_operator_is_there(#set, set); \
	llvm_reads_it(#set, set, sizeof(set));
	CODES
	return tap_done();
}

#else

TAP_CASE()
{
	LACK("hip-operators", 1,
	     "gpumap was built without operators of HIP rows");
	return tap_done();
}

#endif
