/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* image: device code, whole and cut off, and what is none; and that the device
 * code of the tests is some. */

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/worker/programs/code_validate.h"
#include "gpumap.h"
#include "gpumap/program.h"
#include "tests/support/program_kernels.h"
#include "tests/support/ptx.h"
#include "tests/support/tap.h"

static bool is_good_for(uint32_t kind, const void *bytes, size_t n)
{
	char *copy = malloc(n + 1); /* so that a sanitizer sees where it ends */
	const char *why;

	memcpy(copy, bytes, n);
	copy[n] = '\0';
	why = gm_code_check(kind, copy, n);
	free(copy);
	return !why;
}

static bool is_good(const void *bytes, size_t n)
{
	return is_good_for(GPUMAP_DEVICE_CUDA, bytes, n);
}

static void text_is_ptx(void)
{
	static const char ptx[] = KERNEL_ALL, other[] = "#!/bin/sh\n";

	OK(is_good(ptx, sizeof(ptx) - 1));
	OK(is_good(ptx, sizeof(ptx))); /* with the NUL */
	OK(!is_good(other, sizeof(other) - 1));
	OK(!is_good("", 0));
	OK(!is_good("\0\0\0", 3));
	OK(!is_good("x\0.version", 10));
	OK(!is_good("\177EL", 3));
}

static void text_is_opencl(void)
{
	static const char text[] = "__kernel void one(void) { }";

	OK(is_good_for(GPUMAP_DEVICE_OPENCL, text, sizeof(text) - 1));
	OK(is_good_for(GPUMAP_DEVICE_OPENCL, text, sizeof(text)));
	OK(!is_good_for(GPUMAP_DEVICE_OPENCL, "x\0y", 3));
	OK(!is_good(text, sizeof(text)));
}

static void modules_are_whole(void)
{
	/* The head, an instruction of three words, the end of a function. */
	uint32_t module[] = { 0x07230203, 0x10500, 0,
			      8,          0,       3u << 16 | 17,
			      1,          2,       1u << 16 | 56 };

	for (uint32_t kind = GPUMAP_DEVICE_OPENCL; kind <= GPUMAP_DEVICE_VULKAN;
	     kind++) {
		OK(is_good_for(kind, module, sizeof(module)));
		for (size_t n = 4; n < sizeof(module); n++)
			OK(!is_good_for(kind, module, n));
	}
	OK(!is_good_for(GPUMAP_DEVICE_VULKAN, module, 3));
	OK(!is_good_for(GPUMAP_DEVICE_VULKAN, "", 0));
	OK(!is_good(module, sizeof(module)));
	module[5] = 17;
	OK(!is_good_for(GPUMAP_DEVICE_VULKAN, module, sizeof(module)));
	module[5] = 1u << 16 | 17; /* without its capability */
	OK(!is_good_for(GPUMAP_DEVICE_VULKAN, module, sizeof(module)));
	module[5] = 5u << 16 | 17;
	OK(!is_good_for(GPUMAP_DEVICE_VULKAN, module, sizeof(module)));
}

static void cubins_are_whole(void)
{
	Elf64_Ehdr head = { .e_phoff = sizeof(head),
			    .e_phnum = 2,
			    .e_phentsize = 56,
			    .e_shoff = 512,
			    .e_shnum = 8,
			    .e_shentsize = 64 };
	char file[1024] = "";

	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(file, &head, sizeof(head));
	OK(is_good(file, 1024));
	OK(!is_good(file, 1023));
	OK(!is_good(file, sizeof(head) - 1));
	OK(!is_good(file, 4));
	head.e_shnum = 0;
	memcpy(file, &head, sizeof(head));
	OK(is_good(file, 512));
	OK(!is_good(file, sizeof(head) + 111));
	head.e_phoff = UINT64_MAX - 8; /* that wraps */
	memcpy(file, &head, sizeof(head));
	OK(!is_good(file, 1024));
	head.e_phoff = sizeof(head);
	head.e_ident[EI_CLASS] = ELFCLASS32;
	memcpy(file, &head, sizeof(head));
	OK(!is_good(file, 1024));
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2MSB;
	memcpy(file, &head, sizeof(head));
	OK(!is_good(file, 1024));
}

static void code_objects_are_amds(void)
{
	Elf64_Ehdr head = { .e_phoff = sizeof(head),
			    .e_phnum = 2,
			    .e_phentsize = 56,
			    .e_machine = 224 };
	char file[256] = "";

	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(file, &head, sizeof(head));
	OK(is_good_for(GPUMAP_DEVICE_HIP, file, 256));
	OK(!is_good_for(GPUMAP_DEVICE_HIP, file, sizeof(head) + 111));
	OK(!is_good_for(GPUMAP_DEVICE_HIP, file, 3));
	OK(!is_good_for(GPUMAP_DEVICE_HIP, KERNEL_ALL, sizeof(KERNEL_ALL)));
	head.e_machine = 190; /* NVIDIA's */
	memcpy(file, &head, sizeof(head));
	OK(!is_good_for(GPUMAP_DEVICE_HIP, file, 256));
}

static void set_fatbin(char *file, uint16_t head_bytes, uint64_t bytes)
{
	memcpy(file, "\x50\xed\x55\xba\1", 6);
	memcpy(file + 6, &head_bytes, 2);
	memcpy(file + 8, &bytes, 8);
}

static void fatbins_are_whole(void)
{
	char file[256] = "";

	set_fatbin(file, 16, 240);
	OK(is_good(file, 256));
	OK(!is_good(file, 255));
	OK(!is_good(file, 15));
	OK(!is_good(file, 4));
	set_fatbin(file, 15, 16);
	OK(!is_good(file, 256));
	set_fatbin(file, 16, UINT64_MAX - 8);
	OK(!is_good(file, 256));
}

/* The C that the stand-in runs in the place of it is no proof of the text. */
static void the_tests_code_does_what_it_says(void)
{
	static const char text[] = KERNEL_ALL;
	float src[1000], dst[1001], alpha = 3;
	uint32_t alpha_bits, wrong = 0;
	char why[PTX_WHY_BYTES] = "";

	memcpy(&alpha_bits, &alpha, sizeof(alpha));
	for (uint32_t i = 0; i < 1000; i++)
		src[i] = (float)i;
	dst[1000] = -1;
	for (uint32_t blocks = 1; blocks < 6; blocks += 4) {
		const uint64_t params[] = { (uintptr_t)dst, (uintptr_t)src,
					    1000, alpha_bits };
		const struct ptx_span spans[] = {
			{ dst, sizeof(dst), true },
			{ src, sizeof(src), false },
		};
		const struct ptx_launch launch = {
			.text = text,
			.kernel = "gpumap_program",
			.params = params,
			.n_params = 4,
			.blocks = blocks,
			.threads = GPUMAP_KERNEL_THREADS,
			.spans = spans,
			.n_spans = 2,
		};

		memset(dst, 0, 4000);
		if (!EQ(ptx_run(&launch, why), 0))
			printf("# %s\n", why);
		for (uint32_t i = 0; i < 1000; i++)
			wrong += dst[i] != 3 * src[i] * src[i];
	}
	EQ(wrong, 0);
	OK(dst[1000] == -1);
}

static void the_tests_code_assembles(void)
{
	static const char text[] = KERNEL_ALL;
	char path[] = "/tmp/gpumap-ptx.XXXXXX", command[128];
	const char *ptxas = "/usr/local/cuda/bin/ptxas";
	int fd;

	if (system("command -v ptxas >/dev/null 2>&1") == 0)
		ptxas = "ptxas";
	else if (access(ptxas, X_OK) != 0) {
		SKIP(1, "no ptxas here");
		return;
	}
	fd = mkstemp(path);
	if (fd < 0 || write(fd, text, sizeof(text) - 1) != sizeof(text) - 1)
		exit(99);
	close(fd);
	snprintf(command, sizeof(command), "%s -arch=sm_80 -o /dev/null %s",
		 ptxas, path);
	EQ(system(command), 0);
	unlink(path);
}

TAP_CASE()
{
	text_is_ptx();
	text_is_opencl();
	modules_are_whole();
	cubins_are_whole();
	code_objects_are_amds();
	fatbins_are_whole();
	the_tests_code_does_what_it_says();
	the_tests_code_assembles();
	return tap_done();
}
