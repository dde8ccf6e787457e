/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * visible against a driver: what each CUDA_VISIBLE_DEVICES makes visible in a
 * process of its own, and what lib/visible says about it.
 *
 * The devices themselves come from the driver too, as they are without the
 * variable, and where cards are split from NVML, so this runs on any card and
 * on the stand-in's.
 */

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cuda/driver.h"
#include "agent/cuda/nvml.h"
#include "lib/cuda_visible_devices.h"
#include "tests/support/tap.h"

#define SEEN_MAX 64

/* UUIDs that a process saw in the order of its ordinals, or its error. */
struct seen {
	int rc; /* of gm_driver_open */
	gm_cu_result init;
	int version;
	int n;
	uint8_t uuid[SEEN_MAX][16];
	int domain[SEEN_MAX], bus[SEEN_MAX];
};

static void look(struct seen *s)
{
	static struct gm_driver cu;
	char why[GM_LIBRARY_WHY_BYTES];

	s->rc = gm_driver_open(NULL, &cu, why);
	if (s->rc < 0)
		return;
	s->version = cu.version;
	s->init = cu.cuInit(0);
	if (s->init != GM_CU_SUCCESS || cu.cuDeviceGetCount(&s->n) != 0)
		return;
	s->n = s->n < SEEN_MAX ? s->n : SEEN_MAX;
	for (int i = 0; i < s->n; i++) {
		struct gm_cu_uuid uuid;
		int dev, device = 0;

		cu.cuDeviceGet(&dev, i);
		cu.cuDeviceGetUuid(&uuid, dev);
		memcpy(s->uuid[i], uuid.bytes, sizeof(uuid.bytes));
		cu.cuDeviceGetAttribute(&s->domain[i], GM_CU_PCI_DOMAIN_ID,
					dev);
		cu.cuDeviceGetAttribute(&s->bus[i], GM_CU_PCI_BUS_ID, dev);
		cu.cuDeviceGetAttribute(&device, GM_CU_PCI_DEVICE_ID, dev);
		s->bus[i] = s->bus[i] << 8 | device << 3;
	}
}

/* In a child: the driver reads its environment once. */
static bool see(const char *list, const char *order, struct seen *ret_seen)
{
	int ends[2];
	bool whole;
	pid_t pid;

	if (pipe(ends) != 0)
		return false;
	pid = fork();
	if (pid == 0) {
		struct seen seen = { 0 };

		if (list)
			setenv("CUDA_VISIBLE_DEVICES", list, 1);
		else
			unsetenv("CUDA_VISIBLE_DEVICES");
		setenv("CUDA_DEVICE_ORDER", order, 1);
		look(&seen);
		_exit(write(ends[1], &seen, sizeof(seen)) != sizeof(seen));
	}
	close(ends[1]);
	whole = read(ends[0], ret_seen, sizeof(*ret_seen)) == sizeof(*ret_seen);
	close(ends[0]);
	return pid > 0 && waitpid(pid, NULL, 0) == pid && whole;
}

static struct seen by_bus, by_speed;
static struct gm_visible_device devices[SEEN_MAX];
static uint32_t n_devices;
static bool is_split; /* is any card? */

static int place(const struct seen *s, const uint8_t uuid[16])
{
	for (int i = 0; i < s->n; i++) {
		if (memcmp(s->uuid[i], uuid, 16) == 0)
			return i;
	}
	return -1;
}

/* One row for each device, in the order of the bus. */
static void make_rows(void)
{
	for (int i = 0; i < by_bus.n; i++) {
		struct gm_visible_device *d = &devices[n_devices++];

		d->row = (uint32_t)i;
		memcpy(d->uuid, by_bus.uuid[i], sizeof(d->uuid));
		d->mig_gi = d->mig_ci = -1;
		d->fastest = place(&by_speed, d->uuid);
		d->pci_domain = (uint32_t)by_bus.domain[i];
		d->pci_bus = (uint32_t)by_bus.bus[i];
	}
}

/* ---- cards that are split ------------------------------------------------ */

static struct gm_nvml ml;

/* From "GPU-" or "MIG-" and 32 digits. */
static bool read_uuid(struct nvmlDevice_st *of, uint8_t ret_uuid[16])
{
	char text[GM_NVML_UUID_BYTES], *at = text + 4;

	if (ml.nvmlDeviceGetUUID(of, text, sizeof(text)) != 0 ||
	    strlen(text) != 4 + 36)
		return false;
	for (int i = 0; i < 16; i++) {
		unsigned int byte;

		at += *at == '-';
		if (sscanf(at, "%2x", &byte) != 1)
			return false;
		ret_uuid[i] = (uint8_t)byte;
		at += 2;
	}
	return true;
}

static void add_parts(struct nvmlDevice_st *card,
		      const struct gm_visible_device *whole)
{
	unsigned int most = 0;

	OK(ml.nvmlDeviceGetMaxMigDeviceCount(card, &most) == 0);
	for (unsigned int i = 0; i < most && n_devices < SEEN_MAX; i++) {
		struct gm_visible_device *d = &devices[n_devices];
		struct nvmlDevice_st *part;
		unsigned int gi = 0, ci = 0;

		if (ml.nvmlDeviceGetMigDeviceHandleByIndex(card, i, &part) != 0)
			continue;
		*d = *whole;
		d->row = n_devices++;
		d->flags = 0;
		memcpy(d->parent, whole->uuid, sizeof(d->parent));
		OK(read_uuid(part, d->uuid) &&
		   ml.nvmlDeviceGetGpuInstanceId(part, &gi) == 0 &&
		   ml.nvmlDeviceGetComputeInstanceId(part, &ci) == 0);
		d->mig_gi = (int32_t)gi;
		d->mig_ci = (int32_t)ci;
	}
}

static void add_card(unsigned int index)
{
	struct gm_visible_device *d = &devices[n_devices];
	struct nvmlDevice_st *card;
	unsigned int mode = 0, pending;
	struct gm_nvml_pci pci;

	if (ml.nvmlDeviceGetHandleByIndex_v2(index, &card) != 0 ||
	    ml.nvmlDeviceGetPciInfo_v3(card, &pci) != 0)
		return;
	*d = (struct gm_visible_device){ .row = n_devices++,
					 .mig_gi = -1,
					 .mig_ci = -1,
					 .fastest = -1,
					 .pci_domain = pci.domain,
					 .pci_bus = pci.bus << 8 |
						    pci.device << 3 };
	OK(read_uuid(card, d->uuid));
	if (ml.nvmlDeviceGetMigMode(card, &mode, &pending) != 0 || mode == 0)
		return;
	is_split = true;
	d->flags = GM_VISIBLE_SPLIT;
	add_parts(card, d);
}

/* A card is as fast as its ordinal's attributes say.  Cards without an ordinal
 * have no place, as on a node whose agent has no rates either. */
static void ask_for_speeds(void)
{
	int next = 0;

	for (int ordinal = 0; ordinal < SEEN_MAX; ordinal++) {
		const struct gm_visible_device *shown = NULL;
		const uint8_t *card;
		struct seen s;
		char list[16];

		snprintf(list, sizeof(list), "%d", ordinal);
		if (!see(list, "FASTEST_FIRST", &s) || s.n != 1)
			return;
		for (uint32_t i = 0; i < n_devices; i++) {
			if (memcmp(devices[i].uuid, s.uuid[0], 16) == 0)
				shown = &devices[i];
		}
		if (!OK(shown != NULL) || shown->fastest >= 0)
			continue;
		card = shown->mig_gi < 0 ? shown->uuid : shown->parent;
		for (uint32_t i = 0; i < n_devices; i++) {
			if (memcmp(devices[i].uuid, card, 16) == 0 ||
			    memcmp(devices[i].parent, card, 16) == 0)
				devices[i].fastest = next;
		}
		next++;
	}
}

/* Rows of cards and of their instances.  Returns false where no card is
 * split. */
static bool make_rows_of_parts(void)
{
	char why[GM_LIBRARY_WHY_BYTES];
	unsigned int n = 0;

	if (gm_nvml_open(NULL, &ml, why) != 0)
		return false;
	if (gm_nvml_has(&ml, GM_NVML_MIG) && ml.nvmlInit_v2() == 0) {
		ml.nvmlDeviceGetCount_v2(&n);
		for (unsigned int i = 0; i < n && n_devices < SEEN_MAX; i++)
			add_card(i);
		ml.nvmlShutdown();
	}
	if (!is_split)
		n_devices = 0;
	else
		ask_for_speeds();
	return is_split;
}

/* ---- who says what ------------------------------------------------------- */

static void agree(const char *list, const char *order)
{
	struct gm_visible_node node = {
		.devices = devices,
		.n_devices = n_devices,
		.order = gm_visible_order(order),
		.cuda_version = (uint32_t)by_bus.version,
	};
	struct gm_visible_list ours;
	struct seen theirs;
	bool same = see(list, order, &theirs) &&
		    gm_visible_resolve(&node, list, &ours) == 0 &&
		    theirs.n == (int)ours.n;

	for (int i = 0; same && i < theirs.n; i++)
		same = memcmp(theirs.uuid[i], devices[ours.rows[i]].uuid, 16) ==
		       0;
	if (!OK(same))
		NOTE("CUDA_VISIBLE_DEVICES=\"%s\" in %s: the driver shows %d, "
		     "we say %u",
		     list ? list : "(not set)", order, theirs.n, ours.n);
}

/* "GPU-" or "MIG-" and as many characters of the UUID as @n. */
static const char *name(int i, int n)
{
	static char names[4][48];
	static int next;
	char *text = names[next++ % 4];
	const uint8_t *u = devices[i].uuid;

	snprintf(text, 48,
		 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 devices[i].mig_gi < 0 ? "GPU" : "MIG", u[0], u[1], u[2], u[3],
		 u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
	text[4 + n] = '\0';
	return text;
}

static void ordinals(const char *order)
{
	static const char *const lists[] = {
		NULL,
		"",
		"0",
		"1",
		"1,0",
		"0,1,2,3",
		"3,2,1,0",
		"-1",
		"0,-1",
		"0,2,-1,1",
		"64",
		"1,64,0",
		"0, 1",
		" 1",
		"+1",
		"-0",
		"0,0",
		"1,0,1",
		"1,2,-1,1",
		"1gpu,2",
		"0-2",
		"none",
		"1,two,0",
		"4294967296",
		"18446744073709551616",
		"0,",
		",0",
		"0,,1",
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		agree(lists[i], order);
}

static void uuids(const char *order)
{
	int last = (int)n_devices - 1;
	char list[160];

	agree(name(0, 36), order);
	agree(name(last, 36), order);
	agree(name(0, 13), order);
	agree(name(last, 9), order);
	agree(name(0, 0), order);
	snprintf(list, sizeof(list), "%s,%s", name(last, 36), name(0, 12));
	agree(list, order);
	snprintf(list, sizeof(list), "%s,%s", name(0, 36), name(0, 20));
	agree(list, order);
	snprintf(list, sizeof(list), "%s,GPU-x,%s", name(0, 36),
		 name(last, 36));
	agree(list, order);
	snprintf(list, sizeof(list), "%s,0", name(last, 36));
	agree(list, order);
	snprintf(list, sizeof(list), "0,%s", name(last, 36));
	agree(list, order);
	snprintf(list, sizeof(list), "%s0", name(0, 36));
	agree(list, order);
	agree(name(0, 36) + 4, order);
	snprintf(list, sizeof(list), "MIG-%s", name(0, 36) + 4);
	agree(list, order);
	snprintf(list, sizeof(list), "MIG-%s/1/0", name(0, 36));
	agree(list, order);
}

/* Each instance by both of its names, each card beside it, and both in a
 * list. */
static void parts(const char *order)
{
	char list[160];

	for (int i = 0; i < (int)n_devices; i++) {
		const struct gm_visible_device *d = &devices[i];
		int card = i;

		agree(name(i, 36), order);
		while (d->mig_gi >= 0 && devices[card].mig_gi >= 0)
			card--; /* which its instances follow */
		snprintf(list, sizeof(list), "MIG-%s/%d/%d", name(card, 36),
			 d->mig_gi, d->mig_ci);
		agree(list, order);
		snprintf(list, sizeof(list), "%s,%s", name(i, 36),
			 name(card, 36));
		agree(list, order);
		snprintf(list, sizeof(list), "%s,%s", name(card, 36),
			 name((i + 1) % (int)n_devices, 36));
		agree(list, order);
	}
}

TAP_CASE_ARGS(argc, argv)
{
	const char *under = getenv("CONTRACT_UNDER");
	char command[512], *words[8], *save = NULL;
	int n = 0;

	if (under) {
		snprintf(command, sizeof(command), "%s", under);
		for (char *w = strtok_r(command, " ", &save); w && n < 6;
		     w = strtok_r(NULL, " ", &save))
			words[n++] = w;
		words[n++] = argv[0];
		words[n] = NULL;
		unsetenv("CONTRACT_UNDER");
		execvp(words[0], words);
	}
	if (!OK(see(NULL, "PCI_BUS_ID", &by_bus)) ||
	    !OK(see(NULL, "FASTEST_FIRST", &by_speed)))
		return tap_done();
	if (by_bus.rc == -ENOENT || by_bus.n == 0) {
		LACK("cuda", 1, "no driver or no device");
		return tap_done();
	}
	if (!make_rows_of_parts())
		make_rows();
	ordinals("PCI_BUS_ID");
	ordinals("FASTEST_FIRST");
	uuids("PCI_BUS_ID");
	uuids("FASTEST_FIRST");
	if (is_split) {
		parts("PCI_BUS_ID");
		parts("FASTEST_FIRST");
	}
	return tap_done();
}
