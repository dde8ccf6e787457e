/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster: plans over nodes.  On thousands of small clusters made up by chance
 * the plan is the one that a search of all sets of nodes finds, which knows
 * nothing of the planner's shortcuts.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/model/plan/cluster.h"
#include "tests/support/dice.h"
#include "tests/support/layer_caches.h"
#include "tests/support/tap.h"

#define NODES   6
#define DEVICES 4
#define LAYERS  12
#define GIB     (UINT64_C(1) << 30)

static struct gm_plan_device devices[GM_CLUSTER_PLAN_NODES][8];
static struct gm_cluster_plan_node nodes[GM_CLUSTER_PLAN_NODES];
static char names[GM_CLUSTER_PLAN_NODES][16];
static uint64_t layer_bytes[256];
static struct gpumap_layer_cache caches[256];
static struct gm_plan_error error;

/* ---- an oracle ----------------------------------------------------------- */

/* Usable bytes of a device; hosts here, so all of them. */
static uint64_t room_of(uint32_t node, uint32_t d)
{
	return devices[node][d].avail;
}

/* The n-th largest, from 1 on; 0: it has not so many. */
static uint64_t nth_room(uint32_t node, uint32_t n)
{
	uint64_t best = 0;

	for (uint32_t d = 0; d < nodes[node].n_devices; d++) {
		uint32_t above = 0;

		for (uint32_t e = 0; e < nodes[node].n_devices; e++)
			above +=
				room_of(node, e) > room_of(node, d) ||
				(room_of(node, e) == room_of(node, d) && e < d);
		if (above + 1 == n)
			best = room_of(node, d);
	}
	return best;
}

static uint64_t cost(const struct gm_cluster_plan_request *q, uint32_t tp,
		     uint32_t from, uint32_t end)
{
	uint64_t sum = 0;

	for (uint32_t i = from; i < end; i++)
		sum += (q->ask.layer_bytes[i] + tp - 1) / tp;
	return sum;
}

/* One token and one byte of each score, of a rank's heads. */
static uint64_t activations(const struct gm_cluster_plan_request *q,
			    uint32_t tp)
{
	return (q->ask.n_heads + tp - 1) / tp;
}

/* The first stage has what is no layer's, the last a tied embedding. */
static uint64_t beside(const struct gm_cluster_plan_request *q, uint32_t stage,
		       uint32_t n)
{
	return stage == 0       ? q->ask.other_bytes
	       : stage + 1 == n ? q->ask.tied_bytes
				: 0;
}

/* Can the layers from @from on be in the stages from @stage on?  By trying each
 * length. */
static bool can_be(const struct gm_cluster_plan_request *q, uint32_t tp,
		   const uint64_t *rooms, uint32_t n, uint32_t stage,
		   uint32_t from)
{
	uint64_t other = activations(q, tp) + beside(q, stage, n);

	if (stage == n)
		return from == q->ask.n_layers;
	for (uint32_t end = from + 1; end <= q->ask.n_layers; end++) {
		if (cost(q, tp, from, end) + other > rooms[stage])
			return false;
		if (can_be(q, tp, rooms, n, stage + 1, end))
			return true;
	}
	return false;
}

struct answer {
	bool is_found;
	uint32_t cold, n, k, tp;
	/* how many nodes are fuller than each of the plan's, the warm ones
	 * first and the emptiest first of each */
	uint32_t vector[NODES];
	uint32_t set;
};

static bool is_fuller(uint32_t a, uint32_t b, uint32_t dpn)
{
	uint64_t x = nth_room(a, dpn), y = nth_room(b, dpn);

	return x < y || (x == y && a < b);
}

/* The nodes of @set that are warm, or not, the emptiest first. */
static uint32_t sorted(uint32_t set, int warm, uint32_t dpn,
		       uint32_t ret[NODES])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < NODES; i++) {
		uint32_t at = n;

		if ((set >> i & 1) == 0 ||
		    (warm >= 0 && nodes[i].is_warm != (warm != 0)))
			continue;
		while (at > 0 && is_fuller(ret[at - 1], i, dpn)) {
			ret[at] = ret[at - 1];
			at--;
		}
		ret[at] = i;
		n++;
	}
	return n;
}

static bool set_fits(const struct gm_cluster_plan_request *q, uint32_t set,
		     uint32_t k, uint32_t tp)
{
	uint32_t by[NODES], n = sorted(set, -1, k * tp, by), at = 0;
	uint64_t rooms[NODES * DEVICES];

	for (uint32_t place = 0; place < n; place++) {
		uint32_t i = place == 0 ? 0 : place + 1 == n ? 1 : place + 1;

		for (uint32_t s = 0; s < k; s++)
			rooms[at++] = nth_room(by[i], k * tp);
	}
	return can_be(q, tp, rooms, at, 0, 0);
}

static int compare(const struct answer *a, const struct answer *b)
{
	if (a->cold != b->cold)
		return a->cold < b->cold ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->k != b->k)
		return a->k < b->k ? -1 : 1;
	if (a->tp != b->tp)
		return a->tp < b->tp ? -1 : 1;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->vector[i] != b->vector[i])
			return a->vector[i] < b->vector[i] ? -1 : 1;
	return 0;
}

static void weigh(const struct gm_cluster_plan_request *q, uint32_t set,
		  uint32_t k, uint32_t tp, struct answer *best)
{
	struct answer a = { .is_found = true, .k = k, .tp = tp, .set = set };
	uint32_t by[NODES], at = 0;

	for (uint32_t i = 0; i < NODES; i++) {
		if ((set >> i & 1) == 0)
			continue;
		if (i >= q->n_nodes || nodes[i].n_devices < k * tp ||
		    nth_room(i, k * tp) == 0)
			return;
		a.n++;
		a.cold += !nodes[i].is_warm;
	}
	if ((q->take_nodes > 0 && a.n != q->take_nodes) ||
	    (q->pp > 0 && a.n * k != q->pp) || a.n * k > q->ask.n_layers)
		return;
	for (int warm = 1; warm >= 0; warm--) {
		uint32_t n = sorted(set, warm, k * tp, by);

		for (uint32_t i = 0; i < n; i++, at++)
			for (uint32_t j = 0; j < q->n_nodes; j++)
				a.vector[at] +=
					nodes[j].is_warm == (warm != 0) &&
					nodes[j].n_devices >= k * tp &&
					is_fuller(j, by[i], k * tp);
	}
	if ((!best->is_found || compare(&a, best) < 0) &&
	    set_fits(q, set, k, tp))
		*best = a;
}

static void search_all(const struct gm_cluster_plan_request *q,
		       struct answer *best)
{
	*best = (struct answer){ .is_found = false };
	for (uint32_t k = 1; k <= DEVICES; k++)
		for (uint32_t tp = 1; tp * k <= DEVICES; tp++) {
			if (q->tp > 0 ? tp != q->tp : (tp & (tp - 1)) != 0)
				continue;
			if (q->ask.n_heads % tp != 0)
				continue;
			if (q->take_devices > 0 && k * tp != q->take_devices)
				continue;
			for (uint32_t set = 1; set < 1u << q->n_nodes; set++)
				weigh(q, set, k, tp, best);
		}
}

/* ---- what is asked ------------------------------------------------------- */

static void throw_cluster(struct gm_cluster_plan_request *q)
{
	uint64_t room = 2 + dice(40);

	*q = (struct gm_cluster_plan_request){ .nodes = nodes,
					       .n_nodes = 1 + dice(NODES) };
	for (uint32_t i = 0; i < q->n_nodes; i++) {
		snprintf(names[i], sizeof(names[i]), "n%u", i);
		nodes[i] = (struct gm_cluster_plan_node){
			.name = names[i],
			.is_warm = dice(3) == 0,
			.n_devices = 1 + dice(DEVICES),
			.devices = devices[i],
		};
		for (uint32_t d = 0; d < nodes[i].n_devices; d++)
			devices[i][d] = (struct gm_plan_device){
				.row = 2 * d + 1,
				.links = dice(3),
				.is_host = true,
				.avail = dice(room),
			};
	}
	q->ask.n_layers = 1 + dice(LAYERS);
	q->ask.layer_bytes = layer_bytes;
	q->ask.other_bytes = dice(8);
	q->ask.tied_bytes = dice(2) ? q->ask.other_bytes : 0;
	q->ask.n_heads = dice(3) == 0 ? 0 : 1 + dice(16);
	q->ask.max_seq_len = 1;
	for (uint32_t i = 0; i < q->n_nodes; i++)
		for (uint32_t d = 0; d < nodes[i].n_devices; d++)
			devices[i][d].avail += q->ask.n_heads;
	for (uint32_t i = 0; i < q->ask.n_layers; i++)
		layer_bytes[i] = dice(3) == 0 || i == 0 ? 1 + dice(12)
							: layer_bytes[i - 1];
	if (dice(3) == 0)
		q->take_nodes = 1 + dice(q->n_nodes);
	if (dice(4) == 0)
		q->tp = 1 + dice(DEVICES);
	if (dice(4) == 0)
		q->pp = 1 + dice(4);
	if (dice(4) == 0)
		q->take_devices = 1 + dice(DEVICES);
}

/* ---- what is answered ---------------------------------------------------- */

/* Every byte again, from the request alone. */
static bool is_whole(const struct gm_cluster_plan_request *q,
		     const struct gm_cluster_plan *p)
{
	uint32_t layer = 0, at[GM_CLUSTER_PLAN_TAKEN] = { 0 };
	bool taken[GM_CLUSTER_PLAN_TAKEN][32] = { 0 };

	if (p->n_ranks != p->n_stages * p->tp || p->n_nodes == 0)
		return false;
	for (uint32_t i = 0; i < p->n_stages; i++) {
		const struct gm_cluster_plan_stage *s = &p->stages[i];

		if (s->first_layer != layer || s->n_layers == 0 ||
		    s->node >= p->n_nodes ||
		    (i > 0 && s->node != p->stages[i - 1].node &&
		     s->node != p->stages[i - 1].node + 1))
			return false;
		layer += s->n_layers;
		at[s->node]++;
	}
	if (layer != q->ask.n_layers || p->stages[0].node != 0 ||
	    p->stages[p->n_stages - 1].node + 1 != p->n_nodes)
		return false;
	for (uint32_t r = 0; r < p->n_ranks; r++) {
		const struct gm_cluster_plan_rank *rank = &p->ranks[r];
		const struct gm_cluster_plan_stage *s = &p->stages[r / p->tp];
		uint32_t node = p->nodes[rank->node], d = 0;

		while (d < nodes[node].n_devices &&
		       nodes[node].devices[d].row != rank->charge.row)
			d++;
		if (d == nodes[node].n_devices || taken[rank->node][d] ||
		    rank->node != s->node || rank->stage != r / p->tp)
			return false;
		taken[rank->node][d] = true;
		if (rank->charge.left_bytes > nodes[node].devices[d].avail ||
		    rank->charge.weight_bytes !=
			    cost(q, p->tp, s->first_layer,
				 s->first_layer + s->n_layers) +
				    beside(q, r / p->tp, p->n_stages) ||
		    rank->charge.activation_bytes != activations(q, p->tp) ||
		    gm_plan_charge_bytes(&rank->charge) +
				    rank->charge.left_bytes !=
			    nodes[node].devices[d].avail)
			return false;
	}
	for (uint32_t i = 1; i < p->n_nodes && !q->is_free; i++)
		if (at[i] != at[0])
			return false;
	return true;
}

static bool is_same(const struct answer *a, const struct gm_cluster_plan *p)
{
	uint32_t set = 0;

	for (uint32_t i = 0; i < p->n_nodes; i++)
		set |= 1u << p->nodes[i];
	return set == a->set && p->tp == a->tp && p->n_nodes == a->n &&
	       p->n_stages == a->n * a->k;
}

static void a_plan_is_what_a_search_of_all_sets_finds(void)
{
	uint32_t n_found = 0, n_wrong = 0, n_broken = 0, n_none = 0;
	uint32_t n_two = 0, n_unlike = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		struct gm_cluster_plan_request q;
		struct gm_cluster_plan p = { .n_nodes = 0 }, again;
		struct answer a;
		int ret;

		throw_cluster(&q);
		search_all(&q, &a);
		ret = gm_cluster_plan_make(&q, &p, &error);
		n_found += ret == 0;
		n_two += ret == 0 && p.n_nodes > 1;
		n_none += ret == -ENOSPC;
		if ((ret == 0) != a.is_found ||
		    (ret == 0 && !is_same(&a, &p))) {
			if (n_wrong++ < 3)
				NOTE("cluster %u: %d \"%s\" %u nodes, %u "
				     "stages of %u, not %d: %#x, %u of %u",
				     i, ret, ret != 0 ? error.text : "",
				     p.n_nodes, p.n_stages, p.tp, a.is_found,
				     a.set, a.k, a.tp);
		}
		n_broken += ret == 0 && !is_whole(&q, &p);
		if (ret == 0) {
			gm_cluster_plan_make(&q, &again, &error);
			n_unlike += memcmp(p.ranks, again.ranks,
					   p.n_ranks * sizeof(*p.ranks)) != 0;
			gm_cluster_plan_free(&again);
		}
		gm_cluster_plan_free(&p);
	}
	NOTE("%u plans, %u on several nodes, %u that do not fit", n_found,
	     n_two, n_none);
	EQ(n_wrong, 0);
	EQ(n_broken, 0);
	EQ(n_unlike, 0);
	OK(n_found > 2000 && n_two > 1000 && n_none > 1000);
}

/* Without weights of no layer, equal layers fit if the devices' rooms in whole
 * layers are enough, whatever the order. */
static void free_plans_fit_where_devices_have_room(void)
{
	uint32_t n_found = 0, n_wrong = 0, n_broken = 0, n_none = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		struct gm_cluster_plan_request q;
		struct gm_cluster_plan p = { .n_nodes = 0 };
		uint64_t most = 0, equal, n_all = 0;
		int ret;

		throw_cluster(&q);
		q.is_free = true;
		q.tp = q.pp = q.take_devices = q.take_nodes = 0;
		q.ask.other_bytes = q.ask.tied_bytes = 0;
		equal = 1 + dice(8);
		for (uint32_t l = 0; l < q.ask.n_layers; l++)
			layer_bytes[l] = equal;
		for (uint32_t k = 0; k < q.n_nodes; k++)
			for (uint32_t d = 0; d < nodes[k].n_devices; d++) {
				n_all++;
				/* Each device that is taken has a layer. */
				if (devices[k][d].avail < equal + q.ask.n_heads)
					devices[k][d].avail =
						equal + q.ask.n_heads;
				most += (devices[k][d].avail - q.ask.n_heads) /
					equal;
			}
		ret = gm_cluster_plan_make(&q, &p, &error);
		n_found += ret == 0;
		n_none += ret == -ENOSPC;
		if ((ret == 0) != (most >= q.ask.n_layers) &&
		    n_all <= q.ask.n_layers && n_wrong++ < 3)
			NOTE("cluster %u: %d \"%s\"", i, ret,
			     ret != 0 ? error.text : "");
		n_broken += ret == 0 && !is_whole(&q, &p);
		gm_cluster_plan_free(&p);
	}
	EQ(n_wrong, 0);
	EQ(n_broken, 0);
	OK(n_found > 10000 && n_none > 1000);
}

/* ---- one at a time ------------------------------------------------------- */

/* @n nodes of @n_devices cards, each with @gib free. */
static void make_cards(struct gm_cluster_plan_request *q, uint32_t n,
		       uint32_t n_devices, uint64_t gib)
{
	*q = (struct gm_cluster_plan_request){ .nodes = nodes,
					       .n_nodes = n,
					       .ask.compute_dtype =
						       GPUMAP_DTYPE_BF16 };
	for (uint32_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "n%u", i);
		nodes[i] = (struct gm_cluster_plan_node){
			.name = names[i],
			.n_devices = n_devices,
			.devices = devices[i],
		};
		for (uint32_t d = 0; d < n_devices; d++)
			devices[i][d] = (struct gm_plan_device){
				.row = d, .links = 4, .avail = gib * GIB
			};
	}
}

/* As Llama 3 of 70 billion weights, BF16. */
static void make_model(struct gm_cluster_plan_request *q)
{
	for (uint32_t i = 0; i < 80; i++)
		layer_bytes[i] = UINT64_C(1711308800);
	q->ask.n_layers = 80;
	q->ask.layer_bytes = layer_bytes;
	q->ask.other_bytes = q->ask.tied_bytes = UINT64_C(4202692608);
	q->ask.n_heads = 64;
	q->ask.caches = fill_caches(caches, 80, 8, 128);
	q->ask.n_caches = 80;
}

/* "n0:0-39/4 n1:40-79/4": stages, and ranks of each; or the error. */
static const char *show(const struct gm_cluster_plan_request *q)
{
	static char text[1024];
	struct gm_cluster_plan p;
	char *at = text;

	if (gm_cluster_plan_make(q, &p, &error) != 0)
		return error.text;
	for (uint32_t i = 0; i < p.n_stages; i++) {
		const struct gm_cluster_plan_stage *s = &p.stages[i];

		at += sprintf(at, "%s%s:%u-%u/%u", i > 0 ? " " : "",
			      q->nodes[p.nodes[s->node]].name, s->first_layer,
			      s->first_layer + s->n_layers - 1, p.tp);
	}
	gm_cluster_plan_free(&p);
	return text;
}

/* Which rows of node 0 are taken, as a bit each. */
static uint32_t rows_taken(const struct gm_cluster_plan_request *q)
{
	struct gm_cluster_plan p;
	uint32_t rows = 0;

	if (gm_cluster_plan_make(q, &p, &error) != 0)
		return 0;
	for (uint32_t r = 0; r < p.n_ranks; r++)
		rows |= 1u << p.ranks[r].charge.row;
	gm_cluster_plan_free(&p);
	return rows;
}

/* The fewest nodes that will do are taken, and errors name what is missing. */
static void numbers_of_nodes_and_devices_are_kept(void)
{
	static const struct {
		uint32_t n_nodes, n_devices, gib; /* there are */
		uint32_t nodes, devices, tp, pp;  /* asked for; 0: any */
		const char *want;
	} cases[] = {
		{ 4, 8, 40, 0, 0, 0, 0, "n0:0-79/4" },
		{ 4, 8, 40, 0, 2, 0, 0, "n0:0-39/2 n1:40-79/2" },
		{ 4, 8, 40, 0, 2, 1, 0,
		  "n0:0-18/1 n0:19-39/1 n1:40-60/1 n1:61-79/1" },
		{ 4, 8, 40, 4, 0, 0, 0,
		  "n0:0-18/1 n1:19-39/1 n2:40-60/1 n3:61-79/1" },
		{ 4, 8, 40, 0, 0, 0, 3, "n0:0-25/2 n0:26-53/2 n0:54-79/2" },
		{ 4, 8, 40, 0, 0, 8, 0, "n0:0-79/8" },
		{ 2, 2, 24, 0, 0, 0, 0,
		  "52 of 80 layers fit on nodes n0, n1, 2 devices each: n0 "
		  "lacks 44.9 GiB on a device for the others" },
		{ 2, 2, 24, 0, 0, 2, 0,
		  "48 of 80 layers fit on nodes n0, n1, 2 devices each: n0 "
		  "lacks 25.5 GiB on each device for the others" },
		{ 2, 2, 24, 3, 0, 0, 0,
		  "2 nodes can take a part of the model, and 3 are wanted" },
		{ 2, 2, 24, 0, 0, 4, 0,
		  "No node has 4 devices that a plan may take: n0 has most, "
		  "2" },
		{ 2, 2, 24, 0, 0, 3, 0,
		  "The model's 64 attention heads are not to be divided by 3 "
		  "tensor parallel ranks" },
		{ 2, 2, 24, 0, 0, 0, 81,
		  "The model has 80 layers, and 81 stages have one each at "
		  "least" },
		{ 2, 2, 24, 2, 0, 0, 3,
		  "3 stages are not to be divided by 2 nodes" },
		{ 2, 2, 24, 2, 3, 2, 0,
		  "3 devices of a node are not to be divided by 2 tensor "
		  "parallel ranks" },
		{ 0, 2, 24, 0, 0, 0, 0,
		  "0 nodes can take a part of the model, and 1 is wanted" },
		{ 2, 2, 0, 0, 0, 0, 0,
		  "Too few nodes have so many devices with free memory" },
	};
	struct gm_cluster_plan_request q;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_cards(&q, cases[i].n_nodes, cases[i].n_devices,
			   cases[i].gib);
		make_model(&q);
		q.take_nodes = cases[i].nodes;
		q.take_devices = cases[i].devices;
		q.tp = cases[i].tp;
		q.pp = cases[i].pp;
		STR(show(&q), cases[i].want);
	}
	make_cards(&q, 1, 8, 80);
	make_model(&q);
	layer_bytes[3] = UINT64_MAX;
	STR(show(&q), "The plan's sizes come to 2^64 bytes or more");
}

static void warm_nodes_are_preferred_to_fewer(void)
{
	struct gm_cluster_plan_request q;

	make_cards(&q, 4, 8, 40);
	make_model(&q);
	nodes[1].is_warm = nodes[3].is_warm = true;
	nodes[1].n_devices = nodes[3].n_devices = 2;
	STR(show(&q), "n1:0-39/2 n3:40-79/2");
	nodes[3].is_warm = false;
	STR(show(&q), "n0:0-79/4");
}

/* One node of hosts with so many bytes each, and layers of a byte. */
static void make_hosts(struct gm_cluster_plan_request *q, uint32_t n_layers,
		       uint32_t n, const uint64_t *rooms)
{
	make_cards(q, 1, n, 0);
	for (uint32_t d = 0; d < n; d++) {
		devices[0][d].is_host = true;
		devices[0][d].avail = rooms[d];
	}
	for (uint32_t i = 0; i < n_layers; i++)
		layer_bytes[i] = 1;
	q->ask.n_layers = n_layers;
	q->ask.layer_bytes = layer_bytes;
}

static void equal_devices_differ_by_a_layer_at_most(void)
{
	struct gm_cluster_plan_request q;

	make_hosts(&q, 10, 3, (const uint64_t[]){ 9, 9, 9 });
	q.pp = 3;
	STR(show(&q), "n0:0-3/1 n0:4-6/1 n0:7-9/1");
}

static void free_plans_take_the_emptiest_devices(void)
{
	struct gm_cluster_plan_request q;

	make_hosts(&q, 14, 3, (const uint64_t[]){ 5, 5, 9 });
	q.is_free = true;
	STR(show(&q), "n0:0-4/1 n0:5-13/1");
	EQ(rows_taken(&q), 0x5);
}

static void layers_follow_the_room_of_nodes(void)
{
	struct gm_cluster_plan_request q;

	make_cards(&q, 2, 4, 80);
	make_model(&q);
	q.ask.other_bytes = q.ask.tied_bytes = 0;
	q.take_nodes = 2;
	q.take_devices = 4;
	for (uint32_t d = 0; d < 4; d++)
		devices[1][d].avail = 27 * GIB;
	STR(show(&q), "n0:0-59/4 n1:60-79/4");
	/* Each of the two has a tied embedding. */
	q.ask.other_bytes = q.ask.tied_bytes = 20 * GIB;
	STR(show(&q), "n0:0-71/4 n1:72-79/4");
}

static void devices_with_links_come_before_fuller_ones(void)
{
	struct gm_cluster_plan_request q;

	make_cards(&q, 1, 8, 80);
	make_model(&q);
	q.tp = 4;
	EQ(rows_taken(&q), 0x0f);
	devices[0][6].avail = devices[0][7].avail = 70 * GIB;
	EQ(rows_taken(&q), 0xc3);
	devices[0][1].links = devices[0][4].links = 18;
	EQ(rows_taken(&q), 0xd2);
}

static void a_node_alone_is_charged_as_ranks_of_nccl(void)
{
	struct gm_cluster_plan_request q;
	struct gm_plan_device rows[4];
	struct gm_cluster_plan p;
	struct gm_plan one;
	struct gm_plan_request r = { .devices = rows, .n_devices = 4 };

	make_cards(&q, 1, 4, 80);
	make_model(&q);
	q.tp = 4;
	q.ask.max_seq_len = 8192;
	q.ask.max_batch_size = 3;
	r.ask = q.ask;
	r.ask.setting = GPUMAP_SETTING_NCCL;
	r.ask.n_rows = 4;
	for (uint32_t i = 0; i < 4; i++)
		rows[i] = (struct gm_plan_device){ .row = i,
						   .is_cuda = true,
						   .cc_major = 9,
						   .avail = 80 * GIB,
						   .total = 80 * GIB };
	if (!EQ(gm_cluster_plan_make(&q, &p, &error), 0) ||
	    !EQ(gm_plan_make(&r, &one, NULL, &error), 0))
		return;
	for (uint32_t i = 0; i < 4; i++)
		OK(memcmp(&p.ranks[i].charge, &one.charges[i],
			  sizeof(one.charges[i])) == 0);
	gm_cluster_plan_free(&p);
	gm_plan_free(&one);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A model that needs many nodes of many, and one that needs more than a plan
 * may have. */
static void a_thousand_nodes_are_planned_on(void)
{
	struct gm_cluster_plan_request q;
	struct gm_cluster_plan p;
	uint64_t start = now_us();

	make_cards(&q, GM_CLUSTER_PLAN_NODES, 8, 10);
	make_model(&q);
	for (uint32_t i = 0; i < q.n_nodes; i++) {
		nodes[i].is_warm = i % 7 == 0;
		for (uint32_t d = 0; d < 8; d++)
			devices[i][d].avail -= dice(4 * GIB);
	}
	if (!EQ(gm_cluster_plan_make(&q, &p, &error), 0))
		return;
	NOTE("on %u of %u nodes in %" PRIu64 " us", p.n_nodes, q.n_nodes,
	     now_us() - start);
	for (uint32_t i = 0; i < p.n_nodes; i++)
		OK(nodes[p.nodes[i]].is_warm);
	gm_cluster_plan_free(&p);
	for (uint32_t i = 0; i < 80; i++)
		layer_bytes[i] = 100 * GIB + i;
	start = now_us();
	EQ(gm_cluster_plan_make(&q, &p, &error), -ENOSPC);
	NOTE("refused in %" PRIu64 " us: %s", now_us() - start, error.text);
}

TAP_CASE()
{
	numbers_of_nodes_and_devices_are_kept();
	warm_nodes_are_preferred_to_fewer();
	equal_devices_differ_by_a_layer_at_most();
	free_plans_take_the_emptiest_devices();
	layers_follow_the_room_of_nodes();
	devices_with_links_come_before_fuller_ones();
	a_node_alone_is_charged_as_ranks_of_nccl();
	a_thousand_nodes_are_planned_on();
	a_plan_is_what_a_search_of_all_sets_finds();
	free_plans_fit_where_devices_have_room();
	return tap_done();
}
