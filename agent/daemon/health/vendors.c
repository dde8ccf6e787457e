/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/vendors.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/common/probe_wire.h"
#include "agent/common/read_file.h"
#include "agent/common/text.h"
#include "agent/daemon/base/environment.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/devices/uuid.h"
#include "agent/daemon/health/cards.h"
#include "agent/daemon/health/reports.h"
#include "gpumap.h"
#include "shm/device_kinds.h"

#define LAST_WAIT_NS UINT64_C(1000000000) /* for an exit at our end */

/* The flags that a library may tell of; others are of the kind, or ours. */
#define TOLD                                             \
	(GPUMAP_DEVICE_FP16 | GPUMAP_DEVICE_INTEGRATED | \
	 GPUMAP_DEVICE_MAIN_MEMORY | GPUMAP_DEVICE_EXPORTS)

/* ---- the vendors --------------------------------------------------------- */

static const struct {
	uint32_t kind;      /* enum gpumap_device_kind */
	const char *suffix; /* NULL: the kernel shows the devices */
	const char *folders[3];
} drivers[GM_CONFIG_DRIVERS] = {
	[GM_CONFIG_HIP] = { GPUMAP_DEVICE_HIP, NULL, { NULL } },
	[GM_CONFIG_OPENCL] = { GPUMAP_DEVICE_OPENCL,
			       ".icd",
			       { "/etc/OpenCL/vendors" } },
	[GM_CONFIG_VULKAN] = { GPUMAP_DEVICE_VULKAN,
			       ".json",
			       { "/etc/vulkan/icd.d",
				 "/usr/share/vulkan/icd.d" } },
};

/* The name of its section in gpumapd.conf, and for the probe. */
static const char *name_of(uint32_t driver)
{
	return gm_device_kind(drivers[driver].kind)->name;
}

/* The word of the key devices for the probe, NULL where it lists vendors. */
static const char *kind_of_devices(const struct gm_config_driver *driver)
{
	static const char *const kinds[] = { "gpu", "cpu", "all" };
	const char *text = driver->devices;

	for (size_t i = 0; text && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(text, kinds[i]) == 0)
			return kinds[i];
	return text ? NULL : "gpu";
}

static bool is_listed(const char *names, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = names; (at = strstr(at, name)); at += n)
		if ((at == names || at[-1] == ' ' || at[-1] == '\t') &&
		    (at[n] == '\0' || at[n] == ' ' || at[n] == '\t'))
			return true;
	return false;
}

/* The first line, without blanks around it. */
static bool read_library(const char *path, char ret_library[256])
{
	char text[1024];
	size_t first, n;

	if (gm_read_file(path, text, sizeof(text)) < 0)
		return false;
	first = strspn(text, " \t");
	n = strcspn(text + first, "\r\n");
	while (n > 0 && strchr(" \t", text[first + n - 1]))
		n--;
	snprintf(ret_library, 256, "%.*s", (int)n, text + first);
	return n > 0 && n < 256;
}

static void add_vendor(struct gm_daemon *d, uint32_t driver, const char *folder,
		       const char *file)
{
	const struct gm_config_driver *config = &d->config->drivers[driver];
	struct gm_vendor *vendor = &d->vendors->vendors[d->vendors->n];
	size_t n = strlen(file) - strlen(drivers[driver].suffix);
	bool is_manifest = driver == GM_CONFIG_VULKAN;
	char path[PATH_MAX];

	*vendor = (struct gm_vendor){ .d = d, .driver = driver };
	snprintf(vendor->name, sizeof(vendor->name), "%.*s", (int)n, file);
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (!kind_of_devices(config) &&
	    !is_listed(config->devices, vendor->name))
		return;
	if (is_manifest && strlen(path) < sizeof(vendor->library))
		memcpy(vendor->library, path, strlen(path) + 1);
	else if (is_manifest || !read_library(path, vendor->library)) {
		gm_log(GM_LOG_WARNING, "vendor_unread", "driver=%s path=%s",
		       name_of(driver), gm_quote(path).text);
		return;
	}
	d->vendors->n++;
}

static bool is_file(uint32_t driver, const char *name)
{
	size_t n = strlen(name), suffix = strlen(drivers[driver].suffix);

	return n > suffix && n < 64 &&
	       strcmp(name + n - suffix, drivers[driver].suffix) == 0;
}

/* In the order of their names, which is that of rows without addresses. */
static void read_folder(struct gm_daemon *d, uint32_t driver,
			const char *folder)
{
	struct dirent **files = NULL;
	int n = scandir(folder, &files, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		if (is_file(driver, files[i]->d_name) &&
		    d->vendors->n < GM_VENDORS)
			add_vendor(d, driver, folder, files[i]->d_name);
		free(files[i]);
	}
	free(files);
}

/* Libraries are for workers. */
static void add_kernel(struct gm_daemon *d, uint32_t driver)
{
	d->vendors->vendors[d->vendors->n++] = (struct gm_vendor){
		.d = d, .driver = driver, .name = "amdgpu"
	};
	snprintf(
		d->vendors->why[driver], sizeof(d->vendors->why[driver]),
		"the kernel shows no card that is wanted: is there amdgpu, and "
		"/sys/class/kfd?");
}

static void find_vendors(struct gm_daemon *d, uint32_t driver)
{
	const char *folder = d->config->drivers[driver].vendors;
	const char *const *folders = drivers[driver].folders;
	uint32_t n = d->vendors->n;

	if (folder != NULL)
		read_folder(d, driver, folder);
	for (; folder == NULL && *folders != NULL; folders++)
		read_folder(d, driver, *folders);
	snprintf(d->vendors->why[driver], sizeof(d->vendors->why[driver]),
		 d->vendors->n > n
			 ? "no vendor shows a device that is wanted"
			 : "there is no file of a vendor that is wanted: "
			   "install a driver");
}

/* ---- what a probe says --------------------------------------------------- */

/* Is it another device at the same address?  Parts of a card of HIP's are where
 * their card is. */
static bool is_rival(const struct gm_probe_wire *wire,
		     const struct gm_device *device)
{
	const struct gm_row_image *facts = &wire->device.facts;
	const struct gm_row_image *other = &device->facts;

	return (other->known & GPUMAP_KNOWN_PCI) &&
	       other->pci_domain == facts->pci_domain &&
	       other->pci_bus == facts->pci_bus &&
	       memcmp(other->uuid, wire->uuid, sizeof(other->uuid)) != 0 &&
	       (other->kind != GPUMAP_DEVICE_HIP ||
		facts->kind != GPUMAP_DEVICE_HIP);
}

/* Two vendors may show one card. */
static bool is_served(const struct gm_daemon *d,
		      const struct gm_probe_wire *wire)
{
	const struct gm_cards *cards = d->cards;
	uint32_t n = cards->is_open ? d->devices->n : cards->n_found;

	if ((wire->device.facts.known & GPUMAP_KNOWN_PCI) == 0)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (is_rival(wire, cards->is_open ? d->devices->of[i]
						  : cards->found[i]))
			return true;
	return false;
}

/* HIP's cards are listed by themselves. */
static bool is_left_out(const struct gm_vendor *vendor, const char *id)
{
	const struct gm_config_driver *driver =
		&vendor->d->config->drivers[vendor->driver];

	return drivers[vendor->driver].suffix == NULL &&
	       !kind_of_devices(driver) &&
	       !is_listed(driver->devices, gm_device_card_id(id));
}

/* A library may say anything. */
static void hear_device(struct gm_vendor *vendor, struct gm_probe_wire *wire)
{
	struct gm_daemon *d = vendor->d;
	struct gm_row_image *facts = &wire->device.facts;
	struct gm_meminfo memory;
	uint64_t most = d->config->drivers[vendor->driver].cpu_memory;
	const char *driver = name_of(vendor->driver);
	bool is_main = (facts->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0;
	const struct gm_device *row;

	facts->flags &= TOLD;
	if (is_left_out(vendor, wire->device.id))
		return;
	gm_uuid_vendor(d->vendors->key, driver, vendor->name, wire->device.id,
		       wire->uuid);
	row = gm_devices_find(d, wire->uuid);
	if (is_served(d, wire)) {
		if (d->vendors->looks_again)
			return;
		gm_log(GM_LOG_INFO, "device_left_out",
		       "driver=%s vendor=%s device=%s why=%s", driver,
		       vendor->name, gm_quote(wire->device.id).text,
		       gm_quote("another row has the card at its address")
			       .text);
		return;
	}
	if (is_main && gm_meminfo_open(NULL, 0, &memory) != 0)
		return;
	if (is_main && facts->total_bytes > most)
		facts->total_bytes = most;
	if (!row || !row->present || row->bars)
		gm_log(GM_LOG_INFO, "device_listed",
		       "driver=%s vendor=%s device=%s name=%s version=%s",
		       driver, vendor->name, gm_quote(wire->device.id).text,
		       gm_quote(wire->device.name).text,
		       gm_quote(wire->text).text);
	wire->text[0] = '\0';
	d->vendors->n_found[vendor->driver]++;
	d->vendors->reader->found(d, wire, vendor->library,
				  is_main ? &memory : NULL);
}

static bool on_record(struct gm_child *child, void *record)
{
	struct gm_vendor *vendor = gm_owner(child, struct gm_vendor, child);
	struct gm_probe_wire *wire = record;

	if (!gm_reports_check(wire, GM_ROLE_LIST))
		return false;
	if (wire->type == GM_PROBE_DONE && wire->health != GM_PROBE_USABLE)
		snprintf(vendor->why, sizeof(vendor->why), "%s", wire->text);
	else if (wire->type == GM_PROBE_DONE)
		vendor->is_listed = true;
	else if (wire->type == GM_PROBE_DEVICE && !vendor->is_listed &&
		 wire->device.facts.kind == drivers[vendor->driver].kind)
		hear_device(vendor, wire);
	return true;
}

/* ---- the life of a probe ------------------------------------------------- */

static void start_next(struct gm_daemon *d);

static void look_later(struct gm_daemon *d)
{
	if (d->vendors->n > 0)
		gm_timer_set(d->loop, &d->vendors->look,
			     gm_loop_now() + d->config->cuda_look_again_ns);
}

static void all_ended(struct gm_daemon *d)
{
	struct gm_vendors *vendors = d->vendors;

	for (uint32_t i = 0; i < GM_CONFIG_DRIVERS; i++)
		if (d->config->drivers[i].enabled != GM_CONFIG_CUDA_OFF &&
		    !vendors->looks_again)
			gm_log(GM_LOG_INFO, "vendors_listed",
			       "driver=%s devices=%u", name_of(i),
			       vendors->n_found[i]);
	vendors->is_asking = false;
	if (!vendors->looks_again)
		vendors->reader->listed(d);
	look_later(d);
}

static void is_broken(struct gm_vendor *vendor, const char *how)
{
	struct gm_vendors *vendors = vendor->d->vendors;
	char told[GM_WHY_BYTES];

	memcpy(told, vendors->why[vendor->driver], sizeof(told));
	if (vendor->child.why[0])
		snprintf(vendor->why, sizeof(vendor->why), "%s",
			 vendor->child.why);
	else if (!vendor->why[0])
		snprintf(vendor->why, sizeof(vendor->why),
			 "it ended the process that asked: %.64s", how);
	gm_why(vendors->why[vendor->driver], 0, "%s: %.180s", vendor->name,
	       vendor->why);
	if (vendors->looks_again &&
	    strcmp(told, vendors->why[vendor->driver]) == 0)
		return;
	gm_log(GM_LOG_WARNING, "vendor_broken",
	       "driver=%s vendor=%s library=%s why=%s", name_of(vendor->driver),
	       vendor->name, gm_quote(vendor->library).text,
	       gm_quote(vendor->why).text);
}

static void on_ended(struct gm_child *child, const char *how, int status)
{
	struct gm_vendor *vendor = gm_owner(child, struct gm_vendor, child);

	(void)status;
	if (!vendor->is_listed)
		is_broken(vendor, how);
	start_next(vendor->d);
}

static void on_stuck(struct gm_child *child)
{
	gm_child_abandon(child);
	on_ended(child, "", -1);
}

static const struct gm_child_kind listing = {
	.record_bytes = sizeof(struct gm_probe_wire),
	.said = on_record,
	.ended = on_ended,
	.stuck = on_stuck,
};

/* The probe compiles nothing; but PoCL shows no device without a folder. */
static int make_environment(const struct gm_config_driver *driver,
			    struct gm_environment *env)
{
	int error;

	gm_environment_init(env);
	error = gm_environment_set(env, "MESA_SHADER_CACHE_DISABLE", "true");
	if (error == 0 && driver->cache)
		error = gm_environment_set(env, "POCL_CACHE_DIR",
					   driver->cache);
	return error == 0 ? gm_environment_pass(env, driver->pass) : error;
}

static int start(struct gm_vendor *vendor)
{
	const struct gm_daemon *d = vendor->d;
	const struct gm_config *config = d->config;
	const struct gm_config_driver *driver =
		&config->drivers[vendor->driver];
	const char *kind = kind_of_devices(driver);
	struct gm_environment *env = malloc(sizeof(*env));
	char uid[16], gid[16];
	const char *argv[] = { d->probe_path,
			       "--list",
			       name_of(vendor->driver),
			       "--devices",
			       kind ? kind : "all",
			       "--library",
			       vendor->library,
			       "--sysfs",
			       config->cuda_sysfs ? config->cuda_sysfs : "",
			       "--uid",
			       uid,
			       "--gid",
			       gid,
			       config->cuda_enabled == GM_CONFIG_CUDA_OFF
				       ? "--with-nvidia"
				       : NULL,
			       NULL };
	int error;

	if (env == NULL)
		return -ENOMEM;
	snprintf(uid, sizeof(uid), "%u", (unsigned int)config->worker_uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned int)config->worker_gid);
	error = make_environment(driver, env);
	if (error == 0)
		error = gm_child_start(&vendor->child, d->loop, &listing, argv,
				       env->of);
	free(env);
	if (error == 0)
		gm_child_limit(&vendor->child, driver->list_limit_ns,
			       "it hangs: see list-limit in gpumapd.conf");
	return error;
}

/* One after the other: where two show one card, the first has it. */
static void start_next(struct gm_daemon *d)
{
	struct gm_vendors *vendors = d->vendors;
	int error = -1;

	while (error != 0 && vendors->n_asked < vendors->n) {
		struct gm_vendor *vendor =
			&vendors->vendors[vendors->n_asked++];

		error = start(vendor);
		if (error != 0)
			is_broken(vendor, strerror(-error));
	}
	if (error != 0)
		all_ended(d);
}

/* Is a row of theirs lost, which may be back, or its rights? */
static bool is_any_lost(const struct gm_daemon *d)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		const struct gm_device *device = d->devices->of[row];

		for (uint32_t i = 0; i < GM_CONFIG_DRIVERS; i++)
			if (device->facts.kind == drivers[i].kind &&
			    device->moving.state == GPUMAP_DEVICE_LOST &&
			    d->config->drivers[i].enabled != GM_CONFIG_CUDA_OFF)
				return true;
	}
	return false;
}

static void look_passed(struct gm_timer *timer)
{
	struct gm_vendors *vendors = gm_owner(timer, struct gm_vendors, look);

	if (is_any_lost(vendors->d))
		gm_vendors_look_again(vendors->d);
	else
		look_later(vendors->d);
}

void gm_vendors_look_again(struct gm_daemon *d)
{
	struct gm_vendors *vendors = d->vendors;

	if (!d->is_open || vendors->n == 0 || vendors->is_asking)
		return;
	gm_timer_stop(d->loop, &vendors->look);
	memset(vendors->n_found, 0, sizeof(vendors->n_found));
	for (uint32_t i = 0; i < vendors->n; i++) {
		vendors->vendors[i].is_listed = false;
		vendors->vendors[i].why[0] = '\0';
	}
	vendors->looks_again = vendors->is_asking = true;
	vendors->n_asked = 0;
	start_next(d);
}

void gm_vendors_start(struct gm_daemon *d,
		      const struct gm_vendors_reader *reader)
{
	struct gm_vendors *vendors = d->vendors;

	vendors->d = d;
	vendors->reader = reader;
	vendors->look.fired = look_passed;
	vendors->is_asking = true;
	gm_uuid_key(vendors->key);
	for (uint32_t i = 0; i < GM_CONFIG_DRIVERS; i++) {
		if (d->config->drivers[i].enabled == GM_CONFIG_CUDA_OFF)
			continue;
		if (drivers[i].suffix == NULL)
			add_kernel(d, i);
		else
			find_vendors(d, i);
	}
	start_next(d);
}

void gm_vendors_exit(struct gm_daemon *d)
{
	gm_timer_stop(d->loop, &d->vendors->look);
	/* One runs at a time. */
	for (uint32_t i = 0; i < d->vendors->n; i++)
		gm_child_exit(&d->vendors->vendors[i].child,
			      gm_loop_now() + LAST_WAIT_NS);
}
