/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/read_file.h"
#include "agent/doctor/doctor.h"

#define PCI    "/sys/bus/pci/devices"
#define NVIDIA 0x10de

/* ---- cards on the bus ---------------------------------------------------- */

struct card {
	char address[32]; /* "0000:17:00.0" */
	char driver[32];  /* "": none */
};

struct cards {
	struct card v[64];
	uint32_t n;
};

static int64_t hex(const struct gm_doctor *d, const char *address,
		   const char *file)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), PCI "/%s/%s", address, file);
	if (!gm_doctor_line(d, path, text, sizeof(text)))
		return -1;
	return strtoll(text, NULL, 16);
}

/* The name of the driver that has the device. */
static void find_driver(const struct gm_doctor *d, struct card *card)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t n;

	card->driver[0] = '\0';
	if (gm_read_file_path(path, sizeof(path), d->root, PCI "/%s/driver",
			      card->address) != 0)
		return;
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	name = strrchr(target, '/');
	snprintf(card->driver, sizeof(card->driver), "%.31s",
		 name != NULL ? name + 1 : target);
}

/* List NVIDIA's devices of the class of displays, 0x03. */
static void find_cards(const struct gm_doctor *d, struct cards *ret_cards)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *folder;

	ret_cards->n = 0;
	if (gm_read_file_path(path, sizeof(path), d->root, PCI) != 0)
		return;
	folder = opendir(path);
	while (folder != NULL && (entry = readdir(folder)) != NULL &&
	       ret_cards->n < 64) {
		struct card *card = &ret_cards->v[ret_cards->n];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(card->address, sizeof(card->address), "%.31s",
			 entry->d_name);
		if (hex(d, card->address, "vendor") != NVIDIA ||
		    hex(d, card->address, "class") >> 16 != 3)
			continue;
		find_driver(d, card);
		ret_cards->n++;
	}
	if (folder != NULL)
		closedir(folder);
}

static bool has_cards(const struct gm_doctor *d, struct gm_finding *f,
		      struct cards *ret_cards)
{
	find_cards(d, ret_cards);
	if (ret_cards->n > 0)
		return true;
	gm_finding_skip(f, "the bus has no card of NVIDIA's");
	return false;
}

static void look_at_drivers(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;

	if (!has_cards(d, f, &cards))
		return;
	for (uint32_t i = 0; i < cards.n; i++) {
		const struct card *card = &cards.v[i];

		if (strcmp(card->driver, "nvidia") == 0)
			continue;
		if (strcmp(card->driver, "nouveau") == 0)
			gm_finding_fail(f,
					"blacklist nouveau in /etc/modprobe.d, "
					"and restart the machine",
					"card %s belongs to nouveau, not to "
					"NVIDIA's driver",
					card->address);
		else if (strcmp(card->driver, "vfio-pci") == 0)
			gm_finding_warn(f,
					"nothing, if it is meant for a "
					"virtual machine",
					"card %s belongs to vfio-pci",
					card->address);
		else
			gm_finding_fail(f,
					"modprobe nvidia; dmesg | grep -i "
					"nvrm",
					"card %s has no driver of NVIDIA's",
					card->address);
		return;
	}
	gm_finding_pass(f, "NVIDIA's driver has all %u cards", cards.n);
}

static void look_at_rows(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;
	uint32_t n = 0;

	if (!has_cards(d, f, &cards))
		return;
	if (d->map == NULL) {
		gm_finding_skip(f, "there is no map");
		return;
	}
	for (uint32_t i = 0; i < d->n_rows; i++)
		n += d->rows[i].kind == GPUMAP_DEVICE_CUDA &&
		     d->rows[i].mig_gi < 0 &&
		     d->rows[i].state != GPUMAP_DEVICE_LOST;
	if (n < cards.n)
		gm_finding_warn(f,
				"devices of [cuda] in gpumapd.conf may leave "
				"some out; journalctl -u gpumapd; while one is "
				"off the bus no others begin to use NCCL",
				"the bus has %u cards, and the map %u", cards.n,
				n);
	else
		gm_finding_pass(f, "the map has all %u cards", cards.n);
}

/* ---- the driver ---------------------------------------------------------- */

/* The version behind "Kernel Module ", "535.261.03". */
static bool find_version(const struct gm_doctor *d, char ret_version[32])
{
	char line[256], *at;

	if (!gm_doctor_line(d, "/proc/driver/nvidia/version", line,
			    sizeof(line)))
		return false;
	for (at = strstr(line, "Kernel Module"); at != NULL && *at != '\0';
	     at++)
		if (isdigit((unsigned char)*at) && strchr(at, '.') != NULL)
			break;
	if (at == NULL || *at == '\0')
		return false;
	snprintf(ret_version, 32, "%.*s", (int)strspn(at, "0123456789."), at);
	return true;
}

static void look_at_module(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;
	char version[32];

	if (!has_cards(d, f, &cards))
		return;
	if (find_version(d, version))
		gm_finding_pass(f, "NVIDIA's driver is %s", version);
	else
		gm_finding_fail(f,
				"modprobe nvidia; install the driver for "
				"this kernel, dkms status",
				"NVIDIA's kernel module is not loaded");
}

static const char *const folders[] = {
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/usr/lib64",
	"/usr/lib",
	"/usr/lib/wsl/lib",
	"/usr/local/lib",
};

/* Find the library @name, and the version in the name of the file behind it.
 * Returns false if there is none. */
static bool find_library(const struct gm_doctor *d, const char *name,
			 char ret_path[PATH_MAX], char ret_version[32])
{
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char target[PATH_MAX], *version;
		ssize_t n;

		if (gm_read_file_path(ret_path, PATH_MAX, d->root, "%s/%s",
				      folders[i], name) != 0 ||
		    access(ret_path, F_OK) != 0)
			continue;
		ret_version[0] = '\0';
		n = readlink(ret_path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		version = strstr(target, ".so.");
		if (version != NULL)
			snprintf(ret_version, 32, "%.31s", version + 4);
		return true;
	}
	return false;
}

static const char *const libraries[] = { "libcuda.so.1", "libnvidia-ml.so.1" };

static void look_at_libraries(const struct gm_doctor *d, struct gm_finding *f)
{
	char path[2][PATH_MAX], version[32];
	struct cards cards;

	if (!has_cards(d, f, &cards))
		return;
	for (size_t i = 0; i < 2; i++)
		if (!find_library(d, libraries[i], path[i], version)) {
			gm_finding_fail(f,
					"install the driver's libraries: "
					"libcuda1 and libnvidia-ml1; in a "
					"container NVIDIA's container toolkit",
					"there is no %s", libraries[i]);
			return;
		}
	gm_finding_pass(f, "%.140s, %.140s", path[0] + strlen(d->root),
			path[1] + strlen(d->root));
}

/* A library that was upgraded without its module finds no card. */
static void look_at_skew(const struct gm_doctor *d, struct gm_finding *f)
{
	char path[PATH_MAX], module[32], version[32];

	if (!find_version(d, module)) {
		gm_finding_skip(f, "NVIDIA's kernel module is not loaded");
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		if (!find_library(d, libraries[i], path, version) ||
		    version[0] == '\0' || strchr(version, '.') == NULL ||
		    strcmp(version, module) == 0)
			continue;
		gm_finding_fail(f,
				"restart the machine; or stop gpumapd and all "
				"users of cards, rmmod nvidia_uvm nvidia, "
				"modprobe nvidia",
				"the kernel's driver is %s and %s is %s",
				module, libraries[i], version);
		return;
	}
	gm_finding_pass(f, "module and libraries are of version %s", module);
}

static void look_at_nodes(const struct gm_doctor *d, struct gm_finding *f)
{
	static const char *const nodes[] = { "/dev/nvidiactl",
					     "/dev/nvidia-uvm",
					     "/dev/nvidia0" };
	struct cards cards;

	if (!has_cards(d, f, &cards))
		return;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!gm_doctor_exists(d, nodes[i])) {
			gm_finding_fail(f,
					"nvidia-modprobe -c 255 -c 0; "
					"nvidia-modprobe -u -c 0; restart "
					"gpumapd; in a container give it the "
					"devices",
					"there is no %s", nodes[i]);
			return;
		}
	gm_finding_pass(f, "the device nodes are there");
}

static void look_at_persistence(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;

	if (!has_cards(d, f, &cards))
		return;
	if (gm_doctor_exists(d, "/run/nvidia-persistenced/socket"))
		gm_finding_pass(f, "nvidia-persistenced runs");
	else
		gm_finding_warn(f,
				"systemctl enable --now "
				"nvidia-persistenced",
				"nvidia-persistenced does not run: the driver "
				"forgets its settings whenever no process has "
				"a card");
}

static void look_at_mps(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;

	if (!has_cards(d, f, &cards))
		return;
	if (gm_doctor_exists(d, "/tmp/nvidia-mps/control") ||
	    gm_doctor_exists(d, "/run/nvidia-mps/control"))
		gm_finding_warn(
			f,
			"gpumapd's workers stay out of it unless mps = yes in "
			"[cuda] of gpumapd.conf; see MPS in gpumapd(8)",
			"a daemon of MPS runs: one client's fault ends the "
			"others");
	else
		gm_finding_pass(f, "no daemon of MPS runs");
}

/* HMM and ATS: a client's program can become its worker then. */
static void look_at_reach(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;
	char modules[256];
	bool is_wide = false;

	if (!has_cards(d, f, &cards))
		return;
	if (d->map == NULL) {
		gm_finding_skip(f, "there is no map");
		return;
	}
	for (uint32_t i = 0; i < d->n_rows; i++)
		is_wide |= (d->rows[i].flags & GPUMAP_DEVICE_PAGEABLE) != 0;
	if (!is_wide)
		gm_finding_pass(f, "what runs on a card reaches no memory but "
				   "that which it was given");
	else if (gm_doctor_line(d, "/sys/kernel/security/lsm", modules,
				sizeof(modules)) &&
		 strstr(modules, "landlock") != NULL)
		gm_finding_pass(f, "programs on a card reach all of their "
				   "worker (HMM or ATS), which may change no "
				   "file but below /dev");
	else
		gm_finding_warn(f,
				"lsm=landlock before the others on the "
				"kernel's command line; or uvm_disable_hmm=1 "
				"for the module nvidia_uvm; or policy = "
				"operators-only in [programs]",
				"programs on a card reach all of their worker "
				"(HMM or ATS), and Landlock does not keep it "
				"from files");
}

/* ---- the bus ------------------------------------------------------------- */

/* Does the IOMMU translate what the card reads? */
static bool is_translated(const struct gm_doctor *d, const struct card *card)
{
	char path[128], type[32];

	snprintf(path, sizeof(path), PCI "/%s/iommu_group/type", card->address);
	return gm_doctor_line(d, path, type, sizeof(type)) &&
	       strncmp(type, "DMA", 3) == 0;
}

static void look_at_iommu(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;

	if (!has_cards(d, f, &cards))
		return;
	for (uint32_t i = 0; i < cards.n; i++) {
		if (cards.n < 2 || !is_translated(d, &cards.v[i]))
			continue;
		gm_finding_warn(f,
				"iommu=pt on the kernel's command line, and "
				"ACS off in the BIOS where users are trusted",
				"the IOMMU translates accesses of card %s: "
				"copies between cards are slow, or wrong",
				cards.v[i].address);
		return;
	}
	gm_finding_pass(f, "no IOMMU is between the cards");
}

static void look_at_links(const struct gm_doctor *d, struct gm_finding *f)
{
	struct cards cards;

	if (!has_cards(d, f, &cards))
		return;
	for (uint32_t i = 0; i < cards.n; i++) {
		const char *address = cards.v[i].address;
		char path[128];
		int64_t now, most;

		snprintf(path, sizeof(path), PCI "/%s/current_link_width",
			 address);
		now = gm_doctor_number(d, path, 0);
		snprintf(path, sizeof(path), PCI "/%s/max_link_width", address);
		most = gm_doctor_number(d, path, 0);
		if (now == 0 || now >= most)
			continue;
		gm_finding_warn(f,
				"seat the card anew, or use another slot; a "
				"slot may have fewer lanes than the card",
				"card %s uses %" PRId64 " of %" PRId64 " lanes",
				address, now, most);
		return;
	}
	gm_finding_pass(f, "each card has all its lanes");
}

const struct gm_check gm_doctor_cards[] = {
	{ "cards.driver", look_at_drivers },
	{ "cards.module", look_at_module },
	{ "cards.libraries", look_at_libraries },
	{ "cards.versions", look_at_skew },
	{ "cards.device_nodes", look_at_nodes },
	{ "cards.rows", look_at_rows },
	{ "cards.persistence", look_at_persistence },
	{ "cards.mps", look_at_mps },
	{ "cards.reach", look_at_reach },
	{ "cards.iommu", look_at_iommu },
	{ "cards.link_width", look_at_links },
	{ NULL, NULL },
};
