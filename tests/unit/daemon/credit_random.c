/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * credit: random steps of processes that come, go, reserve, allocate and
 * free by chance, against an oracle that knows what each of them had at the
 * instant at which the free bytes were read.  Two processes may be bound to a
 * reservation.  The bytes that may be reserved are never more than the oracle
 * says, never less than without any credit, and exactly what the oracle says
 * after a look during which nothing moved, unless it depends on how the memory
 * of several processes is divided among several reservations.
 */

#include "tests/support/credit_rig.h"
#include "tests/support/dice.h"

#define STEPS     250000
#define PROCESSES 20u
#define PIDS      24u /* few, so that they are given again soon */
#define SLOTS     12u

struct process {
	struct gm_lineage_member is; /* pid 0: none */
	uint32_t parent;             /* in processes; PROCESSES: none of them */
	uint64_t has;
	uint64_t had[3]; /* in the look: before, at the reading, after */
};

/* The oracle's knowledge of a process: at the reading, whatever becomes of
 * it. */
struct seen {
	uint64_t had;
	uint64_t starts[PROCESSES]; /* its own, and those it descends from */
	uint32_t n;
};

struct slot {
	/* in processes; PROCESSES: the slot is free, or no other is bound */
	uint32_t holder, user;
	uint64_t bytes;
	bool is_seen; /* a look was taken since */
};

static struct process processes[PROCESSES];
static struct slot slots[SLOTS];
static struct seen seen[PROCESSES];
static uint64_t starts, read_free = TOTAL;
static uint64_t n_granted, n_joined, n_exact, n_credited, n_reused;

static uint64_t in_use(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < PROCESSES; i++)
		sum += processes[i].has;
	return sum;
}

/* ---- the oracle ---------------------------------------------------------- */

static void remember(uint32_t i)
{
	struct seen *process = &seen[i];

	*process = (struct seen){ .had = processes[i].had[1] };
	for (; i != PROCESSES; i = processes[i].parent)
		process->starts[process->n++] = processes[i].is.start;
}

static bool is_of(uint32_t i, uint64_t start)
{
	return i != PROCESSES && processes[i].is.start == start;
}

static bool holds(uint32_t slot, uint64_t start)
{
	return is_of(slots[slot].holder, start) ||
	       is_of(slots[slot].user, start);
}

/* The nearest that holds something; 0: none does. */
static uint64_t holder_of(const struct seen *process)
{
	for (uint32_t i = 0; i < process->n; i++) {
		for (uint32_t s = 0; s < SLOTS; s++) {
			if (holds(s, process->starts[i]))
				return process->starts[i];
		}
	}
	return 0;
}

/* The memory of one process and those that descend from it, at the reading, and
 * the reservations that it may be of. */
struct pot {
	uint64_t start, left;
	uint64_t of[SLOTS]; /* what was given to each */
};

static struct pot pots[PROCESSES];
static uint64_t rest[SLOTS]; /* of the reservations */
static uint32_t n_pots;

static void gather(void)
{
	n_pots = 0;
	for (uint32_t s = 0; s < SLOTS; s++)
		rest[s] = slots[s].is_seen ? slots[s].bytes : 0;
	for (uint32_t i = 0; i < PROCESSES; i++) {
		uint64_t start = holder_of(&seen[i]);
		uint32_t p = 0;

		while (p < n_pots && pots[p].start != start)
			p++;
		if (start == 0)
			continue;
		if (p == n_pots)
			pots[n_pots++] = (struct pot){ .start = start };
		pots[p].left += seen[i].had;
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Give a reservation so much, and make room by moving what others were given.
 * Returns what was given. */
static uint64_t give(uint32_t s, uint64_t bytes, uint32_t *been)
{
	uint64_t given = 0;

	*been |= UINT32_C(1) << s;
	for (uint32_t p = 0; p < n_pots && given < bytes; p++) {
		struct pot *pot = &pots[p];
		uint64_t n = least(pot->left, bytes - given);

		if (!holds(s, pot->start))
			continue;
		pot->left -= n;
		for (uint32_t t = 0; t < SLOTS; t++) {
			uint64_t most = least(pot->of[t], bytes - given - n);

			if (most == 0 || (*been >> t & 1) != 0)
				continue;
			most = give(t, most, been);
			pot->of[t] -= most;
			n += most;
		}
		pot->of[s] += n;
		given += n;
	}
	return given;
}

/* The bytes of all reservations that were in use at the reading, at most. */
static uint64_t truly_used(void)
{
	uint64_t sum = 0;

	gather();
	for (uint32_t s = 0; s < SLOTS; s++) {
		uint64_t given;

		do {
			uint32_t been = 0;

			given = rest[s] != 0 ? give(s, rest[s], &been) : 0;
			rest[s] -= given;
			sum += given;
		} while (given != 0);
	}
	return sum;
}

/* Is there one way only to divide the memory?  Then no process has a
 * reservation for itself, and another one together with others. */
static bool is_plain(void)
{
	for (uint32_t s = 0; s < SLOTS; s++) {
		for (uint32_t t = 0; slots[s].user != PROCESSES && t < SLOTS;
		     t++) {
			if (t != s &&
			    (holds(t, processes[slots[s].user].is.start) ||
			     holds(t, processes[slots[s].holder].is.start)))
				return false;
		}
	}
	return true;
}

static uint64_t promised(void)
{
	uint64_t sum = 0;

	for (uint32_t s = 0; s < SLOTS; s++)
		sum += slots[s].holder != PROCESSES ? slots[s].bytes : 0;
	return sum;
}

static uint64_t left(uint64_t of, uint64_t taken)
{
	return of > taken ? of - taken : 0;
}

static uint64_t oracle(void)
{
	uint64_t free_bytes = left(read_free, promised() - truly_used());
	uint64_t most = TOTAL - promised();

	return free_bytes < most ? free_bytes : most;
}

/* ---- processes ----------------------------------------------------------- */

static void release_slot(uint32_t s)
{
	gm_ledger_put(d, s, NULL);
	gm_credit_slot_stored(d);
	gm_credit_unbind(d, s);
	gm_credit_unbind(d, SLOTS + s);
	slots[s] = (struct slot){ .holder = PROCESSES, .user = PROCESSES };
}

/* A second process is bound to it, or no longer. */
static void join_or_leave(uint32_t s, uint32_t i)
{
	if (slots[s].user != PROCESSES) {
		slots[s].user = PROCESSES;
		gm_credit_unbind(d, SLOTS + s);
		return;
	}
	if (slots[s].holder == i)
		return;
	slots[s].user = i;
	gm_credit_bind(d, SLOTS + s, s, &processes[i].is);
	gm_credit_recount(d, 0);
	n_joined++;
}

/* Its children have no parent from then on. */
static void process_ends(uint32_t i)
{
	for (uint32_t s = 0; s < SLOTS; s++) {
		if (slots[s].holder == i)
			release_slot(s);
		else if (slots[s].user == i)
			join_or_leave(s, i);
	}
	for (uint32_t k = 0; k < PROCESSES; k++) {
		if (processes[k].parent == i)
			processes[k].parent = PROCESSES;
	}
	memset(&processes[i], 0, sizeof(processes[i]));
	processes[i].parent = PROCESSES;
}

static bool is_taken(uint32_t pid)
{
	for (uint32_t i = 0; i < PROCESSES; i++) {
		if (processes[i].is.pid == pid)
			return true;
	}
	return false;
}

static void process_starts(uint32_t i)
{
	uint32_t parent = (uint32_t)dice(PROCESSES);
	uint32_t pid = 1 + (uint32_t)dice(PIDS);

	if (is_taken(pid))
		return;
	n_reused++;
	processes[i].is.pid = pid;
	processes[i].is.start = ++starts;
	processes[i].parent = processes[parent].is.pid != 0 && parent != i
				      ? parent
				      : PROCESSES;
}

static void process_moves(uint32_t i)
{
	processes[i].has =
		dice(2) ? dice(TOTAL - in_use() + processes[i].has + 1)
			: dice(processes[i].has + 1);
}

static void reserve_or_release(uint32_t i)
{
	uint32_t s = (uint32_t)dice(SLOTS);
	uint64_t may = gm_ledger_avail(d, 0, GM_LEDGER_NOBODY);
	struct gm_reservation *reservation;

	if (slots[s].holder != PROCESSES && dice(4) == 0) {
		join_or_leave(s, i);
		return;
	}
	if (slots[s].holder != PROCESSES || may == 0 || dice(3) == 0) {
		if (slots[s].holder != PROCESSES)
			release_slot(s);
		return;
	}
	reservation =
		calloc(1, sizeof(*reservation) + sizeof(reservation->of[0]));
	if (reservation == NULL)
		exit(99);
	reservation->n = 1;
	reservation->of[0].bytes = dice(2) ? may : 1 + dice(may);
	slots[s] = (struct slot){ .holder = i,
				  .user = PROCESSES,
				  .bytes = reservation->of[0].bytes };
	gm_credit_bind(d, s, s, &processes[i].is);
	gm_ledger_put(d, s, reservation);
	gm_credit_slot_stored(d);
	n_granted++;
}

/* ---- looks --------------------------------------------------------------- */

static uint32_t line_of(uint32_t i,
			struct gm_lineage_member line[GM_PROBE_LINE])
{
	uint32_t n = 0;

	for (; i != PROCESSES && n < GM_PROBE_LINE; i = processes[i].parent)
		line[n++] = processes[i].is;
	return n;
}

/* One process frees and allocates again, or processes grow and shrink. */
static bool things_move(void)
{
	uint32_t i = (uint32_t)dice(PROCESSES);
	uint64_t has;

	for (uint32_t k = 0; k < PROCESSES; k++)
		processes[k].had[0] = processes[k].has;
	switch (dice(4)) {
	case 0:
		has = processes[i].has;
		processes[i].has = dice(has + 1);
		for (uint32_t k = 0; k < PROCESSES; k++)
			processes[k].had[1] = processes[k].has;
		processes[i].has = has;
		return true;
	case 1:
		if (processes[i].is.pid != 0)
			process_moves(i);
		for (uint32_t k = 0; k < PROCESSES; k++)
			processes[k].had[1] = processes[k].has;
		i = (i + 1) % PROCESSES;
		if (processes[i].is.pid != 0)
			process_moves(i);
		return true;
	default:
		for (uint32_t k = 0; k < PROCESSES; k++)
			processes[k].had[1] = processes[k].has;
		return false;
	}
}

/* Returns whether all that was had was told of, and nothing moved. */
static bool look(void)
{
	struct gm_lineage_member line[GM_PROBE_LINE];
	bool has_moved = things_move();
	uint64_t used_then = 0;

	for (uint32_t k = 0; k < PROCESSES; k++) {
		processes[k].had[2] = processes[k].has;
		used_then += processes[k].had[1];
		remember(k);
	}
	read_free = TOTAL - used_then;
	look_begin(0, read_free);
	for (uint32_t k = 0; k < PROCESSES; k++) {
		uint64_t a = processes[k].had[0], b = processes[k].had[2];
		uint32_t n = line_of(k, line);

		if (a == 0 && b == 0)
			continue;
		/* The probe could not tell who it is. */
		if (dice(50) == 0) {
			n = 0;
			has_moved = true;
		}
		look_at(a < b ? a : b, a < b ? b : a, line, n);
	}
	for (uint32_t s = 0; s < SLOTS; s++)
		slots[s].is_seen = true;
	look_end();
	return !has_moved;
}

static void random_steps(void)
{
	uint64_t unsafe = 0, useless = 0, inexact = 0, torn = 0;

	for (uint32_t i = 0; i < PROCESSES; i++)
		processes[i].parent = PROCESSES;
	for (uint32_t s = 0; s < SLOTS; s++)
		slots[s].holder = slots[s].user = PROCESSES;
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i = (uint32_t)dice(PROCESSES), what = dice(16);
		bool is_exact = false;
		uint64_t may;

		if (processes[i].is.pid == 0)
			process_starts(i);
		else if (what == 0)
			process_ends(i);
		else if (what < 6)
			process_moves(i);
		else if (what < 12)
			reserve_or_release(i);
		else
			is_exact = look() && is_plain();
		may = gm_ledger_avail(d, 0, GM_LEDGER_NOBODY);
		unsafe += may > oracle();
		useless += may < left(read_free, promised()) &&
			   may < TOTAL - promised();
		inexact += is_exact && may != oracle();
		n_exact += is_exact;
		torn += d->ledger->promised[0] != promised() ||
			promised() > TOTAL ||
			d->ledger->used[0] > d->ledger->promised[0];
		n_credited += d->ledger->used[0] != 0;
	}
	EQ(unsafe, 0);
	EQ(useless, 0);
	EQ(inexact, 0);
	EQ(torn, 0);
	OK(n_granted > STEPS / 50);
	OK(n_joined > STEPS / 100);
	OK(n_exact > STEPS / 20);
	OK(n_credited > STEPS / 4);
	OK(n_reused > STEPS / 100);
	for (uint32_t s = 0; s < SLOTS; s++) {
		if (slots[s].holder != PROCESSES)
			release_slot(s);
	}
	EQ(d->ledger->promised[0], 0);
	EQ(d->ledger->used[0], 0);
}

TAP_CASE()
{
	if (!ledger_begin("test-credit-random"))
		return 99;
	make_cards();
	random_steps();
	ledger_end();
	return tap_done();
}
