/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/opencl.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/probe_wire.h"
#include "agent/common/text.h"
#include "agent/daemon/base/environment.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/devices/uuid.h"
#include "agent/daemon/health/cuda.h"
#include "gpumap.h"

#define SUFFIX       ".icd"
#define LAST_WAIT_NS UINT64_C(1000000000) /* for an exit at our end */

/* ---- the vendors --------------------------------------------------------- */

/* The word of [opencl] devices for the probe, NULL where it lists vendors. */
static const char *kind_of_devices(const struct gm_config *config)
{
	static const char *const kinds[] = { "gpu", "cpu", "all" };
	const char *text = config->opencl_devices;

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
	FILE *file = fopen(path, "re");
	bool is_read = file && fgets(ret_library, 256, file);
	size_t n = is_read ? strcspn(ret_library, " \t\r\n") : 0;

	if (file)
		fclose(file);
	ret_library[n] = '\0';
	return n > 0;
}

static void add_vendor(struct gm_daemon *d, const char *folder,
		       const char *file)
{
	struct gm_opencl_rows *rows = d->opencl;
	struct gm_opencl_vendor *vendor = &rows->vendors[rows->n];
	size_t n = strlen(file) - strlen(SUFFIX);
	char path[PATH_MAX];

	*vendor = (struct gm_opencl_vendor){ .d = d, .pidfd.fd = -1 };
	snprintf(vendor->name, sizeof(vendor->name), "%.*s", (int)n, file);
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (kind_of_devices(d->config) ||
	    is_listed(d->config->opencl_devices, vendor->name)) {
		if (read_library(path, vendor->library))
			rows->n++;
		else
			gm_log(GM_LOG_WARNING, "opencl_vendor_unread",
			       "path=%s", gm_quote(path).text);
	}
}

static int is_icd(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return n > strlen(SUFFIX) && n < 64 &&
	       strcmp(entry->d_name + n - strlen(SUFFIX), SUFFIX) == 0;
}

/* In the order of their names, which is that of rows without addresses. */
static void find_vendors(struct gm_daemon *d)
{
	const char *folder = d->config->opencl_vendors
				     ? d->config->opencl_vendors
				     : "/etc/OpenCL/vendors";
	struct dirent **files = NULL;
	int n = scandir(folder, &files, is_icd, alphasort);

	for (int i = 0; i < n; i++) {
		if (d->opencl->n < GM_OPENCL_VENDORS)
			add_vendor(d, folder, files[i]->d_name);
		free(files[i]);
	}
	free(files);
	if (d->opencl->n == 0)
		snprintf(d->opencl->why, sizeof(d->opencl->why),
			 "%.150s has no file of a vendor that is wanted: "
			 "install a driver",
			 folder);
}

/* ---- what a probe says --------------------------------------------------- */

/* Two vendors may show one card. */
static bool is_served(const struct gm_daemon *d,
		      const struct gm_row_image *facts)
{
	if ((facts->known & GPUMAP_KNOWN_PCI) == 0)
		return false;
	for (uint32_t i = 0; i < d->cuda->n_found; i++) {
		const struct gm_row_image *other = &d->cuda->found[i]->facts;

		if ((other->known & GPUMAP_KNOWN_PCI) &&
		    other->pci_domain == facts->pci_domain &&
		    other->pci_bus == facts->pci_bus)
			return true;
	}
	return false;
}

/* A library may say anything. */
static void hear_device(struct gm_opencl_vendor *vendor,
			struct gm_probe_wire *wire)
{
	struct gm_daemon *d = vendor->d;
	struct gm_row_image *facts = &wire->device.facts;
	struct gm_meminfo memory;
	uint64_t most = d->config->opencl_cpu_memory;
	bool is_main = (facts->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0;

	if (is_served(d, facts)) {
		gm_log(GM_LOG_INFO, "opencl_device_left_out",
		       "vendor=%s device=%s why=%s", vendor->name,
		       gm_quote(wire->device.id).text,
		       gm_quote("another row has the card at its address")
			       .text);
		return;
	}
	if (is_main && gm_meminfo_open(NULL, 0, &memory) != 0)
		return;
	if (is_main && facts->total_bytes > most)
		facts->total_bytes = most;
	gm_uuid_opencl(d->opencl->key, vendor->name, wire->device.id,
		       wire->uuid);
	gm_log(GM_LOG_INFO, "opencl_device",
	       "vendor=%s device=%s name=%s version=%s", vendor->name,
	       gm_quote(wire->device.id).text, gm_quote(wire->device.name).text,
	       gm_quote(wire->text).text);
	wire->text[0] = '\0';
	vendor->n_devices++;
	d->opencl->n_found++;
	d->opencl->reader->found(d, wire, vendor->library,
				 is_main ? &memory : NULL);
}

static void close_texts(struct gm_probe_wire *wire)
{
	wire->text[sizeof(wire->text) - 1] = '\0';
	wire->device.name[sizeof(wire->device.name) - 1] = '\0';
	wire->device.id[sizeof(wire->device.id) - 1] = '\0';
	wire->device.facts.cpus[sizeof(wire->device.facts.cpus) - 1] = '\0';
}

static void hear(struct gm_opencl_vendor *vendor, struct gm_probe_wire *wire)
{
	if (wire->type == GM_PROBE_BROKEN) {
		wire->text[sizeof(wire->text) - 1] = '\0';
		snprintf(vendor->why, sizeof(vendor->why), "%s", wire->text);
	} else if (wire->type == GM_PROBE_LISTED) {
		vendor->is_listed = true;
	} else if (wire->type == GM_PROBE_DEVICE && !vendor->is_listed &&
		   wire->device.facts.kind == GPUMAP_DEVICE_OPENCL) {
		close_texts(wire);
		hear_device(vendor, wire);
	}
}

static void hear_all(struct gm_opencl_vendor *vendor)
{
	struct gm_probe_wire wire;
	ssize_t n;

	do {
		n = recv(vendor->socket.fd, &wire, sizeof(wire), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(wire))
			hear(vendor, &wire);
	} while (n > 0 || (n < 0 && errno == EINTR));
}

/* ---- the life of a probe ------------------------------------------------- */

static void all_ended(struct gm_daemon *d)
{
	gm_log(GM_LOG_INFO, "opencl_listed", "vendors=%u devices=%u",
	       d->opencl->n, d->opencl->n_found);
	if (d->opencl->n > 0 && !d->opencl->why[0])
		snprintf(d->opencl->why, sizeof(d->opencl->why),
			 "no vendor shows a device that is wanted");
	d->opencl->reader->listed(d);
}

static void forget(struct gm_opencl_vendor *vendor)
{
	struct gm_daemon *d = vendor->d;

	gm_timer_stop(d->loop, &vendor->limit);
	gm_loop_del(d->loop, &vendor->pidfd);
	gm_loop_del(d->loop, &vendor->socket);
	close(vendor->pidfd.fd);
	close(vendor->socket.fd);
	vendor->pidfd.fd = -1;
}

static void is_broken(struct gm_opencl_vendor *vendor, const char *how)
{
	struct gm_opencl_rows *rows = vendor->d->opencl;

	if (vendor->is_slow)
		snprintf(vendor->why, sizeof(vendor->why),
			 "it hangs: see opencl.list-limit");
	else if (!vendor->why[0])
		snprintf(vendor->why, sizeof(vendor->why),
			 "it ended the process that asked: %.64s", how);
	gm_log(GM_LOG_WARNING, "opencl_vendor_broken",
	       "vendor=%s library=%s why=%s", vendor->name,
	       gm_quote(vendor->library).text, gm_quote(vendor->why).text);
	gm_why(rows->why, 0, "%s: %.180s", vendor->name, vendor->why);
}

static void pidfd_ready(struct gm_source *source, uint32_t events)
{
	struct gm_opencl_vendor *vendor =
		gm_owner(source, struct gm_opencl_vendor, pidfd);
	struct gm_daemon *d = vendor->d;
	char how[64];
	int status;

	(void)events;
	if (!gm_spawn_reap(&vendor->child, how, &status))
		return;
	hear_all(vendor);
	forget(vendor);
	if (!vendor->is_listed)
		is_broken(vendor, how);
	if (--d->opencl->n_running == 0)
		all_ended(d);
}

static void socket_ready(struct gm_source *source, uint32_t events)
{
	struct gm_opencl_vendor *vendor =
		gm_owner(source, struct gm_opencl_vendor, socket);

	(void)events;
	hear_all(vendor);
	/* Its end is told by the process alone. */
	if (events & (EPOLLHUP | EPOLLERR))
		gm_loop_del(vendor->d->loop, source);
}

/* A second time where it does not end. */
static void limit_passed(struct gm_timer *timer)
{
	struct gm_opencl_vendor *vendor =
		gm_owner(timer, struct gm_opencl_vendor, limit);
	struct gm_daemon *d = vendor->d;

	if (!vendor->is_slow) {
		vendor->is_slow = true;
		kill(vendor->child.pid, SIGKILL);
		gm_timer_set(d->loop, timer,
			     gm_loop_now() + d->config->opencl_list_limit_ns);
		return;
	}
	gm_spawn_abandon(&vendor->child);
	forget(vendor);
	is_broken(vendor, "");
	if (--d->opencl->n_running == 0)
		all_ended(d);
}

static int watch(struct gm_opencl_vendor *vendor)
{
	struct gm_loop *loop = vendor->d->loop;
	int error;

	vendor->pidfd = (struct gm_source){ vendor->child.pidfd, pidfd_ready };
	vendor->socket =
		(struct gm_source){ vendor->child.socket, socket_ready };
	error = gm_loop_add(loop, &vendor->pidfd, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(loop, &vendor->socket, EPOLLIN);
	if (error != 0) {
		gm_spawn_undo(&vendor->child);
		forget(vendor);
		return error;
	}
	vendor->limit.fired = limit_passed;
	gm_timer_set(loop, &vendor->limit,
		     gm_loop_now() + vendor->d->config->opencl_list_limit_ns);
	return 0;
}

static int start(struct gm_opencl_vendor *vendor)
{
	const struct gm_daemon *d = vendor->d;
	const struct gm_config *config = d->config;
	const char *kind = kind_of_devices(config);
	struct gm_environment *env = malloc(sizeof(*env));
	char uid[16], gid[16];
	const char *argv[] = { d->probe_path,
			       "--opencl",
			       kind ? kind : "all",
			       "--library",
			       vendor->library,
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
	gm_environment_init(env);
	/* The probe compiles nothing; but PoCL shows no device without a
	 * folder. */
	error = gm_environment_set(env, "MESA_SHADER_CACHE_DISABLE", "true");
	if (error == 0 && config->opencl_cache)
		error = gm_environment_set(env, "POCL_CACHE_DIR",
					   config->opencl_cache);
	if (error == 0)
		error = gm_environment_pass(env, config->opencl_pass);
	if (error == 0)
		error = gm_spawn((char *const *)(uintptr_t)argv, env->of, -1,
				 -1, &vendor->child);
	free(env);
	return error == 0 ? watch(vendor) : error;
}

void gm_opencl_rows_start(struct gm_daemon *d,
			  const struct gm_opencl_reader *reader)
{
	struct gm_opencl_rows *rows = d->opencl;

	rows->reader = reader;
	if (d->config->opencl_enabled != GM_CONFIG_CUDA_OFF) {
		gm_uuid_key(rows->key);
		find_vendors(d);
	}
	for (uint32_t i = 0; i < rows->n; i++) {
		int error = start(&rows->vendors[i]);

		if (error == 0)
			rows->n_running++;
		else
			is_broken(&rows->vendors[i], strerror(-error));
	}
	if (rows->n_running == 0)
		reader->listed(d);
}

void gm_opencl_rows_exit(struct gm_daemon *d)
{
	uint64_t until = gm_loop_now() + LAST_WAIT_NS;

	for (uint32_t i = 0; i < d->opencl->n; i++) {
		struct gm_opencl_vendor *vendor = &d->opencl->vendors[i];
		struct pollfd p = { vendor->pidfd.fd, POLLIN, 0 };
		char how[64];
		int status;

		if (vendor->pidfd.fd < 0)
			continue;
		kill(vendor->child.pid, SIGKILL);
		while (!gm_spawn_reap(&vendor->child, how, &status) &&
		       gm_loop_now() < until)
			poll(&p, 1, 50);
		forget(vendor);
	}
}
