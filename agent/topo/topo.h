/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * topo - a node as a picture: NUMA nodes, their rows, and what of each model is
 * where.
 *
 *	topo.c		read it from the map and /sys, or from a node file
 *	pci_path.c	how far apart two cards are on the bus
 *	topo_text.c, topo_json.c, topo_dot.c, topo_svg.c, topo_html.c
 *			write it
 */
#ifndef GM_TOPO_H
#define GM_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

#include "gpumap.h"

/* The layers of one map on one row. */
struct gm_topo_part {
	char map[GPUMAP_NAME_MAX + 1];
	char layers[48]; /* "0-15,20"; cut with "..." */
	uint32_t n_layers;
	uint32_t color; /* of the map: its place among the maps */
	uint64_t bytes; /* that the map is charged there */
	bool is_committed;
};

/* A row's rank in a mesh, and the groups that the rank is in. */
struct gm_topo_rank {
	char mesh[GPUMAP_NAME_MAX + 1];
	char groups[96]; /* "tp_0 pp_1"; cut with "..." */
	uint32_t rank;
};

struct gm_topo_row {
	char links[128]; /* to other cards: "NV4 1,2; SYS 3" */
	struct gpumap_device device;
	struct gm_topo_part *parts;
	uint32_t n_parts;
	struct gm_topo_rank *ranks;
	uint32_t n_ranks;
};

struct gm_topo_node {
	int32_t id; /* -1: rows of no NUMA node */
	char cpus[256];
};

/* Two cards, by their rows. */
struct gm_topo_link {
	uint32_t a, b;
	const char *path; /* "PIX": see gm_pci_path(); NULL: not known */
	uint32_t nvlinks;
	char text[16]; /* "NV4" where there are NVLinks, else the path */
};

struct gm_topo {
	char name[GPUMAP_NAME_MAX + 1]; /* of the instance or the node file */
	struct gm_topo_row *rows;
	uint32_t n_rows;
	struct gm_topo_node nodes[GPUMAP_ROWS_MAX + 1];
	uint32_t n_nodes;
	struct gm_topo_link *links;
	uint32_t n_links;
};

/* Read the map; @root is "", or where /sys of its machine is.  Returns 0,
 * -ENOMEM, or as gpumap_device_read().  Give it back with gm_topo_free(), also
 * after an error. */
int gm_topo_read(const struct gpumap *map, const char *root,
		 struct gm_topo *ret_topo);

struct gm_nodefile;

/* The rows of a node file.  Returns as gm_topo_read(). */
int gm_topo_of_node(const struct gm_nodefile *node, struct gm_topo *ret_topo);

void gm_topo_free(struct gm_topo *topo);

/* The words before @part->layers. */
const char *gm_topo_part_word(const struct gm_topo_part *part);

/* The link between two rows, or NULL. */
const struct gm_topo_link *gm_topo_between(const struct gm_topo *topo,
					   uint32_t a, uint32_t b);

/* The row's memory: used by processes, promised to holders and not used by them
 * yet, and what is left of it. */
struct gm_topo_memory {
	uint64_t used, promised, left;
};

struct gm_topo_memory gm_topo_memory(const struct gpumap_device *device);

/* How far apart two PCI devices are below @root, in the words of nvidia-smi
 * topo -m: "PIX", one switch between them; "PXB", several; "PHB", a host
 * bridge; "NODE", host bridges of one NUMA node; "SYS", several nodes.  NULL:
 * /sys does not tell. */
const char *gm_pci_path(const char *root, const struct gpumap_device *a,
			const struct gpumap_device *b);

#define GM_TOPO_BAR 284 /* pixels: a row's memory in the picture */

/* Write the row's memory as a bar: '#' used, '=' promised, '.' free. */
void gm_topo_bar(FILE *to, const struct gpumap_device *device);

/* Write it. */
void gm_topo_text(FILE *to, const struct gm_topo *topo);
void gm_topo_dot(FILE *to, const struct gm_topo *topo);
void gm_topo_svg(FILE *to, const struct gm_topo *topo);
/* A page that shows the picture, and has it follow topo.json beside it. */
void gm_topo_html(FILE *to, const struct gm_topo *topo);
json_t *gm_topo_json(const struct gm_topo *topo);

#endif
