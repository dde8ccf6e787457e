/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gang - reservations on two nodes, both or none, by way of a store.
 *
 * A process of a third node, the coordinator, asks for the gang.  The
 * coordinator puts the gang's record under its lease; each member that sees the
 * record asks its agent, and puts its hold under its own lease.  The process is
 * told when both hold, and told that the gang is lost when a hold goes.  A
 * member ends its reservation when the record goes, when the other's hold goes
 * or is refused, when it has not seen the gang complete within half the lease's
 * time, and when it is cut off.
 *
 * All that can be done is done before a tick passes, in any order; strikes come
 * in between.  A gpumap-sync is killed, and comes back at any time, with
 * another lease; or it is cut off from the store, or from its watch alone.  A
 * write comes late, after what was written later: members write their holds by
 * compare-and-swap.  An agent is away when it is
 * asked.  A node gives its lease up a tick before the store does.  An agent
 * keeps its promises (see ledger), and may refuse each gang.
 *
 * unheld	the process is told of a gang that a member never held
 * stays	a reservation outlasts its gang
 * one_sided	a member holds while the other does not
 * untold	the process is not told that a member holds nothing any more
 * unanswered	the process is not answered
 * left_over	in the end there is a record, a hold or a reservation
 *
 * LIMIT, for all but the first and the last: the lease's time, and as much
 * again for a node that is cut off during it.  A coordinator whose watch alone
 * is cut does not see a record that has come late: that time is not counted.
 *
 * bounds: KILLS=1 CUTS=0 DELAYS=1 ABSENCES=0
 * bounds: KILLS=1 CUTS=0 DELAYS=0 ABSENCES=1
 * bounds: KILLS=0 CUTS=1 DELAYS=1 ABSENCES=0
 * bounds: KILLS=2 CUTS=0 DELAYS=0 ABSENCES=0
 * deeper: KILLS=1 CUTS=1 DELAYS=0 ABSENCES=0
 * deeper: KILLS=0 CUTS=1 DELAYS=1 ABSENCES=1
 * deeper: KILLS=2 CUTS=0 DELAYS=1 ABSENCES=0
 *
 * mutant: HOLDS_FIRST !(unheld): the hold is put before the agent is asked
 * mutant: KEEPS_WITHOUT_LEASE !(stays): cut off, it hears of no end
 * mutant: TRUSTS_ITS_WATCH !(stays): the lease is held, the watch is cut
 * mutant: FORGETS_IN_FLIGHT !(stays): the process goes before the put is done
 * mutant: LEAVES_UNKNOWN !(stays): a put comes after it was given up
 * mutant: RECORD_WITHOUT_LEASE !(stays): its coordinator was killed
 * mutant: HOLD_WITHOUT_LEASE !(one_sided): its member was killed
 * mutant: BELIEVES_PREDECESSOR !(one_sided): whose reservation died with it
 * mutant: IGNORES_HOLDS !(untold): once the process has been told
 * mutant: PUTS_HOLD !(one_sided): a late hold has replaced a refusal
 * mutant: FORGETS_DEAD_LEASE !(untold): the coordinator is cut off
 * mutant: MEMBERS_ALONE !(one_sided): the two others were killed
 * mutant: MEMBER_WAITS !(one_sided): for an agent; its coordinator was killed
 * mutant: COORDINATOR_WAITS !(unanswered): for a member that is not there
 * mutant: LEAVES_HOLD !(left_over): when the record has gone
 */

#define TTL    2
#define LIMIT  (TTL * (1 + CUTS))
#define LEASES (2 + KILLS + CUTS)

#define C 2 /* the coordinator; the members are 0 and 1 */

/* Holds, members, and writes in flight. */
#define NONE	0
#define HELD	1
#define REFUSED 2
#define SEEN	3 /* the agent is to be asked */
#define NOTHING 3 /* no write */

/* The gang. */
#define ASKED 1
#define TOLD  2
#define ENDED 3

/* The store.  left[3 * lease + node]: ticks until that lease ends. */
bool record;
byte record_lease;
byte hold[2];
byte hold_lease[2];
byte left[3 * LEASES];

/* Each gpumap-sync. */
bool up[3];
byte cut[3]; /* 1: off the store; 2: off its watch */
byte lease[3];
byte own[3];	/* ticks until it gives its lease up */
byte whole[3];	/* ticks until it gives up for want of a watch */
byte write[3];	/* in flight */
bool synced[3]; /* it has seen all there was, since it started */
bool sees_record[3];
byte sees_hold[6]; /* 2 * node + member */

/* A write that comes late. */
byte late_write, late_node, late_lease;
byte expected; /* by it; NOTHING: what is there no more */

/* The members. */
byte state[2];
byte patience[2];
bool complete[2];
bool away[2];	  /* the agent */
bool reserved[2]; /* the agent's word */

/* The coordinator, and the process. */
byte gang;
byte deadline;
bool knows; /* of the record */
bool lives;
bool was_held[2];

byte kills, cuts, delays, absences;
byte strikes; /* before the next tick */
byte calm;    /* ticks without one */
byte t_stays[2], t_sided[2], t_untold[2];
bool unheld, stays, one_sided, untold, unanswered, left_over;

#define WANTED (gang == ASKED || gang == TOLD)
#define IS_IN(n) (own[n] > 0 && whole[n] > 0)

/* No two values of a key have the same revision. */
inline outdate(n)
{
	if
	:: late_write != NOTHING && late_node == n && expected != NONE ->
		expected = NOTHING
	:: else
	fi
}

/* A write does nothing if its lease has ended. */
inline arrive(n, w, l)
{
	d_step {
		if
		:: n == C && w == NONE ->
			record = false;
			record_lease = 0
		:: n == C && w == HELD && left[3 * l + C] > 0 ->
			record = true;
			record_lease = l
		:: n != C && w == NONE ->
			hold[n] = NONE;
			hold_lease[n] = 0;
			outdate(n)
		:: n != C && w != NONE && left[3 * l + n] > 0 ->
			hold[n] = w;
			hold_lease[n] = l;
			outdate(n)
		:: else
		fi
	}
}

inline done(n)
{
	if
#ifndef PUTS_HOLD
	:: n != C && sees_hold[2 * n + n] != hold[n]
#endif
	:: else -> arrive(n, write[n], lease[n])
	fi;
	d_step {
		write[n] = NOTHING;
		if
		:: n == C -> sees_record[C] = record
		:: else -> sees_hold[2 * n + n] = hold[n]
		fi
	}
}

/* The writer takes the write for timed out. */
inline come_late(n)
{
	d_step {
		delays++;
		late_write = write[n];
		late_node = n;
		late_lease = lease[n];
		write[n] = NOTHING;
		if
		:: n == C ->
			gang = ENDED;
			knows = false
		:: else ->
			expected = sees_hold[2 * n + n]
		fi
	}
}

inline come(n)
{
	if
#ifndef PUTS_HOLD
	:: n != C && (expected == NOTHING || expected != hold[n])
#endif
	:: else -> arrive(n, late_write, late_lease)
	fi;
	d_step {
		late_write = NOTHING;
		late_node = 0;
		late_lease = 0;
		expected = 0
	}
}

#define BEHIND(n)                                                        \
	(sees_record[n] != record || sees_hold[2 * (n)] != hold[0] || \
	 sees_hold[2 * (n) + 1] != hold[1])

/* One key after the other, in any order. */
inline look(n)
{
	if
	:: sees_record[n] != record -> sees_record[n] = record
	:: sees_hold[2 * n] != hold[0] -> sees_hold[2 * n] = hold[0]
	:: sees_hold[2 * n + 1] != hold[1] -> sees_hold[2 * n + 1] = hold[1]
	fi
}

/* With a new lease, unless it is the watch alone that was cut. */
inline join(n)
{
	d_step {
		whole[n] = TTL - 1;
		if
		:: own[n] == 0 ->
			lease[n]++;
			own[n] = TTL - 1;
			left[3 * lease[n] + n] = TTL
		:: else
		fi
	}
}

/* ---- members ------------------------------------------------------------- */

#define OTHER(n) sees_hold[2 * (n) + 1 - (n)]

#define HAS(n)	 sees_hold[2 * (n) + (n)]
inline become(n, s)
{
	reserved[n] = (s == HELD);
	complete[n] = false;
	patience[n] = (s == SEEN -> TTL : (s == HELD -> TTL / 2 : 0));
	state[n] = s
}

inline ask(n)
{
	if
	:: d_step {
		true ->
		become(n, HELD);
		was_held[n] = true;
		t_untold[n] = 0;
		t_sided[1 - n] = 0
	}
	:: d_step { true -> become(n, REFUSED) }
	fi
}

/* A hold that its predecessor left is to be replaced, or removed. */
proctype member(byte n)
{
end:
	do
	:: atomic { up[n] && cut[n] == 0 && BEHIND(n) -> look(n) }
	:: atomic {
		up[n] && cut[n] == 0 && !synced[n] && !BEHIND(n) ->
		synced[n] = true
	}
	:: atomic { up[n] && write[n] != NOTHING -> done(n) }
	:: atomic {
		up[n] && IS_IN(n) && sees_record[n] && state[n] == NONE ->
#ifdef BELIEVES_PREDECESSOR
		if
		:: sees_hold[2 * n + n] == HELD -> state[n] = HELD
		:: else -> d_step { become(n, SEEN) }
		fi
#else
		d_step { become(n, SEEN) }
#endif
	}
	:: atomic { state[n] == SEEN && !away[n] -> ask(n) }
	:: atomic {
		state[n] == HELD && OTHER(n) == HELD && !complete[n] ->
		complete[n] = true
	}
#ifndef MEMBERS_ALONE
	:: atomic {
		(state[n] == HELD || state[n] == SEEN) &&
				(OTHER(n) == REFUSED ||
				 (complete[n] && OTHER(n) == NONE)) ->
		d_step { become(n, REFUSED) }
	}
#endif
#ifndef MEMBER_WAITS
	:: atomic {
		(state[n] == HELD || state[n] == SEEN) && !complete[n] &&
				patience[n] == 0 ->
		d_step { become(n, REFUSED) }
	}
#endif
	:: atomic {
		state[n] != NONE && !sees_record[n] ->
		d_step { become(n, NONE) }
	}
#ifndef KEEPS_WITHOUT_LEASE
	:: atomic {
		state[n] != NONE && own[n] == 0 ->
		d_step { become(n, NONE) }
	}
#endif
#if !defined(TRUSTS_ITS_WATCH) && !defined(KEEPS_WITHOUT_LEASE)
	:: atomic {
		(state[n] == HELD || state[n] == SEEN) && whole[n] == 0 ->
		d_step { become(n, REFUSED) }
	}
#endif
	:: atomic {
		up[n] && cut[n] != 1 && own[n] > 0 && write[n] == NOTHING &&
#ifdef HOLDS_FIRST
				state[n] == SEEN && HAS(n) != HELD ->
		write[n] = HELD
	}
	:: atomic {
		up[n] && cut[n] != 1 && own[n] > 0 && write[n] == NOTHING &&
#endif
				(state[n] == HELD || state[n] == REFUSED) &&
				HAS(n) != state[n] ->
		write[n] = state[n]
	}
#ifndef LEAVES_HOLD
	:: atomic {
		up[n] && cut[n] != 1 && own[n] > 0 && write[n] == NOTHING &&
				state[n] == NONE && synced[n] &&
				!sees_record[n] && HAS(n) != NONE ->
		write[n] = NONE
	}
#endif
	:: atomic {
		up[n] && cut[n] == 0 && !IS_IN(n) &&
				(state[n] == NONE || own[n] > 0) ->
		join(n)
	}
	od
}

/* ---- the coordinator ----------------------------------------------------- */

#define BOTH(v)	  (sees_hold[2 * C] == v && sees_hold[2 * C + 1] == v)
#define EITHER(v) (sees_hold[2 * C] == v || sees_hold[2 * C + 1] == v)

#if defined(LEAVES_UNKNOWN) || defined(FORGETS_IN_FLIGHT)
#define IS_LEFT (sees_record[C] && knows)
#else
#define IS_LEFT sees_record[C]
#endif

inline tell()
{
	d_step {
		unheld = !was_held[0] || !was_held[1];
		assert(!(unheld));
		gang = TOLD
	}
}

proctype coordinator()
{
end:
	do
	:: atomic { up[C] && cut[C] == 0 && BEHIND(C) -> look(C) }
	:: atomic { up[C] && write[C] != NOTHING -> done(C) }
	:: atomic {
		up[C] && lives && gang == NONE && IS_IN(C) && cut[C] == 0 ->
		gang = ASKED;
		deadline = TTL;
		knows = true;
		write[C] = HELD
	}
	:: atomic { gang == ASKED && lives && BOTH(HELD) -> tell() }
	:: atomic { gang == ASKED && EITHER(REFUSED) -> gang = ENDED }
#ifndef COORDINATOR_WAITS
	:: atomic { gang == ASKED && deadline == 0 -> gang = ENDED }
#endif
#ifndef IGNORES_HOLDS
	:: atomic { gang == TOLD && !BOTH(HELD) -> gang = ENDED }
#endif
	:: atomic {
		WANTED && !lives ->
		gang = ENDED;
#ifdef FORGETS_IN_FLIGHT
		knows = (write[C] == NOTHING)
#endif
	}
#ifndef FORGETS_DEAD_LEASE
	:: atomic { WANTED && !IS_IN(C) -> gang = ENDED }
#endif
	:: atomic {
		up[C] && cut[C] != 1 && write[C] == NOTHING && !WANTED &&
				IS_LEFT ->
		write[C] = NONE
	}
	:: atomic { up[C] && cut[C] == 0 && !WANTED && !IS_IN(C) -> join(C) }
	od
}

/* ---- what strikes -------------------------------------------------------- */

/* A write in flight arrives, or never does. */
inline kill(n)
{
	if
	:: write[n] != NOTHING -> arrive(n, write[n], lease[n])
	:: true
	fi;
	d_step {
		kills++;
		up[n] = false;
		write[n] = NOTHING;
		own[n] = 0;
		whole[n] = 0;
		synced[n] = false;
		sees_record[n] = false;
		sees_hold[2 * n] = NONE;
		sees_hold[2 * n + 1] = NONE;
		if
		:: n == C ->
			lives = false;
			knows = false;
			gang = ENDED
		:: else ->
			become(n, NONE)
		fi
	}
}

inline strike(n)
{
	if
	:: kills < KILLS && up[n] -> kill(n)
	:: !up[n] -> up[n] = true; join(n)
	:: cuts < CUTS && up[n] && cut[n] == 0 -> cuts++; cut[n] = 1
	:: cuts < CUTS && up[n] && cut[n] == 0 -> cuts++; cut[n] = 2
	:: cut[n] != 0 -> cut[n] = 0
	:: delays < DELAYS && up[n] && write[n] != NOTHING -> come_late(n)
	:: n == C && late_write != NOTHING -> come(late_node)
	:: n == C && lives -> lives = false
	:: n != C && absences < ABSENCES && !away[n] -> absences++; away[n] = true
	:: n != C && away[n] -> away[n] = false
	:: else
	fi
}

proctype fate()
{
	byte n;

end:
	do
	:: atomic {
		strikes > 0 ->
		strikes--;
		if
		:: n = 0
		:: n = 1
		:: n = C
		fi;
		strike(n);
		n = 0
	}
	od
}

/* ---- time ---------------------------------------------------------------- */

inline judge()
{
	i = 0;
	do
	:: i < 2 ->
		t_stays[i] = (reserved[i] && !WANTED && cut[C] != 2
				      -> t_stays[i] + 1 : 0);
		stays = stays || t_stays[i] > LIMIT;
		t_sided[i] = (reserved[i] && !reserved[1 - i]
				      -> t_sided[i] + 1 : 0);
		one_sided = one_sided || t_sided[i] > LIMIT;
		t_untold[i] = (gang == TOLD && !reserved[i]
				       -> t_untold[i] + 1 : 0);
		untold = untold || t_untold[i] > LIMIT;
		i++
	:: else -> break
	od;
	unanswered = gang == ASKED && deadline == 0;
	left_over = calm > LIMIT + TTL && gang == ENDED &&
		!cut[0] && !cut[1] && !cut[C] &&
		(record || reserved[0] || reserved[1] ||
		 hold[0] != NONE || hold[1] != NONE);
	i = 0;
	assert(!(stays));
	assert(!(one_sided));
	assert(!(untold));
	assert(!(unanswered));
	assert(!(left_over))
}

#define LESS(x) x = (x > 0 -> x - 1 : 0)

/* Leases that are renewed have their time again. */
inline pass()
{
	LESS(deadline);
	LESS(patience[0]);
	LESS(patience[1]);
	i = 0;
	do
	:: i < 3 * LEASES -> LESS(left[i]); i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < 3 ->
		if
		:: own[i] > 0 && cut[i] != 1 ->
			own[i] = TTL - 1;
			left[3 * lease[i] + i] = TTL
		:: else -> LESS(own[i])
		fi;
		if
		:: whole[i] > 0 && cut[i] == 0 -> whole[i] = TTL - 1
		:: else -> LESS(whole[i])
		fi;
		i++
	:: else -> break
	od;
	i = 0;
#ifndef RECORD_WITHOUT_LEASE
	if
	:: record && left[3 * record_lease + C] == 0 ->
		record = false;
		record_lease = 0
	:: else
	fi;
#endif
#ifndef HOLD_WITHOUT_LEASE
	do
	:: i < 2 ->
		if
		:: hold[i] != NONE && left[3 * hold_lease[i] + i] == 0 ->
			hold[i] = NONE;
			hold_lease[i] = 0;
			outdate(i)
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
#endif
}

/* How much strikes before the next tick. */
inline foretell()
{
	if
	:: strikes = 0; calm = (calm <= LIMIT + TTL -> calm + 1 : calm)
	:: strikes = 1; calm = 0
	:: strikes = 2; calm = 0
	fi
}

proctype clock()
{
	byte i;

end:
	do
	:: atomic {
		timeout ->
		d_step { judge(); pass() };
		foretell()
	}
	od
}

init {
	byte i;

	atomic {
		do
		:: i < 3 ->
			up[i] = true;
			write[i] = NOTHING;
			join(i);
			i++
		:: else -> break
		od;
		i = 0;
		late_write = NOTHING;
		lives = true;
		foretell();
		run member(0);
		run member(1);
		run coordinator();
		run fate();
		run clock()
	}
}
