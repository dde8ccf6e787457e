/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_vendor - vendors' libraries of OpenCL as no driver at hand is: that
 * hang or crash when they are opened, are too old, or show odd devices.
 *
 * The name of the file says which, as "libvendor-hang.so":
 *
 *	hang	opening it never returns
 *	crash	opening it ends the process
 *	old	its platform has OpenCL 1.1
 *	lacks	its table of functions ends too soon
 *	none	it has a platform without devices
 *	cards	two platforms, which show the same two cards by their addresses
 *	twins	three devices of one name, one of them a processor
 *	many	100 devices with long names, without memory
 *	nvidia	a card of NVIDIA's
 *	khr	OpenCL 1.2 that takes SPIR-V by an extension
 *
 * Only what lists devices is here.
 */

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/device/opencl_abi.h"

#define SLOTS        128
#define MOST         100
#define NOT_FOUND    (-1)
#define INVALID      (-30)
#define NVIDIA       0x10de
#define GIBIBYTES(n) (UINT64_C(n) << 30)

struct object {
	void *const *calls;
	uint32_t number;
};

static void *table[SLOTS];
static struct object platforms[2], devices[MOST];

static bool is(const char *what)
{
	Dl_info info = { 0 };
	const char *name;

	if (!dladdr(table, &info) || !info.dli_fname)
		return false;
	name = strrchr(info.dli_fname, '-');
	return name && strncmp(name + 1, what, strlen(what)) == 0 &&
	       name[1 + strlen(what)] == '.';
}

static gm_cl_int answer(const void *from, size_t n, size_t bytes, void *ret,
			size_t *ret_bytes)
{
	if (ret_bytes)
		*ret_bytes = n;
	if (ret && bytes < n)
		return INVALID;
	if (ret)
		memcpy(ret, from, n);
	return GM_CL_SUCCESS;
}

static gm_cl_int answer_text(const char *text, size_t bytes, void *ret,
			     size_t *ret_bytes)
{
	return answer(text, strlen(text) + 1, bytes, ret, ret_bytes);
}

static gm_cl_int platform_info(gm_cl platform, gm_cl_uint what, size_t bytes,
			       void *ret, size_t *ret_bytes)
{
	(void)platform;
	if (what != GM_CL_PLATFORM_VERSION)
		return INVALID;
	return answer_text(is("old")   ? "OpenCL 1.1 of old"
			   : is("khr") ? "OpenCL 1.2 of old"
				       : "OpenCL 3.0 vendor",
			   bytes, ret, ret_bytes);
}

static gm_cl_uint n_devices(void)
{
	if (is("none"))
		return 0;
	if (is("many"))
		return MOST;
	return is("twins") ? 3 : is("nvidia") ? 1 : 2;
}

static gm_cl_int device_ids(gm_cl platform, gm_cl_ulong type, gm_cl_uint room,
			    gm_cl *ret_devices, gm_cl_uint *ret_n)
{
	gm_cl_uint n = n_devices();

	(void)platform;
	(void)type;
	*ret_n = n;
	for (gm_cl_uint i = 0; i < n && i < room; i++)
		ret_devices[i] = (gm_cl)(void *)&devices[i];
	return n ? GM_CL_SUCCESS : NOT_FOUND;
}

static gm_cl_int device_info(gm_cl device, gm_cl_uint what, size_t bytes,
			     void *ret, size_t *ret_bytes)
{
	uint32_t number = ((const struct object *)(const void *)device)->number;
	const struct gm_opencl_pci pci = { .bus = 0x21 + number };
	gm_cl_ulong type = is("twins") && number == 1 ? GM_CL_DEVICE_TYPE_CPU
						      : GM_CL_DEVICE_TYPE_GPU;
	gm_cl_ulong memory = is("many") ? 0 : GIBIBYTES(4);
	gm_cl_uint vendor = is("nvidia") ? NVIDIA : 0x8086;
	const struct object *platform = &platforms[0];
	gm_cl_uint units = 16;
	char name[400];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	switch (what) {
	case GM_CL_DEVICE_TYPE:
		return answer(&type, sizeof(type), bytes, ret, ret_bytes);
	case GM_CL_DEVICE_NAME:
		return answer_text(is("many") ? name : "Vendor's card", bytes,
				   ret, ret_bytes);
	case GM_CL_DEVICE_VENDOR_ID:
		return answer(&vendor, sizeof(vendor), bytes, ret, ret_bytes);
	case GM_CL_DEVICE_MAX_COMPUTE_UNITS:
		return answer(&units, sizeof(units), bytes, ret, ret_bytes);
	case GM_CL_DEVICE_GLOBAL_MEM_SIZE:
		return answer(&memory, sizeof(memory), bytes, ret, ret_bytes);
	case GM_CL_DEVICE_EXTENSIONS:
		return answer_text(is("cards") ? "cl_khr_fp16 "
						 "cl_khr_pci_bus_info"
					       : "cl_khr_fp16",
				   bytes, ret, ret_bytes);
	case GM_CL_DEVICE_IL_VERSION:
		return is("khr") ? answer_text("SPIR-V_1.0 SPIR-V_1.2", bytes,
					       ret, ret_bytes)
				 : INVALID;
	case GM_CL_DEVICE_PLATFORM:
		return answer(&platform, sizeof(platform), bytes, ret,
			      ret_bytes);
	case GM_CL_DEVICE_PCI_BUS_INFO_KHR:
		return answer(&pci, sizeof(pci), bytes, ret, ret_bytes);
	default:
		return INVALID;
	}
}

static gm_cl_int refuse(void)
{
	return INVALID;
}

static gm_cl create_with_il(gm_cl context, const void *module, size_t bytes,
			    gm_cl_int *ret_error)
{
	(void)context;
	(void)module;
	(void)bytes;
	*ret_error = INVALID;
	return NULL;
}

static void *get_address(gm_cl platform, const char *name)
{
	__typeof__(&create_with_il) call = create_with_il;
	void *at;

	(void)platform;
	memcpy(&at, &call, sizeof(at));
	return strcmp(name, "clCreateProgramWithILKHR") == 0 ? at : NULL;
}

#define PUT(slot, function)                                       \
	do {                                                      \
		__typeof__(&(function)) call = (function);        \
		memcpy(&table[slot], &call, sizeof(table[slot])); \
	} while (0)

__attribute__((constructor)) static void begin(void)
{
	while (is("hang"))
		pause();
	if (is("crash"))
		raise(SIGKILL);
	for (int i = 0; i < SLOTS; i++)
		PUT(i, refuse);
	PUT(1, platform_info);
	PUT(2, device_ids);
	PUT(3, device_info);
	PUT(GM_CL_SLOT_GET_ADDRESS, get_address);
	if (is("lacks"))
		memset(&table[4], 0, sizeof(table[4]));
	for (uint32_t i = 0; i < 2; i++)
		platforms[i].calls = table;
	for (uint32_t i = 0; i < MOST; i++)
		devices[i] = (struct object){ table, i };
}

__attribute__((visibility("default"))) gm_cl_int
clIcdGetPlatformIDsKHR(gm_cl_uint room, gm_cl *ret_platforms,
		       gm_cl_uint *ret_n);

gm_cl_int clIcdGetPlatformIDsKHR(gm_cl_uint room, gm_cl *ret_platforms,
				 gm_cl_uint *ret_n)
{
	gm_cl_uint n = is("cards") ? 2 : 1;

	*ret_n = n;
	for (gm_cl_uint i = 0; i < n && i < room; i++)
		ret_platforms[i] = (gm_cl)(void *)&platforms[i];
	return GM_CL_SUCCESS;
}
