/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/programs/code_validate.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/device/spirv.h"
#include "gpumap.h"

/* First word of a fatbin. */
#define FATBIN_MAGIC UINT32_C(0xba55ed50)
#ifndef EM_AMDGPU
#define EM_AMDGPU 224
#endif

struct fatbin {
	uint32_t magic;
	uint16_t version;
	uint16_t head_bytes;
	uint64_t bytes; /* after the header */
};

_Static_assert(sizeof(struct fatbin) == 16, "as in the file");

static bool inside(uint64_t at, uint64_t bytes, size_t n)
{
	return bytes <= n && at <= n - bytes;
}

static const char *check_elf(const void *bytes, size_t n)
{
	Elf64_Ehdr head;

	if (n < sizeof(head))
		return "the ELF file is cut off";
	memcpy(&head, bytes, sizeof(head));
	if (head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_ident[EI_DATA] != ELFDATA2LSB)
		return "it is an ELF file of another kind";
	if (!inside(head.e_phoff, (uint64_t)head.e_phnum * head.e_phentsize,
		    n) ||
	    !inside(head.e_shoff, (uint64_t)head.e_shnum * head.e_shentsize, n))
		return "the ELF file is cut off";
	return NULL;
}

static const char *check_code_object(const void *bytes, size_t n)
{
	const char *why;
	Elf64_Ehdr head;

	if (n < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG) != 0)
		return "it is no code object: a HIP row takes a program as an "
		       "ELF file of AMD's";
	why = check_elf(bytes, n);
	if (why)
		return why;
	memcpy(&head, bytes, sizeof(head));
	return head.e_machine == EM_AMDGPU
		       ? NULL
		       : "it is no code object: an ELF file of another machine";
}

static const char *check_fatbin(const void *bytes, size_t n)
{
	struct fatbin head;

	if (n < sizeof(head))
		return "the fatbin is cut off";
	memcpy(&head, bytes, sizeof(head));
	if (head.head_bytes < sizeof(head) ||
	    !inside(head.head_bytes, head.bytes, n))
		return "the fatbin is cut off";
	return NULL;
}

/* Some tools include the NUL in the size. */
static bool is_text(const void *bytes, size_t n)
{
	while (n > 0 && ((const char *)bytes)[n - 1] == '\0')
		n--;
	return strlen(bytes) == n;
}

const char *gm_code_check(uint32_t kind, const void *bytes, size_t n)
{
	static const uint32_t fatbin = FATBIN_MAGIC;

	if ((kind == GPUMAP_DEVICE_OPENCL || kind == GPUMAP_DEVICE_VULKAN) &&
	    gm_spirv_is(bytes, n))
		return gm_spirv_check(bytes, n);
	if (kind == GPUMAP_DEVICE_OPENCL)
		return is_text(bytes, n) ? NULL
					 : "it is neither a text of OpenCL C, "
					   "nor a module of SPIR-V";
	if (kind == GPUMAP_DEVICE_VULKAN)
		return "it is no SPIR-V: a Vulkan row takes a program as a "
		       "module of SPIR-V";
	if (kind == GPUMAP_DEVICE_HIP)
		return check_code_object(bytes, n);
	if (n >= sizeof(fatbin) && memcmp(bytes, ELFMAG, SELFMAG) == 0)
		return check_elf(bytes, n);
	if (n >= sizeof(fatbin) && memcmp(bytes, &fatbin, sizeof(fatbin)) == 0)
		return check_fatbin(bytes, n);
	if (!is_text(bytes, n) || !strstr(bytes, ".version"))
		return "it is neither PTX, nor a cubin, nor a fatbin";
	return NULL;
}
