/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * collective - ranks of one group that read each other's memory, phase by phase.
 *
 * Each collective is small, a sum in place, or a broadcast from rank 0; the same
 * at every rank.  A rank writes its slot and says that it has arrived.  When all
 * have, a small one is done from the slots alone.  In a sum each rank combines
 * its own part of all ranks' memory, says so, waits for the others, copies their
 * parts, says that it has parted, and ends when all have.  In a broadcast the
 * root waits for all to part; the others leave when they have copied.
 *
 * Once a rank's collective has ended its client writes new numbers there, and
 * asks for the next.  One rank may give up whenever it waits, which breaks the
 * group: who looks ends, with an error, and its client goes on all the same.
 *
 * Memory holds 2 * ticket for what a client gave, and 1 more for what came of it.
 *
 * wrong	a rank ended well with numbers that are not those of the ticket
 * stuck	some rank never ends
 *
 * bounds: RANKS=2 TICKETS=3
 * deeper: RANKS=3 TICKETS=2
 *
 * mutant: ONE_SLOT !(wrong): a fast rank's next slot is the one being read
 * mutant: NO_ARRIVAL !(wrong): what is read is not there yet
 * mutant: NO_COMBINED !(wrong): parts are copied before they are made
 * mutant: NO_PARTED !(wrong): a client writes what others still read
 * mutant: ROOT_LEAVES !(wrong): so it does at the root
 * mutant: NO_LAST_LOOK !(wrong): what a broken rank left behind is copied
 * mutant: BREAK_IS_UNSEEN stuck: a rank waits for one that has given up
 */

#define ARRIVED  1
#define COMBINED 2
#define PARTED   3

#define SMALL     0
#define SUM       1
#define BROADCAST 2

#define GIVEN(t)  (2 * (t))
#define RESULT(t) (2 * (t) + 1)
#define PHASE(t, p) (4 * (t) + (p))

#ifdef ONE_SLOT
#define SLOT(r, t) slot[2 * (r)]
#else
#define SLOT(r, t) slot[2 * (r) + (t) % 2]
#endif

/* Rank r's memory, in as many parts as there are ranks. */
#define MEMORY(r, part) memory[(r) * RANKS + (part)]

byte kind[TICKETS + 1];
byte phase[RANKS];
byte slot[2 * RANKS];
byte memory[RANKS * RANKS];
bool broken, gave_up, wrong;

#ifdef BREAK_IS_UNSEEN
#define IS_BROKEN false
#else
#define IS_BROKEN broken
#endif

inline await(p)
{
	k = 0;
	do
	:: k < RANKS && phase[k] >= PHASE(t, p) -> k++
	:: k == RANKS -> break
	:: k < RANKS && IS_BROKEN -> failed = true; break
	:: d_step { k < RANKS && !gave_up -> gave_up = true; broken = true };
		failed = true;
		break
	od;
	k = 0;
	if
	:: IS_BROKEN -> failed = true
	:: else
	fi
}

inline write_all(value)
{
	d_step {
		k = 0;
		do
		:: k < RANKS -> MEMORY(r, k) = value; k++
		:: else -> break
		od;
		k = 0
	}
}

/* The value read has to be this one, if all ends well. */
inline expect(from, value)
{
	bad = bad || from != value
}

inline do_small()
{
	do
	:: k < RANKS -> expect(SLOT(k, t), t); k++
	:: k == RANKS -> break
	od
}

inline do_sum()
{
	do
	:: k < RANKS -> expect(MEMORY(k, r), GIVEN(t)); k++
	:: k == RANKS -> break
	od;
	MEMORY(r, r) = RESULT(t);
	phase[r] = PHASE(t, COMBINED);
#ifndef NO_COMBINED
	await(COMBINED);
#else
	k = 0;
#endif
	do
	:: !failed && k < RANKS && k != r ->
		expect(MEMORY(k, k), RESULT(t));
		MEMORY(r, k) = RESULT(t);
		k++
	:: !failed && k < RANKS && k == r -> k++
	:: failed || k == RANKS -> break
	od
}

inline do_broadcast()
{
	if
	:: r != 0 -> expect(MEMORY(0, 0), GIVEN(t))
	:: else
	fi
}

/* From the work on to the end. */
inline leave()
{
	if
	:: !failed && kind[t] != SMALL ->
		phase[r] = PHASE(t, PARTED);
		if
		:: kind[t] == BROADCAST && r != 0 ->
#ifndef NO_LAST_LOOK
			if
			:: IS_BROKEN -> failed = true
			:: else
			fi
#endif
			skip
#ifdef ROOT_LEAVES
		:: kind[t] == BROADCAST && r == 0 -> skip
#else
		:: kind[t] == BROADCAST && r == 0 -> await(PARTED)
#endif
#ifdef NO_PARTED
		:: kind[t] == SUM -> skip
#else
		:: kind[t] == SUM -> await(PARTED)
#endif
		fi
	:: else
	fi
}

proctype rank(byte r)
{
	byte t = 1, k = 0;
	bool failed, bad;

	do
	:: t <= TICKETS && !failed ->
		bad = false;
		write_all(GIVEN(t));
		SLOT(r, t) = t;
		phase[r] = PHASE(t, ARRIVED);
#ifndef NO_ARRIVAL
		await(ARRIVED);
#endif
		if
		:: !failed && kind[t] == SMALL -> do_small()
		:: !failed && kind[t] == SUM -> do_sum()
		:: !failed && kind[t] == BROADCAST -> do_broadcast()
		:: failed
		fi;
		leave();
		wrong = bad && !failed;
		assert(!wrong);
		k = 0;
		t++
	:: else -> break
	od;
	/* The client goes on, whatever came of it. */
	write_all(0)
}

init {
	byte i = 1;

	do
	:: i <= TICKETS ->
		if
		:: kind[i] = SMALL
		:: kind[i] = SUM
		:: kind[i] = BROADCAST
		fi;
		i++
	:: else -> break
	od;
	atomic {
		i = 0;
		do
		:: i < RANKS -> run rank(i); i++
		:: else -> break
		od
	}
}
