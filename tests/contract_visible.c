/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * visible against a driver: what each CUDA_VISIBLE_DEVICES makes visible in a
 * process of its own, and what lib/visible says about it.
 *
 * The devices themselves come from the driver too, as they are without the
 * variable, so this runs on any card and on the stand-in's.
 */

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cuda/driver.h"
#include "lib/visible.h"
#include "tap.h"

#define SEEN_MAX 64

/* What a process saw: UUIDs in the order of its ordinals, or why not. */
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
		struct gm_visible_device *d = &devices[i];

		d->row = (uint32_t)i;
		memcpy(d->uuid, by_bus.uuid[i], sizeof(d->uuid));
		d->mig_gi = d->mig_ci = -1;
		d->fastest = place(&by_speed, d->uuid);
		d->pci_domain = (uint32_t)by_bus.domain[i];
		d->pci_bus = (uint32_t)by_bus.bus[i];
	}
}

static void agree(const char *list, const char *order)
{
	struct gm_visible_node node = {
		.devices = devices,
		.n_devices = (uint32_t)by_bus.n,
		.order = gm_visible_order(order),
		.cuda_version = (uint32_t)by_bus.version,
	};
	struct gm_visible_list ours;
	struct seen theirs;
	bool same = see(list, order, &theirs) &&
		    gm_visible_resolve(&node, list, &ours) == 0 &&
		    theirs.n == (int)ours.n;

	for (int i = 0; same && i < theirs.n; i++)
		same = place(&by_bus, theirs.uuid[i]) == (int)ours.rows[i];
	if (!OK(same))
		NOTE("CUDA_VISIBLE_DEVICES=\"%s\" in %s: the driver shows %d, "
		     "we say %u",
		     list ? list : "(not set)", order, theirs.n, ours.n);
}

/* "GPU-" and as many characters of the UUID as @n. */
static const char *name(int i, int n)
{
	static char names[4][48];
	static int next;
	char *text = names[next++ % 4];
	const uint8_t *u = by_bus.uuid[i];

	snprintf(text, 48,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
		 u[10], u[11], u[12], u[13], u[14], u[15]);
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
	int last = by_bus.n - 1;
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

int main(int argc, char **argv)
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
	make_rows();
	ordinals("PCI_BUS_ID");
	ordinals("FASTEST_FIRST");
	uuids("PCI_BUS_ID");
	uuids("FASTEST_FIRST");
	return tap_done();
}
