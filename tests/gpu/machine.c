/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The first print of a machine with a card: everything that the others' results
 * have to be read by.  Checks little, tells much.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "tests/gpu/gpu.h"
#include "tests/support/nvml_abi.h"

#define ATTRIBUTES_MAX 200

/* Text as JSON may have it: what would need an escape becomes a blank. */
static const char *plain(char *text)
{
	for (char *at = text; *at; at++)
		if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
			*at = ' ';
	for (size_t n = strlen(text); n && text[n - 1] == ' ';)
		text[--n] = '\0';
	return text;
}

static const char *read_line(const char *path, char *text, size_t bytes)
{
	FILE *file = fopen(path, "re");

	snprintf(text, bytes, "-");
	if (file) {
		if (!fgets(text, (int)bytes, file))
			text[0] = '\0';
		fclose(file);
	}
	return plain(text);
}

/* gVisor passes for a Linux of its own; its log does not. */
static bool is_gvisor(void)
{
	static char log[16384];
	int n = klogctl(3, log, sizeof(log) - 1); /* read all */

	return n > 0 && strstr(log, "gVisor") != NULL;
}

static const char *io_uring(void)
{
	char params[256] = "";
	long fd = syscall(__NR_io_uring_setup, 4, params);

	if (fd < 0)
		return strerrorname_np(errno);
	close((int)fd);
	return "yes";
}

static void tell_of_the_machine(void)
{
	struct rlimit lock = { 0, 0 };
	struct statvfs shm = { 0 };
	char disabled[32];
	struct utsname u;

	uname(&u);
	getrlimit(RLIMIT_MEMLOCK, &lock);
	statvfs("/dev/shm", &shm);
	FACT("\"kernel\":\"%s\",\"machine\":\"%s\",\"gvisor\":%s,"
	     "\"uid\":%d,\"cpus\":%ld,\"io_uring\":\"%s\","
	     "\"io_uring_disabled\":\"%s\",\"memlock\":%lld,\"shm_mib\":%llu",
	     u.release, u.machine, is_gvisor() ? "true" : "false", getuid(),
	     sysconf(_SC_NPROCESSORS_ONLN), io_uring(),
	     read_line("/proc/sys/kernel/io_uring_disabled", disabled,
		       sizeof(disabled)),
	     (long long)lock.rlim_cur,
	     (unsigned long long)(shm.f_frsize * shm.f_blocks) >> 20);
}

/* Every file of NVIDIA's that is mapped by now. */
static void tell_of_the_libraries(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], last[512] = "";
	unsigned int n = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		if (!path ||
		    (!strstr(path, "libcuda") && !strstr(path, "nvidia")) ||
		    strcmp(path, last) == 0)
			continue;
		snprintf(last, sizeof(last), "%s", path);
		n += strstr(path, "libcuda") != NULL;
		FACT("\"library\":\"%s\"", plain(path));
	}
	if (maps)
		fclose(maps);
	OK(n > 0);
}

static void tell_of_symbols(void)
{
	static const struct {
		const char *name;
		int since;
	} symbols[] = {
#define SYMBOL(name, since, function) { #name, since },
#include "tests/support/cuda_symbols.h"
#undef SYMBOL
	};
	const size_t n = sizeof(symbols) / sizeof(symbols[0]);
	unsigned int n_found = 0;
	int version = 0;

	GOOD(cu.cuDriverGetVersion(&version));
	for (size_t i = 0; i < n; i++) {
		CUdriverProcAddressQueryResult status = 0;
		CUresult result;
		void *at = NULL;

		result = cu.cuGetProcAddress_v2(symbols[i].name, &at,
						symbols[i].since, 0, &status);
		/* The driver has an older form of a newer symbol, at most. */
		if (symbols[i].since > version)
			at = NULL;
		n_found += result == CUDA_SUCCESS && at;
		if (result || !at)
			FACT("\"symbol\":\"%s\",\"version\":%d,\"result\":%d,"
			     "\"status\":%d",
			     symbols[i].name, symbols[i].since, result, status);
		/* Functions that a driver of its age must have. */
		OK(at || symbols[i].since > version ||
		   symbols[i].since > 12000);
	}
	FACT("\"cuda\":%d,\"symbols\":%zu,\"found\":%u", version, n, n_found);
}

static void tell_of_attributes(CUdevice device)
{
	unsigned int n = 0;

	printf("# {\"device\":%d,\"attributes\":{", device);
	for (int a = 1; a < ATTRIBUTES_MAX; a++) {
		int value = 0;

		if (cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)a,
					    device))
			continue;
		printf("%s\"%d\":%d", n++ ? "," : "", a, value);
	}
	puts("}}");
	OK(n > 50);
}

static void tell_of_devices(void)
{
	int n = 0;

	GOOD(cu.cuDeviceGetCount(&n));
	for (int i = 0; i < n; i++) {
		char name[128] = "", id[32] = "", path[96], node[32];
		size_t bytes = 0;

		GOOD(cu.cuDeviceGetName(name, sizeof(name), i));
		GOOD(cu.cuDeviceGetPCIBusId(id, sizeof(id), i));
		GOOD(cu.cuDeviceTotalMem_v2(&bytes, i));
		for (char *at = id; *at; at++)
			*at = (char)(*at >= 'A' && *at <= 'F' ? *at + 32 : *at);
		snprintf(path, sizeof(path),
			 "/sys/bus/pci/devices/%s/numa_node", id);
		FACT("\"device\":%d,\"name\":\"%s\",\"pci\":\"%s\","
		     "\"mib\":%zu,\"sysfs_numa_node\":\"%s\"",
		     i, plain(name), id, bytes >> 20,
		     read_line(path, node, sizeof(node)));
		tell_of_attributes(i);
	}
}

static struct {
#define CALL(name, params) nvmlReturn_t(*name) params;
	NVML_CALLS(CALL)
#undef CALL
} ml;

/* The result of a call that this NVML lacks. */
static nvmlReturn_t lacking(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

/* Tells which those are. */
static bool load_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		LACK("nvml", 1, "no libnvidia-ml.so.1");
		return false;
	}
#define CALL(name, params)                            \
	*(void **)&ml.name = dlsym(library, #name);   \
	if (!ml.name) {                               \
		FACT("\"nvml_lacks\":\"" #name "\""); \
		*(void **)&ml.name = (void *)lacking; \
	}
	NVML_CALLS(CALL)
#undef CALL
	return true;
}

/* Each answer, or NVML's error below zero. */
static long long answer(nvmlReturn_t result, unsigned long long value)
{
	return result ? -(long long)result : (long long)value;
}

static void tell_of_nvml_card(unsigned int index)
{
	nvmlFieldValue_t field = {
		.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
	};
	unsigned int node = 0, mode = 0, mig = 0, ecc = 0, pending = 0;
	nvmlMemory_v2_t memory = { .version = NVML_MEMORY_V2 };
	unsigned long long types = 0;
	unsigned long cpus[16] = { 0 };
	nvmlDevice_t card = NULL;
	nvmlReturn_t r;

	if (!EQ(ml.nvmlDeviceGetHandleByIndex_v2(index, &card), NVML_SUCCESS))
		return;
	r = ml.nvmlDeviceGetFieldValues(card, 1, &field);
	FACT("\"nvml_card\":%u,\"numa_node\":%lld,\"compute_mode\":%lld,"
	     "\"mig\":%lld,\"ecc\":%lld,\"event_types\":%lld,"
	     "\"recovery\":%lld,\"memory_v2\":%lld,\"reserved_mib\":%llu,"
	     "\"cpu_affinity\":%lld,\"cpus_0_63\":\"%#lx\"",
	     index, answer(ml.nvmlDeviceGetNumaNodeId(card, &node), node),
	     answer(ml.nvmlDeviceGetComputeMode(card, &mode), mode),
	     answer(ml.nvmlDeviceGetMigMode(card, &mig, &pending), mig),
	     answer(ml.nvmlDeviceGetEccMode(card, &ecc, &pending), ecc),
	     answer(ml.nvmlDeviceGetSupportedEventTypes(card, &types), types),
	     answer(r ? r : field.nvmlReturn, field.value.uiVal),
	     answer(ml.nvmlDeviceGetMemoryInfo_v2(card, &memory), 0),
	     memory.reserved >> 20,
	     answer(ml.nvmlDeviceGetCpuAffinity(card, 16, cpus), 0), cpus[0]);
}

static void tell_of_nvml(void)
{
	char driver[96] = "";
	unsigned int n = 0;

	if (!load_nvml() || !EQ(ml.nvmlInit_v2(), NVML_SUCCESS))
		return;
	EQ(ml.nvmlSystemGetDriverVersion(driver, sizeof(driver)), NVML_SUCCESS);
	EQ(ml.nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	FACT("\"driver\":\"%s\",\"nvml_cards\":%u", plain(driver), n);
	for (unsigned int i = 0; i < n; i++)
		tell_of_nvml_card(i);
	EQ(ml.nvmlShutdown(), NVML_SUCCESS);
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	if (!gpu_begin(argv))
		return tap_done();
	tell_of_the_machine();
	tell_of_the_libraries();
	tell_of_symbols();
	tell_of_devices();
	tell_of_nvml();
	return tap_done();
}
