/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * List the CUDA rows that this process could open, in the order in which its
 * own CUDA counts them.  The device table lists all devices; the device nodes
 * show which of them are available here.  In a container those are the devices
 * that were given to it.
 *
 * Only the permission of a node is checked, which includes the device cgroup's.
 * No node is opened, because that can start a card that sleeps.
 */

#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cuda_visible_devices.h"

/* May this process access one of the driver's files?  Tests use another
 * @root. */
static bool permits(const char *root, int mode, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool permits(const char *root, int mode, const char *format, ...)
{
	char path[PATH_MAX];
	int used = snprintf(path, sizeof(path), "%s", root);
	va_list args;

	if (used < 0 || (size_t)used >= sizeof(path))
		return false;
	va_start(args, format);
	vsnprintf(path + used, sizeof(path) - (size_t)used, format, args);
	va_end(args);
	return access(path, mode) == 0;
}

/* The number of the node that stands for a part of a split card; -1: no process
 * here may use the part. */
static int capability(const char *root, int32_t card, const char *part)
{
	static const char key[] = "DeviceFileMinor:";
	char path[PATH_MAX], text[256];
	const char *at;
	ssize_t n;
	int fd;

	if (snprintf(path, sizeof(path),
		     "%s/proc/driver/nvidia/capabilities/gpu%d/mig/%s/access",
		     root, (int)card, part) >= (int)sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n < 0)
		return -1;
	text[n] = '\0';
	at = strstr(text, key);
	return at != NULL ? atoi(at + sizeof(key) - 1) : -1;
}

static bool may_use_part(const char *root, int32_t card, const char *part)
{
	int minor = capability(root, card, part);

	return minor >= 0 &&
	       permits(root, R_OK, "/dev/nvidia-caps/nvidia-cap%d", minor);
}

/* An instance needs its card's node and one node for each of its levels.
 * Drivers without such nodes admit every process that may open the card. */
static bool may_open(const char *root, const struct gpumap_device *d)
{
	char part[48];

	if (d->minor_number >= 0 &&
	    !permits(root, R_OK | W_OK, "/dev/nvidia%d", (int)d->minor_number))
		return false;
	if (d->mig_gi < 0 || d->minor_number < 0 ||
	    !permits(root, F_OK, "/proc/driver/nvidia/capabilities"))
		return true;
	snprintf(part, sizeof(part), "gi%d", (int)d->mig_gi);
	if (!may_use_part(root, d->minor_number, part))
		return false;
	snprintf(part, sizeof(part), "gi%d/ci%d", (int)d->mig_gi,
		 (int)d->mig_ci);
	return may_use_part(root, d->minor_number, part);
}

int gm_container_rows(const struct gpumap *map, const char *root,
		      const char *visible_devices, const char *device_order,
		      struct gm_visible_list *ret_list)
{
	struct gm_visible_device devices[GM_ROWS];
	struct gm_visible_node node = {
		.devices = devices, .order = gm_visible_order(device_order)
	};
	/* Under WSL cards have no nodes of their own: one stands for all. */
	bool has_nodes = !permits(root, F_OK, "/dev/dxg");
	uint32_t n = gpumap_device_count(map);

	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device d = { .size = sizeof(d) };
		int ret = gpumap_device_read(map, row, &d);

		if (ret != 0 && ret != -ENODEV)
			return ret;
		/* Others are none that a driver would know. */
		if (ret != 0 || d.kind != GPUMAP_DEVICE_CUDA ||
		    d.state == GPUMAP_DEVICE_LOST)
			continue;
		devices[node.n_devices] = gm_visible_of(&d);
		if (has_nodes && !may_open(root, &d))
			devices[node.n_devices].flags |= GM_VISIBLE_CLOSED;
		node.n_devices++;
		if (d.cuda_version > node.cuda_version)
			node.cuda_version = d.cuda_version;
	}
	gm_visible_pair(devices, node.n_devices);
	return gm_visible_resolve(&node, visible_devices, ret_list);
}

int gpumap_device_visible(struct gpumap *map, const char *visible_devices,
			  const char *device_order, uint32_t *ret_rows,
			  size_t n)
{
	struct gm_visible_list list;
	char why[GM_WHY] = "";
	int ret = gm_container_rows(map, "", visible_devices, device_order,
				    &list);

	if (ret != 0)
		return gm_refuse_plain(map, ret);
	if (list.stop != GM_VISIBLE_COMPLETE)
		snprintf(why, sizeof(why),
			 "CUDA_VISIBLE_DEVICES, from its byte %u: %s",
			 (unsigned int)list.at,
			 gm_visible_stop_text(list.stop));
	else if (list.n_dropped != 0)
		snprintf(why, sizeof(why),
			 "CUDA_VISIBLE_DEVICES: %u MIG instances are left out "
			 "that this driver does not show beside the others",
			 (unsigned int)list.n_dropped);
	gm_map_refuse(map, why);
	for (uint32_t i = 0; i < list.n && i < n; i++)
		ret_rows[i] = list.rows[i];
	return (int)list.n;
}
