/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Choose the nodes, and charge their devices. */

#include "lib/model/plan/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/checked.h"
#include "lib/model/plan/cluster_fit.h"
#include "lib/model/plan/heads.h"
#include "lib/model/plan/size_text.h"

#define TAKEN GM_CLUSTER_PLAN_TAKEN

/* A node that can take part, by its room, the fullest first. */
struct candidate {
	uint64_t room; /* of the fullest device of those that are emptiest; with
			* is_free of all of them together */
	uint64_t sum;  /* of the room of all stages, here and on the emptier
			* nodes of the list */
	uint32_t node;
};

/* How many stages each node has, and on how many devices each; and the nodes
 * that have so many. */
struct form {
	uint32_t k;
	uint32_t tp;
	bool is_made;
	struct gm_cluster_fit fit;  /* what a rank takes */
	struct candidate *lists[2]; /* the others, and warm ones */
	uint32_t n[2];
};

struct search {
	const struct gm_cluster_plan_request *q;
	struct gm_plan_error *err;
	uint64_t (*rooms)[GM_CLUSTER_PLAN_DEVICES]; /* of each node's devices,
						     * the emptiest first */
	struct form *forms;
	uint32_t n_forms;
	uint32_t n_most; /* nodes of a plan */
};

static int no_memory(const struct search *s)
{
	return gm_error_no_memory(s->err);
}

/* ---- the request --------------------------------------------------------- */

static int check_model(const struct search *s)
{
	const struct gm_cluster_plan_request *q = s->q;

	if (q->ask.n_layers == 0)
		return gm_error_no_layers(s->err);
	if (q->ask.n_layers > GM_CLUSTER_PLAN_LAYERS)
		return gm_error_set(s->err, -E2BIG, NULL,
				    "The model has more than %u layers",
				    GM_CLUSTER_PLAN_LAYERS);
	if (q->ask.layer_bytes == NULL)
		return gm_error_set(s->err, -EINVAL, "give their bytes",
				    "The sizes of the layers are not known");
	if (q->pp > q->ask.n_layers)
		return gm_error_set(s->err, -EINVAL, "ask for fewer stages",
				    "The model has %" PRIu32
				    " layers, and %" PRIu32
				    " stages have one each at least",
				    q->ask.n_layers, q->pp);
	return q->tp > 0 ? gm_heads_check(&q->ask, q->tp, s->err) : 0;
}

static int check_numbers(const struct search *s)
{
	const struct gm_cluster_plan_request *q = s->q;

	if (q->n_nodes > GM_CLUSTER_PLAN_NODES)
		return gm_error_set(s->err, -E2BIG, NULL,
				    "More than %u nodes to plan on",
				    GM_CLUSTER_PLAN_NODES);
	for (uint32_t i = 0; i < q->n_nodes; i++)
		if (q->nodes[i].n_devices > GM_CLUSTER_PLAN_DEVICES)
			return gm_error_set(s->err, -E2BIG, NULL,
					    "Node %s has more than %u devices",
					    q->nodes[i].name,
					    GM_CLUSTER_PLAN_DEVICES);
	if (q->is_free && (q->tp > 1 || q->pp > 0))
		return gm_error_set(s->err, -EINVAL, "leave these numbers out",
				    "Each device is a stage of its own, and "
				    "has whole layers");
	if (q->take_nodes > TAKEN)
		return gm_error_set(s->err, -E2BIG, "ask for fewer",
				    "A plan is on %u nodes at most", TAKEN);
	if (q->take_nodes > q->n_nodes || q->n_nodes == 0)
		return gm_error_set(
			s->err, -ENODEV,
			"gpumapctl cluster devices shows the state of each",
			"%" PRIu32 " node%s can take a part of the model, and "
			"%" PRIu32 " %s wanted",
			q->n_nodes, q->n_nodes == 1 ? "" : "s",
			(uint32_t)gm_max(q->take_nodes, 1),
			q->take_nodes > 1 ? "are" : "is");
	if (q->take_nodes > 0 && q->pp % q->take_nodes != 0)
		return gm_error_set(s->err, -EINVAL,
				    "each node has the same number of stages",
				    "%" PRIu32 " stages are not to be divided "
				    "by %" PRIu32 " nodes",
				    q->pp, q->take_nodes);
	if (q->tp > 0 && q->take_devices % q->tp != 0)
		return gm_error_set(s->err, -EINVAL,
				    "a stage is on devices of one node",
				    "%" PRIu32 " devices of a node are not to "
				    "be divided by %" PRIu32
				    " tensor parallel ranks",
				    q->take_devices, q->tp);
	return check_model(s);
}

/* ---- forms --------------------------------------------------------------- */

static uint32_t most_devices(const struct gm_cluster_plan_request *q,
			     uint32_t *ret_node)
{
	uint32_t most = 0;

	*ret_node = 0;
	for (uint32_t i = 0; i < q->n_nodes; i++)
		if (q->nodes[i].n_devices > most) {
			most = q->nodes[i].n_devices;
			*ret_node = i;
		}
	return most;
}

static bool divides_heads(const struct gm_cluster_plan_request *q, uint32_t tp)
{
	if (q->tp > 0)
		return tp == q->tp;
	return (tp & (tp - 1)) == 0 && gm_heads_check(&q->ask, tp, NULL) == 0;
}

static bool is_asked(const struct gm_cluster_plan_request *q, uint32_t k,
		     uint32_t tp)
{
	if (q->is_free)
		return tp == 1 &&
		       (q->take_devices == 0 || k == q->take_devices);
	return divides_heads(q, tp) &&
	       (q->take_devices == 0 || k * tp == q->take_devices) &&
	       (q->pp == 0 || q->pp % k == 0);
}

/* List the forms from the best to the worst. */
static int make_forms(struct search *s)
{
	const struct gm_cluster_plan_request *q = s->q;
	uint32_t node, most = most_devices(q, &node);

	/* With is_free the others have what they have. */
	if (q->is_free && q->take_devices > most)
		most = q->take_devices;
	if (gm_max(q->take_devices, q->tp) > most && !q->is_free)
		return gm_error_set(s->err, -ENODEV,
				    "ask for fewer devices of each node",
				    "No node has %" PRIu32
				    " devices that a plan may "
				    "take: %s has most, %" PRIu32,
				    (uint32_t)gm_max(q->take_devices, q->tp),
				    q->nodes[node].name, most);
	s->forms = calloc((size_t)most * most + 1, sizeof(*s->forms));
	if (s->forms == NULL)
		return no_memory(s);
	for (uint32_t k = 1; k <= most; k++)
		for (uint32_t tp = 1; tp * k <= most; tp++)
			if (is_asked(q, k, tp))
				s->forms[s->n_forms++] =
					(struct form){ .k = k, .tp = tp };
	if (s->n_forms > 0)
		return 0;
	return gm_error_set(s->err, -EINVAL,
			    "say how many tensor parallel ranks a stage has",
			    "No number of tensor parallel ranks, a power of "
			    "two that divides the model's %" PRIu32
			    " attention heads and those of its caches, gives "
			    "what is asked for",
			    q->ask.n_heads);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? 1 : *x > *y ? -1 : 0;
}

static int make_rooms(struct search *s)
{
	const struct gm_cluster_plan_request *q = s->q;

	s->rooms = calloc(q->n_nodes, sizeof(*s->rooms));
	if (s->rooms == NULL)
		return no_memory(s);
	for (uint32_t i = 0; i < q->n_nodes; i++) {
		uint32_t n = q->nodes[i].n_devices;

		for (uint32_t d = 0; d < n; d++)
			s->rooms[i][d] =
				gm_place_capacity(&q->nodes[i].devices[d]);
		qsort(s->rooms[i], n, sizeof(s->rooms[i][0]), by_size);
	}
	return 0;
}

static int by_room(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->room != y->room)
		return x->room < y->room ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* The room of a node in a form; 0: it has too little. */
static uint64_t form_room(const struct search *s, const struct form *f,
			  uint32_t node)
{
	uint32_t n = s->q->nodes[node].n_devices;
	uint64_t sum = 0;
	bool over = false;

	if (!s->q->is_free)
		return n < f->k * f->tp ? 0 : s->rooms[node][f->k * f->tp - 1];
	for (uint32_t d = 0; d < n && d < f->k; d++)
		sum = gm_checked_add(&over, sum, s->rooms[node][d]);
	return over ? UINT64_MAX : sum;
}

/* Sort a list, and sum it up from the emptiest node on. */
static void order(const struct search *s, const struct form *f, uint32_t warm)
{
	struct candidate *list = f->lists[warm];
	uint64_t sum = 0;
	bool over = false;

	qsort(list, f->n[warm], sizeof(*list), by_room);
	for (uint32_t i = f->n[warm]; i-- > 0;) {
		uint64_t room =
			s->q->is_free
				? list[i].room
				: gm_checked_mul(&over, list[i].room, f->k);

		sum = gm_checked_add(&over, sum, room);
		list[i].sum = over ? UINT64_MAX : sum;
	}
}

/* Find what a rank takes, and the nodes, when the form is first looked at. */
static int make_form(const struct search *s, struct form *f)
{
	const struct gm_cluster_plan_request *q = s->q;
	int ret;

	if (f->is_made)
		return 0;
	ret = gm_cluster_fit_measure(q, f->tp, &f->fit, s->err);
	if (ret != 0)
		return ret;
	for (uint32_t warm = 0; warm < 2; warm++) {
		f->lists[warm] = calloc(q->n_nodes, sizeof(*f->lists[warm]));
		if (f->lists[warm] == NULL)
			return no_memory(s);
	}
	for (uint32_t i = 0; i < q->n_nodes; i++) {
		uint64_t room = form_room(s, f, i);
		bool warm = q->nodes[i].is_warm;

		if (room > 0)
			f->lists[warm][f->n[warm]++] =
				(struct candidate){ room, 0, i };
	}
	order(s, f, 0);
	order(s, f, 1);
	f->is_made = true;
	return 0;
}

/* ---- sets of nodes ------------------------------------------------------- */

/* Places in the two lists of a form, each list's from the fullest on. */
struct set {
	uint32_t at[2][TAKEN];
	uint32_t n[2];
};

static const struct candidate *nth(const struct form *f, const struct set *set,
				   uint32_t warm, uint32_t i)
{
	return &f->lists[warm][set->at[warm][i]];
}

/* The nodes by their room, the emptiest first. */
static uint32_t merge(const struct form *f, const struct set *set,
		      uint32_t ret_nodes[TAKEN])
{
	uint32_t left[2] = { set->n[0], set->n[1] }, n = 0;

	while (left[0] + left[1] > 0) {
		bool warm = left[0] == 0;

		if (left[0] > 0 && left[1] > 0)
			warm = by_room(nth(f, set, 1, left[1] - 1),
				       nth(f, set, 0, left[0] - 1)) > 0;
		left[warm]--;
		ret_nodes[n++] = nth(f, set, warm, left[warm])->node;
	}
	return n;
}

/* The emptiest first, the next last, and the others between. */
static void arrange(const uint32_t *by, uint32_t n, uint32_t ret[TAKEN])
{
	for (uint32_t i = 0; i < n; i++)
		ret[i == 0 ? 0 : i == 1 ? n - 1 : i - 1] = by[i];
}

/* Each of a node's @k emptiest devices is a stage, in the order of their rows.
 * Returns how many there are. */
static uint32_t device_rooms(const struct search *s, uint32_t node, uint32_t k,
			     uint64_t *ret_rooms)
{
	const struct gm_cluster_plan_node *of = &s->q->nodes[node];
	uint32_t n = (uint32_t)gm_min(k, of->n_devices), n_equal = n, at = 0;
	uint64_t least = s->rooms[node][n - 1];

	for (uint32_t i = 0; i < n; i++)
		n_equal -= s->rooms[node][i] > least;
	for (uint32_t d = 0; d < of->n_devices; d++) {
		uint64_t room = gm_place_capacity(&of->devices[d]);

		if (room > least || (room == least && n_equal > 0))
			ret_rooms[at++] = room;
		n_equal -= room == least && n_equal > 0;
	}
	return n;
}

/* The room of each stage on these nodes.  Returns how many stages there are; 0:
 * too many. */
static uint32_t stage_rooms(const struct search *s, const struct form *f,
			    const uint32_t *nodes, uint32_t n,
			    uint64_t ret_rooms[GM_CLUSTER_PLAN_STAGES],
			    uint32_t ret_nodes[GM_CLUSTER_PLAN_STAGES])
{
	uint32_t most = s->q->max_stages, n_stages = 0;

	if (most == 0 || most > GM_CLUSTER_PLAN_STAGES)
		most = GM_CLUSTER_PLAN_STAGES;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t rooms[GM_CLUSTER_PLAN_DEVICES];
		uint32_t k = f->k;

		if (s->q->is_free)
			k = device_rooms(s, nodes[i], k, rooms);
		if (k > most - n_stages)
			return 0;
		for (uint32_t d = 0; d < k; d++, n_stages++) {
			ret_rooms[n_stages] =
				s->q->is_free
					? rooms[d]
					: s->rooms[nodes[i]][k * f->tp - 1];
			ret_nodes[n_stages] = i;
		}
	}
	return n_stages;
}

static bool fits_so(const struct search *s, const struct form *f,
		    const uint32_t *nodes, uint32_t n)
{
	uint64_t rooms[GM_CLUSTER_PLAN_STAGES];
	uint32_t of[GM_CLUSTER_PLAN_STAGES];
	uint32_t n_stages = stage_rooms(s, f, nodes, n, rooms, of);

	return n_stages > 0 &&
	       gm_cluster_fit_layers(&f->fit, rooms, n_stages) ==
		       s->q->ask.n_layers;
}

static int by_index(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Does the model fit on these nodes?  ret_nodes receives the order. */
static bool fits(const struct search *s, const struct form *f,
		 const struct set *set, uint32_t ret_nodes[TAKEN])
{
	uint32_t by[TAKEN], n = merge(f, set, by);

	arrange(by, n, ret_nodes);
	if (!s->q->is_free && !fits_so(s, f, ret_nodes, n))
		return false;
	qsort(by, n, sizeof(by[0]), by_index);
	if (fits_so(s, f, by, n)) {
		memcpy(ret_nodes, by, n * sizeof(by[0]));
		return true;
	}
	return !s->q->is_free || fits_so(s, f, ret_nodes, n);
}

/* The emptiest nodes of each list.  Returns false where there are too few. */
static bool emptiest(const struct form *f, uint32_t n_cold, uint32_t n_warm,
		     struct set *ret)
{
	const uint32_t n[2] = { n_cold, n_warm };

	for (uint32_t warm = 0; warm < 2; warm++) {
		if (n[warm] > f->n[warm])
			return false;
		ret->n[warm] = n[warm];
		for (uint32_t i = 0; i < n[warm]; i++)
			ret->at[warm][i] = f->n[warm] - n[warm] + i;
	}
	return true;
}

/* Have the set end at place @at of its @i-th, the others just before it. */
static void slide(struct set *set, uint32_t warm, uint32_t i, uint32_t at)
{
	for (uint32_t k = 0; k <= i; k++)
		set->at[warm][k] = at - i + k;
}

/* Replace each node by the fullest one that will do, the emptiest first. */
static void fill_up(const struct search *s, const struct form *f,
		    struct set *set)
{
	uint32_t nodes[TAKEN];

	for (uint32_t list = 2; list-- > 0;) {
		for (uint32_t i = set->n[list]; i-- > 0;) {
			uint32_t low = i, high = set->at[list][i];

			while (low < high) {
				uint32_t at = low + (high - low) / 2;

				slide(set, list, i, at);
				if (fits(s, f, set, nodes))
					high = at;
				else
					low = at + 1;
			}
			slide(set, list, i, high);
		}
	}
}

/* ---- the search ---------------------------------------------------------- */

/* May a form have so many nodes? */
static bool may_have(const struct gm_cluster_plan_request *q,
		     const struct form *f, uint32_t n)
{
	if (q->is_free)
		return true;
	return (q->pp == 0 || f->k * n == q->pp) &&
	       f->k * n <= q->ask.n_layers &&
	       f->k * n <= GM_CLUSTER_PLAN_STAGES;
}

/* Are the emptiest nodes all together too small?  Most that do not fit are. */
static bool is_too_small(const struct form *f, const struct set *set)
{
	uint64_t room = 0;
	bool over = false;

	for (uint32_t warm = 0; warm < 2; warm++)
		if (set->n[warm] > 0)
			room = gm_checked_add(&over, room,
					      nth(f, set, warm, 0)->sum);
	return !over &&
	       room < gm_cluster_fit_bytes(&f->fit, 0, f->fit.n_layers);
}

/* Returns 1 when there is a plan, 0, or a negative errno. */
static int try_forms(const struct search *s, uint32_t n_cold, uint32_t n,
		     struct form **ret_form, struct set *ret_set)
{
	uint32_t nodes[TAKEN];

	for (uint32_t i = 0; i < s->n_forms; i++) {
		struct form *f = &s->forms[i];
		int ret;

		if (!may_have(s->q, f, n))
			continue;
		ret = make_form(s, f);
		if (ret != 0)
			return ret;
		if (emptiest(f, n_cold, n - n_cold, ret_set) &&
		    !is_too_small(f, ret_set) && fits(s, f, ret_set, nodes)) {
			*ret_form = f;
			return 1;
		}
	}
	return 0;
}

static int find(const struct search *s, struct form **ret_form,
		struct set *ret_set)
{
	const struct gm_cluster_plan_request *q = s->q;
	uint32_t n_warm = 0;

	for (uint32_t i = 0; i < q->n_nodes; i++)
		n_warm += q->nodes[i].is_warm;
	for (uint32_t cold = 0; cold <= q->n_nodes - n_warm; cold++) {
		uint32_t most = (uint32_t)gm_min(cold + n_warm, s->n_most);

		for (uint32_t n = cold > 0 ? cold : 1; n <= most; n++) {
			int ret;

			if (q->take_nodes > 0 && n != q->take_nodes)
				continue;
			ret = try_forms(s, cold, n, ret_form, ret_set);
			if (ret != 0)
				return ret;
		}
	}
	return 0;
}

/* ---- why there is none --------------------------------------------------- */

/* The attempt that comes nearest, on the emptiest nodes. */
struct attempt {
	const struct form *form;
	uint32_t n_layers; /* that fit */
	uint64_t lacks;    /* bytes */
	uint32_t n;
	uint32_t nodes[TAKEN];
};

static void attempt(const struct search *s, const struct form *f, uint32_t n,
		    struct attempt *best)
{
	uint64_t rooms[GM_CLUSTER_PLAN_STAGES];
	uint32_t of[GM_CLUSTER_PLAN_STAGES], by[TAKEN], nodes[TAKEN];
	uint32_t n_warm = (uint32_t)gm_min(f->n[1], n), n_stages, n_layers;
	struct set set;

	if (!emptiest(f, n - n_warm, n_warm, &set))
		return;
	arrange(by, merge(f, &set, by), nodes);
	n_stages = stage_rooms(s, f, nodes, n, rooms, of);
	if (n_stages == 0)
		return;
	n_layers = gm_cluster_fit_layers(&f->fit, rooms, n_stages);
	if (best->form != NULL && n_layers <= best->n_layers)
		return;
	best->form = f;
	best->n_layers = n_layers;
	best->lacks = gm_cluster_fit_lacks(&f->fit, rooms, n_stages);
	best->n = n;
	memcpy(best->nodes, nodes, sizeof(nodes));
}

static const char *list_nodes(const struct search *s, const struct attempt *a,
			      char *ret_text, size_t bytes)
{
	size_t at = 0;

	for (uint32_t i = 0; i < a->n && at < bytes; i++)
		at += (size_t)snprintf(ret_text + at, bytes - at, "%s%s",
				       i > 0 ? ", " : "",
				       s->q->nodes[a->nodes[i]].name);
	return ret_text;
}

static int does_not_fit(const struct search *s)
{
	const struct gm_cluster_plan_request *q = s->q;
	struct attempt best = { .form = NULL };
	char nodes[4096], lacks[32];
	const struct form *f;
	uint32_t last;

	for (uint32_t i = 0; i < s->n_forms; i++)
		for (uint32_t n = 1; n <= s->n_most; n++)
			if ((q->take_nodes == 0 || n == q->take_nodes) &&
			    may_have(q, &s->forms[i], n) &&
			    make_form(s, &s->forms[i]) == 0)
				attempt(s, &s->forms[i], n, &best);
	f = best.form;
	if (f == NULL)
		return gm_error_set(
			s->err, -ENODEV,
			"free memory, or ask for fewer nodes or devices",
			"Too few nodes have so many devices with free memory");
	last = best.nodes[best.n - 1];
	qsort(best.nodes, best.n, sizeof(best.nodes[0]), by_index);
	return gm_error_set(
		s->err, -ENOSPC,
		"free memory, add nodes, or lower --max-seq-len or --max-batch",
		"%" PRIu32 " of %" PRIu32 " layers fit on node%s %s, %" PRIu32
		" device%s each: %s lacks %s on %s for the others",
		best.n_layers, q->ask.n_layers, best.n > 1 ? "s" : "",
		list_nodes(s, &best, nodes, sizeof(nodes)), f->k * f->tp,
		f->k * f->tp > 1 ? "s" : "", q->nodes[last].name,
		gm_size_text(best.lacks, lacks),
		f->tp > 1 ? "each device" : "a device");
}

/* ---- the plan ------------------------------------------------------------ */

/* A device that is chosen for a stage: the one with most links, then the
 * fullest that has room, then that of the lowest row. */
static bool is_better(const struct gm_plan_device *a,
		      const struct gm_plan_device *b)
{
	if (a->links != b->links)
		return a->links > b->links;
	return gm_place_capacity(a) < gm_place_capacity(b);
}

static uint32_t choose_device(const struct gm_cluster_plan_node *node,
			      const bool *taken, uint64_t need)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t d = 0; d < node->n_devices; d++)
		if (!taken[d] && gm_place_capacity(&node->devices[d]) >= need &&
		    (best == UINT32_MAX ||
		     is_better(&node->devices[d], &node->devices[best])))
			best = d;
	return best;
}

static void charge(const struct form *f, const struct gm_cluster_plan *plan,
		   uint32_t stage, const struct gm_plan_device *device,
		   struct gm_cluster_plan_rank *ret)
{
	const struct gm_cluster_plan_stage *st = &plan->stages[stage];
	uint64_t room = gm_place_capacity(device);

	*ret = (struct gm_cluster_plan_rank){
		.node = st->node,
		.stage = stage,
		.charge = {
			.row = device->row,
			.n_layers = st->n_layers,
			.weight_bytes = gm_cluster_fit_weights(
						&f->fit, st->first_layer,
						st->n_layers) +
					gm_cluster_fit_beside(&f->fit, stage,
							      plan->n_stages),
			.kv_bytes = gm_cluster_fit_kv(&f->fit, st->first_layer,
						      st->first_layer +
							      st->n_layers),
			.activation_bytes = f->fit.act_bytes,
			.reserve_bytes = device->avail - room,
		},
	};
	ret->charge.left_bytes = room + ret->charge.reserve_bytes -
				 gm_plan_charge_bytes(&ret->charge);
}

/* Take the devices of a stage, in the order of their rows. */
static void take_devices(const struct search *s, const struct form *f,
			 struct gm_cluster_plan *plan, uint32_t stage,
			 bool *taken, uint64_t need)
{
	const struct gm_cluster_plan_node *node =
		&s->q->nodes[plan->nodes[plan->stages[stage].node]];
	uint32_t chosen[GM_CLUSTER_PLAN_DEVICES];

	for (uint32_t t = 0; t < f->tp; t++) {
		chosen[t] = choose_device(node, taken, need);
		taken[chosen[t]] = true;
	}
	qsort(chosen, f->tp, sizeof(chosen[0]), by_index);
	for (uint32_t t = 0; t < f->tp; t++)
		charge(f, plan, stage, &node->devices[chosen[t]],
		       &plan->ranks[stage * f->tp + t]);
}

static uint64_t need_of(const struct form *f, const struct gm_cluster_plan *p,
			uint32_t stage)
{
	const struct gm_cluster_plan_stage *st = &p->stages[stage];

	return gm_cluster_fit_bytes(&f->fit, st->first_layer,
				    st->first_layer + st->n_layers) +
	       f->fit.act_bytes +
	       gm_cluster_fit_beside(&f->fit, stage, p->n_stages);
}

/* Choose devices on the node of stages @from to @end, for the stage that needs
 * most first. */
static void take_node(const struct search *s, const struct form *f,
		      struct gm_cluster_plan *plan, uint32_t from, uint32_t end)
{
	bool taken[GM_CLUSTER_PLAN_DEVICES] = { false };
	bool done[GM_CLUSTER_PLAN_STAGES] = { false };

	for (uint32_t i = from; i < end; i++) {
		uint32_t most = UINT32_MAX;

		for (uint32_t k = from; k < end; k++)
			if (!done[k] &&
			    (most == UINT32_MAX ||
			     need_of(f, plan, k) > need_of(f, plan, most)))
				most = k;
		done[most] = true;
		take_devices(s, f, plan, most, taken, need_of(f, plan, most));
	}
}

static int make_plan(const struct search *s, const struct form *f,
		     struct set *set, struct gm_cluster_plan *plan)
{
	uint64_t rooms[GM_CLUSTER_PLAN_STAGES];
	uint32_t of[GM_CLUSTER_PLAN_STAGES], lengths[GM_CLUSTER_PLAN_STAGES];
	uint32_t layer = 0, end;

	fill_up(s, f, set);
	if (!fits(s, f, set, plan->nodes))
		return gm_error_set(s->err, -ENOSPC, NULL,
				    "The model does not fit");
	plan->n_nodes = set->n[0] + set->n[1];
	plan->tp = f->tp;
	plan->n_stages =
		stage_rooms(s, f, plan->nodes, plan->n_nodes, rooms, of);
	gm_cluster_fit_divide(&f->fit, rooms, plan->n_stages, lengths);
	for (uint32_t i = 0; i < plan->n_stages; i++) {
		plan->stages[i] = (struct gm_cluster_plan_stage){ of[i], layer,
								  lengths[i] };
		layer += lengths[i];
	}
	plan->n_ranks = plan->n_stages * f->tp;
	plan->ranks = calloc(plan->n_ranks, sizeof(*plan->ranks));
	if (plan->ranks == NULL)
		return no_memory(s);
	for (uint32_t from = 0; from < plan->n_stages; from = end) {
		for (end = from; end < plan->n_stages && of[end] == of[from];)
			end++;
		take_node(s, f, plan, from, end);
	}
	return 0;
}

static void end_search(struct search *s)
{
	for (uint32_t i = 0; i < s->n_forms; i++) {
		free(s->forms[i].lists[0]);
		free(s->forms[i].lists[1]);
		gm_cluster_fit_free(&s->forms[i].fit);
	}
	free(s->forms);
	free(s->rooms);
}

int gm_cluster_plan_make(const struct gm_cluster_plan_request *request,
			 struct gm_cluster_plan *ret_plan,
			 struct gm_plan_error *ret_err)
{
	struct search s = { .q = request, .err = ret_err };
	struct gm_cluster_plan plan = { .n_nodes = 0 };
	struct form *form = NULL;
	struct set set;
	int ret;

	s.n_most = (uint32_t)gm_min(request->n_nodes, TAKEN);
	ret = check_numbers(&s);
	if (ret == 0)
		ret = make_forms(&s);
	if (ret == 0)
		ret = make_rooms(&s);
	if (ret == 0)
		ret = find(&s, &form, &set);
	if (ret == 0)
		ret = does_not_fit(&s);
	else if (ret == 1)
		ret = make_plan(&s, form, &set, &plan);
	end_search(&s);
	if (ret == 0)
		*ret_plan = plan;
	else
		gm_cluster_plan_free(&plan);
	return ret;
}

void gm_cluster_plan_free(struct gm_cluster_plan *plan)
{
	if (plan == NULL)
		return;
	free(plan->ranks);
	*plan = (struct gm_cluster_plan){ .n_nodes = 0 };
}
