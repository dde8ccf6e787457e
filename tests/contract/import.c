/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/cuda.h against a driver: memory that another process has exported is
 * brought into a context, used, and outlives its owner; devices and rows find
 * each other by UUID.
 *
 * The owner is this program once more, as a worker would be: it makes
 * exportable memory as the driver's documentation says, and no session is
 * needed.
 */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"
#include "tests/contract/public_cuda.h"
#include "tests/contract/send_fd.h"
#include "tests/support/segment_file.h"

#define PATTERN 0x5eed1234u
#define BYTES   (3u << 20) /* not a whole number of granules everywhere */

/* ---- the owner ----------------------------------------------------------- */

/* Sends a descriptor of memory full of PATTERN, then waits to be killed. */
static int own(int socket)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop;
	CUmemAccessDesc access;
	CUcontext context;
	CUdeviceptr at = 0;
	size_t granule = 0, bytes;
	char order;
	int fd = -1;

	memset(&prop, 0, sizeof(prop));
	memset(&access, 0, sizeof(access));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if (cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) ||
	    cu.cuCtxSetCurrent(context) ||
	    cu.cuMemGetAllocationGranularity(&granule, &prop,
					     CU_MEM_ALLOC_GRANULARITY_MINIMUM))
		return 2;
	bytes = (BYTES + granule - 1) / granule * granule;
	if (cu.cuMemCreate(&handle, bytes, &prop, 0) ||
	    cu.cuMemAddressReserve(&at, bytes, 0, 0, 0) ||
	    cu.cuMemMap(at, bytes, 0, handle, 0) ||
	    cu.cuMemSetAccess(at, bytes, &access, 1) ||
	    cu.cuMemsetD32_v2(at, PATTERN, bytes / 4) ||
	    cu.cuCtxSynchronize() ||
	    cu.cuMemExportToShareableHandle(
		    &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ||
	    !send_fd(socket, fd))
		return 3;
	while (read(socket, &order, 1) > 0)
		continue;
	return 0;
}

/* This program once more, with a socket; @card is all that it sees, NULL: as
 * many cards as here. */
static pid_t start_part(const char *part, const char *card, int *ret_socket)
{
	char text[16];
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -1;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		if (card)
			setenv("CUDA_VISIBLE_DEVICES", card, 1);
		snprintf(text, sizeof(text), "%d", pair[1]);
		execl("/proc/self/exe", "import", part, text, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	*ret_socket = pair[0];
	return pid;
}

static pid_t start_owner_on(const char *card, int *ret_fd)
{
	int socket = -1;
	pid_t pid = start_part("own", card, &socket);

	/* Its end stays open, and the owner with it, until it is killed. */
	*ret_fd = pid > 0 ? receive_fd(socket) : -1;
	return pid;
}

static pid_t start_owner(int *ret_fd)
{
	return start_owner_on(NULL, ret_fd);
}

/* Receives a descriptor and imports what it stands for.  Returns 0, or the
 * number of what failed. */
static int take(int socket)
{
	struct gpumap_export_info info = { .size = sizeof(info),
					   .bytes = BYTES };
	struct gpumap_cuda_memory memory;
	CUcontext context;
	CUresult result;
	int fd = receive_fd(socket);

	if (fd < 0 || cu.cuInit(0) ||
	    cu.cuDevicePrimaryCtxRetain(&context, 0) ||
	    cu.cuCtxSetCurrent(context))
		return 2;
	result = gpumap_cuda_import(fd, &info, 0, &memory);
	close(fd);
	if (result == CUDA_SUCCESS)
		result = gpumap_cuda_release(&memory);
	if (cu.cuCtxSetCurrent(NULL) || cu.cuDevicePrimaryCtxRelease_v2(0))
		return 3;
	return result == CUDA_SUCCESS ? 0 : 4;
}

/* ---- memory -------------------------------------------------------------- */

static size_t free_bytes(void)
{
	size_t bytes = 0, total = 0;

	cu.cuMemGetInfo_v2(&bytes, &total);
	return bytes;
}

static uint32_t word_at(CUdeviceptr at)
{
	uint32_t word = 0;

	GOOD(cu.cuMemcpyDtoH_v2(&word, at, sizeof(word)));
	return word;
}

static void an_import_is_the_memory_itself(void)
{
	struct gpumap_export_info info = { .size = sizeof(info),
					   .bytes = BYTES };
	struct gpumap_cuda_memory memory, twice;
	int fd = -1;
	pid_t owner = start_owner(&fd);

	if (!OK(owner > 0 && fd >= 0))
		return;
	memset(&memory, 0, sizeof(memory));
	GOOD(gpumap_cuda_release(&memory)); /* nothing */
	EQ(gpumap_cuda_import(fd, &info, GPUMAP_BUFFER_EXPORTABLE, &memory),
	   CUDA_ERROR_INVALID_VALUE);
	GOOD(gpumap_cuda_import(fd, &info, 0, &memory));
	EQ(memory.bytes, BYTES);
	OK(memory.mapped >= BYTES && memory.mapped % 4096 == 0);
	EQ(word_at(memory.address), PATTERN);
	EQ(word_at(memory.address + BYTES - 4), PATTERN);
	/* Twice in one process, as two mappings of one memory. */
	GOOD(gpumap_cuda_import(fd, &info, 0, &twice));
	OK(twice.address != memory.address);
	GOOD(cu.cuMemsetD32_v2(memory.address, 7, BYTES / 4));
	GOOD(cu.cuCtxSynchronize());
	EQ(word_at(twice.address), 7);
	close(fd);
	GOOD(gpumap_cuda_release(&twice));
	EQ(twice.mapped, 0);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	EQ(word_at(memory.address + BYTES - 4), 7);
	GOOD(gpumap_cuda_release(&memory));
	GOOD(gpumap_cuda_release(&memory)); /* no more */
}

static void a_reader_asks_to_read(void)
{
	struct gpumap_export_info info = { .size = sizeof(info),
					   .bytes = BYTES };
	struct gpumap_cuda_memory memory;
	CUmemLocation here;
	unsigned long long flags = 99;
	int fd = -1;
	pid_t owner = start_owner(&fd);

	memset(&here, 0, sizeof(here));
	here.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (!OK(owner > 0 && fd >= 0))
		return;
	GOOD(gpumap_cuda_import(fd, &info, GPUMAP_BUFFER_READ_ONLY, &memory));
	GOOD(cu.cuMemGetAccess(&flags, &here, memory.address));
	EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
	EQ(word_at(memory.address), PATTERN);
	GOOD(gpumap_cuda_release(&memory));
	close(fd);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
}

static void what_fails_leaves_nothing(void)
{
	struct gpumap_export_info info = { .size = sizeof(info),
					   .bytes = BYTES };
	struct gpumap_cuda_memory memory;
	size_t before;
	int fd = -1;
	pid_t owner = start_owner(&fd);

	memset(&memory, 0x55, sizeof(memory));
	if (!OK(owner > 0 && fd >= 0))
		return;
	before = free_bytes();
	OK(gpumap_cuda_import(-1, &info, 0, &memory) != CUDA_SUCCESS);
	info.bytes = 0;
	EQ(gpumap_cuda_import(fd, &info, 0, &memory), CUDA_ERROR_INVALID_VALUE);
	/* More than there is: the mapping fails, after the import. */
	info.bytes = UINT64_C(16) * BYTES;
	OK(gpumap_cuda_import(fd, &info, 0, &memory) != CUDA_SUCCESS);
	EQ(memory.mapped, (size_t)0x5555555555555555);
	PRESUME(free_bytes() == before);
	close(fd);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
}

/* The importer sees its own card alone, and has no number for the other. */
static void the_memory_may_be_of_a_hidden_card(void)
{
	char here[CONTRACT_NAME_BYTES], there[CONTRACT_NAME_BYTES];
	int fd = -1, socket = -1, can = 0, status = -1;
	pid_t owner, taker;

	if (cu.cuDeviceCanAccessPeer(&can, 0, 1) != CUDA_SUCCESS || !can) {
		SKIP(1, "no two cards with a way to each other");
		return;
	}
	contract_name(0, here);
	contract_name(1, there);
	owner = start_owner_on(there, &fd);
	if (!OK(owner > 0 && fd >= 0))
		return;
	taker = start_part("take", here, &socket);
	OK(taker > 0 && send_fd(socket, fd));
	waitpid(taker, &status, 0);
	EQ(status, 0);
	close(fd);
	close(socket);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
}

/* ---- rows ---------------------------------------------------------------- */

/* A device table in which row 3 is device 0, and the rows below are others. */
static void rows_and_devices_are_one(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .runtime_dir = "/nonexistent" };
	uint64_t words[sizeof(struct gm_row_image) / 8] = { 0 };
	struct gm_row_image image = { .row = 3, .kind = GPUMAP_DEVICE_CUDA };
	struct segment_file file;
	struct gpumap *map = NULL;
	CUdevice device = -1;
	CUuuid uuid;

	if (segment_file_make("import", &file) != 0) {
		SKIP(1, "no segment in /dev/shm");
		return;
	}
	for (uint32_t row = 0; row < 4; row++)
		segment_row(&file.segment, row, "a host");
	GOOD(cu.cuDeviceGetUuid_v2(&uuid, 0));
	memcpy(image.uuid, &uuid, sizeof(image.uuid));
	image.object.kind = GM_KIND_ROW;
	image.object.version = 2; /* segment_row() has published it once */
	image.object.bytes = (sizeof(image) + GM_UNIT - 1) / GM_UNIT * GM_UNIT;
	image.object.image_bytes = sizeof(image);
	memcpy(image.object.name, "a card", sizeof("a card"));
	memcpy(words, &image, sizeof(image));
	segment_publish(&file.segment, &file.segment.map.rows[3].facts, words,
			sizeof(image));
	opts.instance = file.instance;
	if (EQ(gpumap_attach(&opts, &map), 0)) {
		EQ(gpumap_cuda_row(map, 0), 3);
		EQ(gpumap_cuda_row(map, 9999), -ENODEV);
		EQ(gpumap_cuda_device(map, 0, &device), -ENODEV);
		EQ(gpumap_cuda_device(map, 77, &device), -ENODEV);
		EQ(device, -1);
		EQ(gpumap_cuda_device(map, 3, &device), 0);
		EQ(device, 0);
	}
	gpumap_detach(map);
	segment_file_remove(&file);
}

TAP_CASE_ARGS(argc, argv)
{
	int can = 0;

	if (argc == 3 && strcmp(argv[1], "own") == 0)
		return contract_load(argv) ? 1 : own(atoi(argv[2]));
	if (argc == 3 && strcmp(argv[1], "take") == 0)
		return contract_load(argv) ? 1 : take(atoi(argv[2]));
	if (!contract_begin_devices(argv, 1) || !contract_context())
		return tap_done();
	cu.cuDeviceGetAttribute(
		&can,
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		0);
	if (can) {
		an_import_is_the_memory_itself();
		a_reader_asks_to_read();
		what_fails_leaves_nothing();
		the_memory_may_be_of_a_hidden_card();
	} else {
		SKIP(1, "no memory by handles on this device");
	}
	rows_and_devices_are_one();
	contract_end_context();
	return tap_done();
}
