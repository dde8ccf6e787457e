/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ledger - maps that reserve memory of a row, by name or by a process's life.
 *
 * The agent takes one change in hand: it checks it, gives its file to the I/O
 * thread, and stores the slot when that is done.  In between it hears of the
 * ends of processes.  A slot's word says whether its map is named or held, and what it
 * reserves.  A held map has an entry in the holders table, stored before the
 * slot and freed after it; when the process is gone, the map is taken out.
 *
 * The agent may be killed between any two stores, and so may the next one while
 * it adopts.  Slots, entries and the row's reserved bytes are in the segment;
 * what the agent knows of promises is its own.
 *
 * over		the slots reserve more than the row has
 * refused	an adopted slot has no holder: the segment would be given up
 * lost		a map is gone that was acknowledged, or whose holder lives
 * stray	in the end a reservation has no holder, or is not accounted
 *
 * bounds: CLIENTS=1 CHANGES=3 DEATHS=1
 * bounds: CLIENTS=2 CHANGES=2 DEATHS=1
 * deeper: CLIENTS=2 CHANGES=3 DEATHS=1
 * deeper: CLIENTS=1 CHANGES=3 DEATHS=2
 *
 * mutant: SLOT_BEFORE_ENTRY !(refused): a held map without a holder
 * mutant: ENTRY_FREED_FIRST !(refused): likewise, at its end
 * mutant: TWO_IN_HAND !(over): both were checked before either was promised
 * mutant: PROMISE_FREED_FIRST !(over): given away while its slot still has it
 * mutant: TRUSTS_THE_ROW:2 !(stray): the row says it later than the slot
 * mutant: NEW_AGENT_WAITS_FOR_THE_DEAD:2 !(stray): they do not end again
 * mutant: MISSES_EARLY_ENDS !(stray): it ended while the I/O thread worked
 * mutant: FREES_BY_NAME !(lost): the entry was that of the map before
 * mutant: ANSWERS_FIRST !(lost): killed before the slot
 */

#define NAMES    2
#define CAPACITY 2

#define NONE     0 /* what a slot names */
#define NAMED    1
#define HELD     2
#define NONE_YET 255
#define ENTRIES  3

/* In the segment. */
typedef slot_word { byte version; byte kind; byte bytes };
slot_word slot[NAMES];
typedef holder { byte name; byte version; byte client; bool used };
holder entry[ENTRIES];
byte reserved;

bool lives[CLIENTS]; /* the kernel's word */
byte acknowledged[NAMES]; /* version of a named map; 0: released since */

byte changes, deaths;
bool killed, quiet;
bool over, refused, lost, stray;

#define SUM (slot[0].bytes + slot[1].bytes)
#define MEANT(e) \
	(slot[entry[e].name].version == entry[e].version && \
	 slot[entry[e].name].kind == HELD)

inline clear(i)
{
	entry[i].used = false;
	entry[i].name = 0;
	entry[i].version = 0;
	entry[i].client = 0
}

inline store_slot(n, k, b)
{
	d_step {
		slot[n].version++;
		slot[n].kind = k;
		slot[n].bytes = b;
		over = SUM > CAPACITY;
		assert(!(over))
	}
}

/* Free the entry of version v of name n. */
inline free_entry(n, v)
{
	d_step {
		e = 0;
		do
		:: e < ENTRIES ->
			if
			:: entry[e].used && entry[e].name == n &&
			   entry[e].version == v ->
				clear(e)
			:: else
			fi;
			e++
		:: else -> break
		od;
		e = 0
	}
}

/* The slot first, the promise with it, then the row, then the entry. */
inline move_on(n, k, b)
{
	old = slot[n].version;
#ifdef ENTRY_FREED_FIRST
	free_entry(n, old);
#endif
	store_slot(n, k, b);
	d_step { promised = promised + b - own[n]; own[n] = b };
	reserved = promised;
	free_entry(n, old);
	old = 0
}

/* Its process is gone. */
inline withdraw(n)
{
	d_step {
		lost = slot[n].kind != HELD || lives[c];
		assert(!(lost))
	};
#ifdef PROMISE_FREED_FIRST
	/* And the slot in another turn. */
	d_step { promised = promised - own[n]; own[n] = 0; gone = n };
	reserved = promised
#else
	move_on(n, NONE, 0)
#endif
}

/* The next map that client c holds, or NONE_YET. */
inline next_of(c)
{
	d_step {
		name = NONE_YET;
		e = 0;
		do
		:: e < ENTRIES ->
			if
			:: name == NONE_YET && entry[e].used &&
			   entry[e].client == c &&
#ifdef FREES_BY_NAME
			   slot[entry[e].name].kind != NONE ->
#else
			   MEANT(e) ->
#endif
				name = entry[e].name
			:: else
			fi;
			e++
		:: else -> break
		od;
		e = 0
	}
}

inline hear_of(c)
{
#ifdef PROMISE_FREED_FIRST
	if
	:: gone == NONE_YET -> next_of(c)
	:: else -> name = NONE_YET
	fi;
	if
	:: name != NONE_YET -> withdraw(name)
	:: else
	fi;
#else
	do
	:: next_of(c);
		if
		:: name != NONE_YET -> withdraw(name)
		:: else -> break
		fi
	od;
#endif
	name = 0
}

/* Read the slots; each slot that is held must have its holder. */
inline learn()
{
	d_step {
		name = 0;
		do
		:: name < NAMES ->
			lost = lost || slot[name].version < acknowledged[name];
			refused = slot[name].kind == HELD;
			e = 0;
			do
			:: e < ENTRIES ->
				if
				:: entry[e].used && entry[e].name == name &&
				   MEANT(e) ->
					refused = false
				:: else
				fi;
				e++
			:: else -> break
			od;
			assert(!(refused));
			assert(!(lost));
			own[name] = slot[name].bytes;
			hand[name] = NONE_YET;
			want[name] = 0;
			who[name] = 0;
			name++
		:: else -> break
		od;
		promised = SUM;
#ifdef TRUSTS_THE_ROW
		promised = reserved;
#endif
		kind = 0;
		old = 0;
		next = 0;
		name = 0;
		e = 0;
		gone = NONE_YET
	}
}

/* Each store of it may be the last. */
inline adopt()
{
	learn();
	/* Entries that no slot means. */
	do
	:: e < ENTRIES && entry[e].used &&
#ifdef FREES_BY_NAME
	   slot[entry[e].name].kind == NONE
#else
	   !MEANT(e)
#endif
	   -> clear(e)
	:: e == ENTRIES -> break
	:: else -> e++
	od;
	e = 0;
	/* Their processes: watched from here on, or gone already. */
	c = 0;
	do
	:: c < CLIENTS ->
		d_step { watched[c] = lives[c]; late[c] = false };
		if
#ifndef NEW_AGENT_WAITS_FOR_THE_DEAD
		:: !watched[c] -> hear_of(c)
		:: watched[c]
#else
		:: true
#endif
		fi;
		c++
	:: else -> break
	od;
	c = 0;
	reserved = promised
}

inline check(h)
{
	/* A name may reserve again what it reserves already. */
	if
	:: promised - own[h] + want[h] <= CAPACITY -> hand[h] = kind
	:: else -> hand[h] = NONE_YET /* refused */
	fi
}

/* Take a change in hand: any, for a name. */
inline take(h)
{
	changes++;
	if
	:: kind = NAMED
	:: kind = HELD
	:: kind = NONE
	fi;
	if
	:: kind != NONE -> want[h] = 1
	:: kind != NONE -> want[h] = 2
	:: kind == NONE -> want[h] = 0
	fi;
	if
	:: who[h] = 0
	:: CLIENTS == 2 && kind == HELD -> who[h] = 1
	fi;
	if
	/* The process that asks must be there to be watched. */
	:: kind == HELD && !lives[who[h]] -> hand[h] = NONE_YET
	:: kind == HELD && lives[who[h]] -> watched[who[h]] = true; check(h)
	:: kind != HELD -> check(h)
	fi;
	kind = NONE
}

inline store_entry(h)
{
	d_step {
		e = 0;
		do
		:: e < ENTRIES && entry[e].used -> e++
		:: else -> break
		od;
		assert(e < ENTRIES);
		entry[e].name = h;
		entry[e].version = next;
		entry[e].client = who[h];
		entry[e].used = true;
		e = 0
	}
}

/* The I/O thread has done its part. */
inline finish(h)
{
	/* Its holder's end may have moved the slot in between. */
	next = slot[h].version + 1;
#ifdef ANSWERS_FIRST
	if
	:: hand[h] == NAMED -> acknowledged[h] = next
	:: else
	fi;
#endif
#ifndef SLOT_BEFORE_ENTRY
	if
	:: hand[h] == HELD -> store_entry(h)
	:: else
	fi;
#endif
	/* No holder counts on a slot that is about to be replaced. */
	if
	:: hand[h] != NAMED -> acknowledged[h] = 0
	:: else
	fi;
	move_on(h, hand[h], want[h]);
#ifdef SLOT_BEFORE_ENTRY
	if
	:: hand[h] == HELD -> store_entry(h)
	:: else
	fi;
#endif
	if
	:: hand[h] == NAMED -> acknowledged[h] = next
	:: else
	fi;
	d_step {
		hand[h] = NONE_YET;
		want[h] = 0;
		who[h] = 0;
		next = 0
	}
}

#define FREE(h) (hand[h] == NONE_YET)
#ifdef TWO_IN_HAND
#define ROOM(h) FREE(h)
#else
#define ROOM(h) (FREE(0) && FREE(1))
#endif

#define EARLY(c)                              \
	((hand[0] == HELD && who[0] == (c)) || \
	 (hand[1] == HELD && who[1] == (c)))

inline end_of()
{
	watched[c] = false;
	hear_of(c);
#ifndef MISSES_EARLY_ENDS
	if
	:: EARLY(c) -> late[c] = true
	:: else
	fi;
#endif
	c = 0
}

proctype agent()
{
	/* Private: dies with the agent. */
	byte promised, own[NAMES], hand[NAMES], want[NAMES], who[NAMES];
	byte kind, old, next, name, e, c, gone;
	bool watched[CLIENTS], late[CLIENTS];

attach:
	{
		adopt();
		do
		:: changes < CHANGES && ROOM(0) -> take(0)
		:: changes < CHANGES && ROOM(1) -> take(1)
		:: !FREE(0) -> finish(0)
		:: !FREE(1) -> finish(1)
		/* The kernel's word of an end comes once. */
		:: watched[0] && !lives[0] -> end_of()
		:: CLIENTS == 2 && watched[CLIENTS - 1] &&
		   !lives[CLIENTS - 1] ->
			c = CLIENTS - 1;
			end_of()
		:: late[0] && !EARLY(0) -> late[0] = false; hear_of(c)
		:: CLIENTS == 2 && late[CLIENTS - 1] && !EARLY(CLIENTS - 1) ->
			late[CLIENTS - 1] = false;
			c = CLIENTS - 1;
			hear_of(c);
			c = 0
#ifdef PROMISE_FREED_FIRST
		:: gone != NONE_YET && slot[gone].kind == HELD ->
			move_on(gone, NONE, 0);
			gone = NONE_YET
		:: gone != NONE_YET && slot[gone].kind != HELD ->
			gone = NONE_YET
#endif
		:: quiet && changes == CHANGES && FREE(0) && FREE(1) &&
		   !watched[0] && !watched[CLIENTS - 1] && !late[0] &&
		   !late[CLIENTS - 1] && gone == NONE_YET && !killed ->
			break
		od
	} unless {
		killed -> killed = false;
		goto attach
	};
	c = 0;
	d_step {
		stray = slot[0].kind == HELD || slot[1].kind == HELD ||
			entry[0].used || entry[1].used || entry[2].used ||
			promised != SUM || reserved != SUM;
		assert(!(stray))
	}
}

/* Each process ends at some time; then it is quiet. */
proctype clients()
{
	lives[0] = false;
	lives[CLIENTS - 1] = false;
	quiet = true
}

proctype killer()
{
	do
	:: deaths < DEATHS && !killed -> deaths++; killed = true
	:: break
	od
}

init {
	atomic {
		lives[0] = true;
		lives[CLIENTS - 1] = true;
		run agent();
		run clients();
		run killer()
	}
}
