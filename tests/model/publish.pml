/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * publish - blocks, the slot that names one of them, and pins.
 *
 * The agent writes an object into a spare block, stores the slot's one word
 * (version, block) and queues the old block for reuse, first in first out.  A
 * reader loads the slot, reads, loads the slot again.  A holder asks the agent
 * for a pin; the agent writes it into the holders table, which lies in the
 * segment and outlives it, and only then answers.  The agent may be killed
 * between any two steps; the next one knows the segment and nothing else.
 *
 * Steps are taken one at a time in one order that all see.  relacy_seq.cpp
 * tries weaker memory orders.
 *
 * torn		a read that was accepted did not match its publication
 * rewritten	a pinned block changed under its holder
 *
 * bounds: BLOCKS=2 PUBLICATIONS=3 DEATHS=1
 * bounds: BLOCKS=3 PUBLICATIONS=3 DEATHS=1
 * deeper: BLOCKS=3 PUBLICATIONS=4 DEATHS=1
 * deeper: BLOCKS=3 PUBLICATIONS=3 DEATHS=2
 *
 * mutant: READER_LOOKS_ONCE !(torn): only the second look notices a reuse
 * mutant: SLOT_BEFORE_WORDS !(torn): the slot would name what is not written
 * mutant: WRITES_IN_PLACE !(rewritten): an immutable block is never written
 * mutant: VERSION_RESTARTS !(torn): a new agent repeats a word of the old one
 * mutant: DELETION_RESTARTS !(torn): so does an object that is made again
 * mutant: UNPIN_FREES_CURRENT !(torn): what is unpinned may be in the slot
 * mutant: FREES_PINNED !(rewritten): the holders table is there to be asked
 * mutant: NEW_AGENT_IGNORES_HOLDERS !(rewritten): holders outlive the agent
 * mutant: ANSWERS_BEFORE_RECORDING !(rewritten): killed between the two
 * mutant: PINS_WHAT_IS_NAMED !(rewritten): it may be a spare block by then
 */

#define NONE 255

/* In the segment. */
typedef block { byte word[2] };
block heap[BLOCKS];
byte slot_version, slot_block;
byte held = NONE; /* the holders table, of one entry */

/* The publication that the slot names; only the properties know it. */
byte slot_serial, serial;

/* The control socket between the holder and whichever agent lives. */
#define IDLE    0
#define ASKED   1
#define PINNED  2
#define UNPIN   3
#define HUNG_UP 4
byte message, message_block, message_serial;

bool holder_lives = true;
byte clients = 2; /* reader and holder, while they run */

byte published, deaths;
bool killed;
bool torn, rewritten;

#define CURRENT(v, b) (slot_version == (v) && slot_block == (b))

inline store_slot(v, b)
{
	d_step {
		slot_version = v;
		slot_block = b;
		slot_serial = serial
	}
}

/* A block that its slot, or its holder, has let go of. */
inline let_go(b)
{
	if
	:: b == NONE
#ifndef FREES_PINNED
	:: b != NONE && b == held
#endif
	:: else -> spare ! b
	fi
}

inline publish()
{
#ifdef WRITES_IN_PLACE
	if
	:: slot_block != NONE -> fresh = slot_block
	:: else -> spare ? fresh
	fi;
#else
	spare ? fresh;
#endif
	old = slot_block;
	version++;
	serial++;
#ifdef SLOT_BEFORE_WORDS
	store_slot(version, fresh);
#endif
	heap[fresh].word[0] = serial;
	heap[fresh].word[1] = serial;
#ifndef SLOT_BEFORE_WORDS
	store_slot(version, fresh);
#endif
#ifdef WRITES_IN_PLACE
	if
	:: old != fresh -> let_go(old)
	:: else
	fi
#else
	let_go(old)
#endif
}

inline delete()
{
	old = slot_block;
	version++;
#ifdef DELETION_RESTARTS
	version = 0;
#endif
	store_slot(version, NONE);
	let_go(old)
}

inline answer()
{
	d_step {
		message = PINNED;
		message_block = fresh;
		message_serial = heap[fresh].word[0]
	}
}

inline pin()
{
#ifdef PINS_WHAT_IS_NAMED
	fresh = (message_block == NONE -> slot_block : message_block);
#else
	/* A pin that an earlier agent granted and could not announce. */
	fresh = (held == NONE -> slot_block : held);
#endif
#ifdef ANSWERS_BEFORE_RECORDING
	answer();
	held = fresh
#else
	held = fresh;
	answer()
#endif
}

inline unpin()
{
	old = held;
	held = NONE;
	message = IDLE;
	if
#ifndef UNPIN_FREES_CURRENT
	:: old == slot_block
#endif
	:: else -> let_go(old)
	fi
}

/* A new agent knows the slot and the holders. */
inline adopt()
{
	d_step {
		do
		:: len(spare) > 0 -> spare ? old
		:: else -> break
		od;
		version = slot_version;
#ifdef VERSION_RESTARTS
		version = 0;
#endif
		fresh = 0;
		do
		:: fresh < BLOCKS ->
			if
			:: fresh == slot_block
#ifndef NEW_AGENT_IGNORES_HOLDERS
			:: fresh != slot_block && fresh == held
#endif
			:: else -> spare ! fresh
			fi;
			fresh++
		:: else -> break
		od;
		old = NONE;
		fresh = NONE;
		if
		:: message == ASKED || message == UNPIN -> message = HUNG_UP
		:: else
		fi
	}
}

proctype agent()
{
	chan spare = [BLOCKS] of { byte }; /* private: dies with the agent */
	byte version, fresh, old;

attach:
	{
		adopt();
		do
		:: published < PUBLICATIONS && len(spare) > 0 ->
			published++;
			publish()
		:: published < PUBLICATIONS && slot_block != NONE ->
			published++;
			delete()
		:: message == ASKED && (slot_block != NONE || held != NONE) ->
			pin()
		:: message == ASKED && slot_block == NONE && held == NONE ->
			message = HUNG_UP /* no such object */
		:: message == UNPIN && held != NONE ->
			unpin()
		:: !holder_lives && held != NONE -> /* the kernel says so */
			unpin()
		:: clients == 0 && held == NONE ->
			break
		od
	} unless {
		killed -> killed = false;
		goto attach
	}
}

proctype reader()
{
	byte version, from, expect, first, second;

	/* One read, at any time: a reader remembers nothing of the last. */
	atomic {
		version = slot_version;
		from = slot_block;
		expect = slot_serial
	};
	if
	:: from == NONE -> skip /* not published */
	:: else ->
		first = heap[from].word[0];
		second = heap[from].word[1];
		atomic {
			if
#ifndef READER_LOOKS_ONCE
			:: !CURRENT(version, from) -> skip /* -EAGAIN */
#endif
			:: else ->
				torn = first != expect || second != expect;
				assert(!torn)
			fi
		}
	fi;
	clients--
}

proctype holder()
{
	byte mine, expect;

ask:
	atomic { message_block = slot_block; message = ASKED };
	if
	:: message == HUNG_UP ->
		if
		:: goto ask
		:: goto gone
		fi
	:: atomic {
		message == PINNED -> mine = message_block;
		expect = message_serial
	}
	fi;

	/* One look, at any time: it must find what was there at the pin. */
	atomic {
		rewritten = heap[mine].word[0] != expect ||
			    heap[mine].word[1] != expect;
		assert(!rewritten)
	};
	if
	:: message = UNPIN; (message != UNPIN) /* done, or hung up */
	:: skip /* killed while it holds the pin */
	fi;
gone:
	holder_lives = false;
	clients--
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
		serial = 1;
		slot_serial = 1;
		slot_version = 1;
		heap[0].word[0] = 1;
		heap[0].word[1] = 1;
		run agent();
		run reader();
		run holder();
		run killer()
	}
}
