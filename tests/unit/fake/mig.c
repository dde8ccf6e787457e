/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The stand-in's split cards: what CUDA and NVML say of instances, and who sees
 * them.  The machine has cards 0, 5 and 6 of its file; 0 has the instances 1 to
 * 4, 6 has 7 and 8.  By PCI they come as 6, 0, 5, by speed as 0, 6, 5.
 */

#include <signal.h>

#include "tests/contract/contract.h"
#include "tests/support/fake_machine.h"
#include "tests/support/nvml_abi.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct nvml_calls ml;

/* ---- parts */

static bool load_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library)
		nvml_calls_find(&ml, library);
	return library != NULL;
}

/* Which rows of the machine's file this process sees, as "1 2 3". */
static int see(void)
{
	struct fake_hardware hw;
	char text[128] = "";
	CUuuid uuid;
	int n = 0;

	WANT(!fake_hardware_open(getenv("GPUMAP_FAKE_HARDWARE"), &hw));
	if (cu.cuInit(0) == CUDA_SUCCESS)
		WANT(!cu.cuDeviceGetCount(&n));
	for (int i = 0; i < n; i++) {
		WANT(!cu.cuDeviceGetUuid_v2(&uuid, i));
		for (uint32_t g = 0; g < hw.board->n_gpus; g++)
			if (memcmp(hw.board->gpus[g].uuid, uuid.bytes, 16) == 0)
				snprintf(text + strlen(text),
					 sizeof(text) - strlen(text), "%s%u",
					 i ? " " : "", g);
	}
	fake_hardware_leave(&hw);
	if (strcmp(text, getenv("WANTED")) == 0)
		return 0;
	NOTE("%s shows %s", getenv("CUDA_VISIBLE_DEVICES"), text);
	return 1;
}

/* CUDA's attributes of instance 1, which is the only device. */
static int be_an_instance(void)
{
	size_t total = 0, left = 0, all = 0;
	CUcontext context;
	CUuuid own, card;
	CUdeviceptr at;
	char name[96];
	int value = 0;

	WANT(!cu.cuInit(0) && !cu.cuDeviceGetCount(&value) && value == 1);
	WANT(!cu.cuDeviceGetName(name, sizeof(name), 0));
	WANT(strcmp(name, "NVIDIA H100 80GB HBM3 MIG 3g.40gb") == 0);
	WANT(!cu.cuDeviceTotalMem_v2(&total, 0) && total >> 20 == 40448);
	WANT(!cu.cuDeviceGetAttribute(
		     &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) &&
	     value == 60);
	WANT(!cu.cuDeviceGetUuid_v2(&own, 0) && !cu.cuDeviceGetUuid(&card, 0));
	WANT(memcmp(&own, &card, sizeof(own)) != 0);
	WANT(!cu.cuDevicePrimaryCtxRetain(&context, 0));
	WANT(!cu.cuCtxSetCurrent(context));
	WANT(!cu.cuMemAlloc_v2(&at, (size_t)39 << 30));
	WANT(!cu.cuMemGetInfo_v2(&left, &all) && all == total);
	WANT(cu.cuMemAlloc_v2(&at, (size_t)1 << 30) ==
	     CUDA_ERROR_OUT_OF_MEMORY);
	pause(); /* the scene looks at the books, and kills us */
	return 0;
}

/* An instance's handle is no card's. */
static int ask_parts(nvmlDevice_t card)
{
	nvmlDeviceAttributes_t attributes;
	nvmlDevice_t part = NULL, same = NULL;
	unsigned int value = 99, pending;
	char text[96], name[96];
	nvmlMemory_t memory;
	nvmlPciInfo_t pci;

	WANT(!ml.nvmlDeviceGetMigMode(card, &value, &pending) && value == 1);
	WANT(!ml.nvmlDeviceGetMaxMigDeviceCount(card, &value) && value == 7);
	WANT(ml.nvmlDeviceGetMigDeviceHandleByIndex(card, 4, &part) ==
	     NVML_ERROR_NOT_FOUND);
	WANT(ml.nvmlDeviceGetMigDeviceHandleByIndex(card, 7, &part) ==
	     NVML_ERROR_INVALID_ARGUMENT);
	WANT(!ml.nvmlDeviceGetMigDeviceHandleByIndex(card, 1, &part));
	WANT(!ml.nvmlDeviceIsMigDeviceHandle(part, &value) && value == 1);
	WANT(!ml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part, &same) &&
	     same == card);
	WANT(!ml.nvmlDeviceGetGpuInstanceId(part, &value) && value == 3);
	WANT(!ml.nvmlDeviceGetComputeInstanceId(part, &value) && value == 0);
	WANT(!ml.nvmlDeviceGetAttributes_v2(part, &attributes));
	WANT(attributes.multiprocessorCount == 26 &&
	     attributes.memorySizeMB == 20096 &&
	     attributes.gpuInstanceSliceCount == 1);
	WANT(!ml.nvmlDeviceGetName(part, name, sizeof(name)));
	WANT(strcmp(name, "NVIDIA H100 80GB HBM3 MIG 1g.20gb") == 0);
	WANT(!ml.nvmlDeviceGetUUID(part, text, sizeof(text)));
	WANT(strncmp(text, "MIG-", 4) == 0);
	WANT(!ml.nvmlDeviceGetHandleByUUID(text, &same) && same == part);
	WANT(!ml.nvmlDeviceGetMemoryInfo(part, &memory) &&
	     memory.total >> 20 == 20096);
	WANT(ml.nvmlDeviceGetPciInfo_v3(part, &pci) ==
	     NVML_ERROR_NOT_SUPPORTED);
	WANT(ml.nvmlDeviceGetGpuInstanceId(card, &value) ==
	     NVML_ERROR_NOT_SUPPORTED);
	return 0;
}

static int ask_nvml(void)
{
	unsigned int n = 0, value, pending;
	nvmlDevice_t card, whole, part;
	char name[96];

	WANT(load_nvml() && !ml.nvmlInit_v2());
	WANT(!ml.nvmlDeviceGetCount_v2(&n) && n == 3);
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(2, &card));
	WANT(!ml.nvmlDeviceGetName(card, name, sizeof(name)));
	WANT(strcmp(name, "NVIDIA H100 80GB HBM3") == 0);
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(1, &whole));
	WANT(!ml.nvmlDeviceGetMigMode(whole, &value, &pending) && value == 0);
	WANT(!ml.nvmlDeviceGetMaxMigDeviceCount(whole, &value) && value == 0);
	WANT(ml.nvmlDeviceGetMigDeviceHandleByIndex(whole, 0, &part) ==
	     NVML_ERROR_NOT_SUPPORTED);
	n = (unsigned int)ask_parts(card);
	WANT(!ml.nvmlShutdown());
	return (int)n;
}

/* Affinity, links, ECC and what is to be done about a card. */
static int ask_the_rest(void)
{
	nvmlFieldValue_t fields[2] = {
		{ .fieldId = 1 },
		{ .fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION },
	};
	unsigned long cpus[3] = { 1, 1, 1 };
	unsigned int value = 0, pending = 0;
	unsigned long long types = 0;
	nvmlDevice_t card, other;
	nvmlPciInfo_t near, far;

	WANT(load_nvml() && !ml.nvmlInit_v2());
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(1, &card));
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(0, &other));
	WANT(!ml.nvmlDeviceGetCpuAffinity(card, 3, cpus));
	WANT(cpus[0] == 0 && cpus[1] == ~0ul && cpus[2] == 0);
	WANT(!ml.nvmlDeviceGetEccMode(card, &value, &pending) && value == 1);
	WANT(!ml.nvmlDeviceGetSupportedEventTypes(card, &types));
	WANT(types == (NVML_EVENT_XID | NVML_EVENT_DBE));
	WANT(!ml.nvmlDeviceGetFieldValues(card, 2, fields));
	WANT(fields[0].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
	WANT(fields[1].nvmlReturn == NVML_SUCCESS &&
	     fields[1].value.uiVal == 2);
	WANT(!ml.nvmlDeviceGetNvLinkState(card, 1, &value) && value == 1);
	WANT(!ml.nvmlDeviceGetNvLinkState(card, 2, &value) && value == 0);
	WANT(!ml.nvmlDeviceGetNvLinkRemotePciInfo_v2(card, 1, &far));
	WANT(!ml.nvmlDeviceGetPciInfo_v3(other, &near));
	WANT(strcmp(near.busId, far.busId) == 0);
	WANT(!ml.nvmlDeviceGetNvLinkState(other, 0, &value) && value == 1);
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(2, &other));
	WANT(ml.nvmlDeviceGetNvLinkState(other, 0, &value) ==
	     NVML_ERROR_NOT_SUPPORTED);
	WANT(!ml.nvmlShutdown());
	return 0;
}

/* Hears of an instance through its card, and of memory. */
static int hear(void)
{
	nvmlEventData_t data = { 0 };
	nvmlDevice_t card, other;
	nvmlEventSet_t set;

	WANT(load_nvml() && !ml.nvmlInit_v2());
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(2, &card));
	WANT(!ml.nvmlEventSetCreate(&set));
	WANT(!ml.nvmlDeviceRegisterEvents(card, NVML_EVENT_XID | NVML_EVENT_DBE,
					  set));
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(1, &other));
	WANT(!ml.nvmlEventSetWait_v2(set, &data, 20000));
	WANT(data.device == card && data.eventData == 43 &&
	     data.gpuInstanceId == 3 && data.computeInstanceId == 0);
	WANT(!ml.nvmlEventSetWait_v2(set, &data, 20000));
	WANT(data.device == card && data.eventType == NVML_EVENT_DBE &&
	     data.gpuInstanceId == UINT32_MAX);
	WANT(!ml.nvmlEventSetFree(set) && !ml.nvmlShutdown());
	return 0;
}

static const struct scene_part parts[] = {
	{ "see", NULL, see },
	{ "be an instance", NULL, be_an_instance },
	{ "ask NVML", NULL, ask_nvml },
	{ "ask the rest", NULL, ask_the_rest },
	{ "hear", NULL, hear },
};

/* ---- scenes */

/* @list with %N for the name of row N, in @text. */
static void spell(const struct scene *scene, const char *list, char *text)
{
	for (; *list; list++) {
		if (*list == '%') {
			uint32_t g = (uint32_t)(*++list - '0');

			fake_uuid_print(&scene->hw.board->gpus[g], text);
			text += strlen(text);
		} else {
			*text++ = *list;
		}
	}
	*text = '\0';
}

static void visible_as(struct scene *scene, const char *list, const char *plan,
		       const char *wanted)
{
	char text[256];

	unsetenv("CUDA_VISIBLE_DEVICES");
	if (list) {
		spell(scene, list, text);
		setenv("CUDA_VISIBLE_DEVICES", text, 1);
	}
	setenv("WANTED", wanted, 1);
	if (!EQ(scene_end(scene_begin(scene, "see", plan)), 0))
		NOTE("%s, %s: wanted %s", list ? list : "no list",
		     plan ? plan : "13.0", wanted);
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void a_process_sees_what_its_driver_shows(void)
{
	static const struct {
		const char *list, *old, *many;
	} cases[] = {
		{ NULL, "1", "1 2 3 4 7 8 5" },
		{ "", "", "" },
		{ "0", "1", "1" },
		{ "1", "7", "2" },
		{ "2", "5", "3" },
		{ "2,1", "7", "3 2" },
		{ "6", "", "5" },
		{ "%5", "5", "5" },
		{ "%0", "1", "1" },
		{ "%0,%5", "1", "1 5" },
		{ "%2", "2", "2" },
		{ "%2,%3", "2", "2 3" },
		{ "%2,%2", "", "" },
		{ "%5,%7", "5", "5 7" },
		{ "%7,0", "7", "7" },
		{ "MIG-%0/1/0", "1", "1" },
		{ "MIG-%0/7/0", "4", "4" },
		{ "MIG-%0/2/0", "", "" },
		{ "MIG-%6/3/0,%1", "8", "8 1" },
		{ "MIG-nothing", "", "" },
	};
	struct scene scene;

	if (!scene_set(&scene, "split.yaml", NULL))
		return;
	for (size_t i = 0; i < COUNT(cases); i++) {
		visible_as(&scene, cases[i].list, "driver 12.4", cases[i].old);
		visible_as(&scene, cases[i].list, NULL, cases[i].many);
	}
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	visible_as(&scene, NULL, NULL, "7 8 1 2 3 4 5");
	visible_as(&scene, "1", "driver 12.4", "1");
	unsetenv("CUDA_DEVICE_ORDER");
	scene_clear(&scene);
}

/* A device that a container was not given is not there: a card, or one
 * instance. */
static void a_container_has_only_its_nodes(void)
{
	struct scene scene;
	char path[FAKE_NODE_BYTES];

	if (!scene_set(&scene, "split.yaml", NULL))
		return;
	OK(fake_node(scene.dev, &scene.hw.board->gpus[2], 2, path));
	EQ(unlink(path), 0);
	visible_as(&scene, NULL, NULL, "1 3 4 7 8 5");
	OK(fake_node(scene.dev, &scene.hw.board->gpus[6], 0, path));
	EQ(unlink(path), 0);
	visible_as(&scene, NULL, NULL, "1 3 4 5");
	OK(!fake_node(scene.dev, &scene.hw.board->gpus[5], 1, path));
	scene_clear(&scene);
}

/* An instance's memory is its own, and its card counts it. */
static void an_instance_is_a_device(void)
{
	struct scene scene;
	uint64_t card, other;
	pid_t pid;

	if (!scene_set(&scene, "split.yaml", NULL))
		return;
	card = scene_left(&scene, 0);
	other = scene_left(&scene, 2);
	visible_as(&scene, "%1", NULL, "1");
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	pid = scene_begin(&scene, "be an instance", "driver 12.4");
	for (int i = 0; i < 15000 && scene_left(&scene, 1) >> 30; i++)
		contract_rest_ms(2);
	EQ(scene_left(&scene, 1) >> 30, 0);
	EQ(scene_left(&scene, 2), other);
	OK(scene_left(&scene, 0) + ((uint64_t)39 << 30) <= card);
	kill(pid, SIGKILL);
	EQ(scene_end(pid), -SIGKILL);
	EQ(scene_left(&scene, 0), card);
	unsetenv("CUDA_VISIBLE_DEVICES");
	scene_clear(&scene);
}

static void nvml_knows_instances(void)
{
	struct scene scene;

	if (!scene_set(&scene, "split.yaml",
		       "row 5: link to 6; row 6: link to 5; "
		       "row 5: recovery action 2"))
		return;
	EQ(scene_end(scene_begin(&scene, "ask NVML", NULL)), 0);
	EQ(scene_end(scene_begin(&scene, "ask the rest", NULL)), 0);
	scene_clear(&scene);
}

static void cards_tell_of_their_instances(void)
{
	struct scene scene;
	pid_t pid;

	if (!scene_set(&scene, "split.yaml", NULL))
		return;
	pid = scene_begin(&scene, "hear", NULL);
	scene_holds(&scene, pid, 2);
	scene_add(&scene, "row 7: xid 31; row 2: xid 43; row 0: memory error");
	EQ(scene_end(pid), 0);
	scene_clear(&scene);
}

/* A card takes its instances along, an instance takes nothing. */
static void what_is_lost_with_a_card(void)
{
	struct scene scene;

	if (!scene_set(&scene, "split.yaml", "row 3: lost"))
		return;
	visible_as(&scene, NULL, NULL, "1 2 4 7 8 5");
	scene_add(&scene, "row 0: lost");
	visible_as(&scene, NULL, NULL, "7 8 5");
	scene_add(&scene, "row 0: back");
	visible_as(&scene, NULL, NULL, "1 2 3 4 7 8 5");
	scene_clear(&scene);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc > 1)
		return contract_load(argv)
			       ? 251
			       : scene_play(argv[1], parts, COUNT(parts));
	scene_find_libraries();
	a_process_sees_what_its_driver_shows();
	a_container_has_only_its_nodes();
	an_instance_is_a_device();
	nvml_knows_instances();
	cards_tell_of_their_instances();
	what_is_lost_with_a_card();
	return tap_done();
}
