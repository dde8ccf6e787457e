/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gang - reservations on two nodes, both or none, by way of etcd.
 *
 * A process of a third node, the coordinator, asks for the gang.  The
 * coordinator writes the gang's record; each member that sees the record asks
 * its agent, and writes its hold.  The process is told when both hold, and told
 * that the gang is lost when a hold goes or its node is dead.  A member ends
 * its reservation when the record goes or its node is dead, when the other
 * refuses, when the other's hold goes or its node is dead once the gang was
 * complete, and when it has not seen the gang complete within half the lease's
 * time.
 *
 * All keys of a node are under its one lease.  Each write is a transaction: the
 * lease of alive/NAME is the writer's, or as a writer that joins saw it, and
 * the key is as the writer saw it.  A transaction that changes nothing reads
 * the key.  A node writes each difference between what it wants and what it
 * sees.  A node that joins sees its own keys first, puts those that it wants
 * next, and writes alive/NAME last.  Keys that vanish together with alive/NAME
 * stand as the node's last word.  A node is dead to a reader when its counter
 * has stood for the lease's time, and the reader heard the store all that time:
 * alive/NAME may be there or not.
 *
 * All that can be done is done before a tick passes, in any order; strikes come
 * in between.  A gpumap-sync is killed, and comes back at any time, with
 * another lease; a stranger renews the old one for ever.  A node is cut off
 * from the store, or from its watch alone.  The store stops, and comes back
 * when all leases have ended, or when all have their whole time again.  A write
 * comes late.  An agent is away when it is asked.  An agent keeps its promises
 * (see ledger), and may refuse each gang.  No two machines have one name here.
 *
 * unheld	the process is told of a gang that a member never held
 * stays	a reservation outlasts its gang
 * one_sided	a member holds while the other does not
 * untold	the process is not told that a member holds nothing any more
 * unanswered	the process is not answered by its deadline
 * for_nothing	a gang ends after stops of the store and deaf watches alone
 * left_over	in the end there is a record, a hold or a reservation
 *
 * LIMIT, for stays, one_sided and untold: the lease's time, counted while the
 * node in question hears the store.  A member that is cut off keeps what it
 * holds until it hears again, however long that is: for it, stays and one_sided
 * promise nothing before.  Nor is a process told anything while its coordinator
 * hears nothing.  A coordinator whose watch alone is cut does not see a record
 * that has come late: stays does not count that time.
 *
 * bounds: KILLS=0 CUTS=0 DEAFS=0 DELAYS=0 ABSENCES=0 STOPS=1 STRANGERS=0
 * bounds: KILLS=1 CUTS=0 DEAFS=0 DELAYS=0 ABSENCES=1 STOPS=0 STRANGERS=0
 * bounds: KILLS=1 CUTS=0 DEAFS=0 DELAYS=0 ABSENCES=0 STOPS=0 STRANGERS=1
 * bounds: KILLS=2 CUTS=0 DEAFS=0 DELAYS=0 ABSENCES=0 STOPS=0 STRANGERS=0
 * bounds: KILLS=0 CUTS=1 DEAFS=0 DELAYS=0 ABSENCES=0 STOPS=0 STRANGERS=0
 * bounds: KILLS=0 CUTS=0 DEAFS=1 DELAYS=1 ABSENCES=1 STOPS=0 STRANGERS=0
 * deeper: KILLS=1 CUTS=0 DEAFS=0 DELAYS=1 ABSENCES=0 STOPS=0 STRANGERS=0
 * deeper: KILLS=1 CUTS=0 DEAFS=0 DELAYS=0 ABSENCES=0 STOPS=1 STRANGERS=0
 * deeper: KILLS=0 CUTS=1 DEAFS=0 DELAYS=1 ABSENCES=0 STOPS=0 STRANGERS=0
 * deeper: KILLS=1 CUTS=0 DEAFS=1 DELAYS=0 ABSENCES=0 STOPS=0 STRANGERS=1
 *
 * mutant: HOLDS_FIRST !(unheld): the hold is written before the agent is asked
 * mutant: ENDS_WITH_ALIVE !(for_nothing): keys vanish with alive/NAME
 * mutant: ALIVE_FIRST !(for_nothing): a node joins, and then says what it wants
 * mutant: TAKES_SILENCE_FOR_DEATH !(for_nothing): the store has stopped
 * mutant: ENDS_WHEN_CUT_OFF !(for_nothing): the store has stopped
 * mutant: TRUSTS_A_LEASE:3 !(stays): a stranger renews it, the counter stands
 * mutant: KEEPS_LAST_WORD:3 !(one_sided): of a node that was killed
 * mutant: HEARS_NO_DELETE:2 !(left_over): while alive/NAME is there
 * mutant: LEAVES_UNKNOWN:6 !(stays): a record comes after it was given up
 * mutant: BELIEVES_PREDECESSOR:3 !(one_sided): whose reservation died with it
 * mutant: WRITES_BLINDLY:6 !(one_sided): a late hold replaces a refusal, unseen
 * mutant: MEMBERS_ALONE:4 !(one_sided): the other holds nothing any more
 * mutant: MEMBER_WAITS:2 !(one_sided): for an agent; its coordinator was killed
 * mutant: IGNORES_HOLDS:3 !(untold): once the process has been told
 * mutant: COORDINATOR_WAITS !(unanswered): for a member that is not there
 * mutant: LEAVES_HOLD !(left_over): when the record has gone
 * mutant: WITHOUT_LEASE:3 !(left_over): its writer was killed
 */

#define TTL    2
#define LIMIT  TTL
#define LEASES (2 + KILLS + CUTS + STOPS)

#define C 2 /* the coordinator; the members are 0 and 1 */

/* Values of keys, and states of members. */
#define NONE	0
#define HELD	1
#define REFUSED 2
#define SEEN	3 /* the agent is to be asked */
#define NOTHING 3 /* no write comes late */

/* The gang. */
#define ASKED 1
#define TOLD  2
#define ENDED 3

/* The store.  A node has one key beside alive/NAME: a record, or a hold. */
bool stopped;
byte key[3];
byte key_lease[3];
byte alive[3];	       /* its lease; 0: absent */
byte left[3 * LEASES]; /* of lease 3 * lease + node: ticks until it ends */
byte kept;	       /* a lease that a stranger renews */

/* Each gpumap-sync. */
bool up[3];
byte cut[3];	 /* 1: off the store; 2: off its watch */
bool granted[3]; /* the lease is this process's */
byte lease[3];

/* Heard by a node of another: 3 * node + other. */
byte stood[9]; /* ticks of hearing without a change of the counter */
byte sees[9];  /* the key */
bool deaf[3];  /* it knows that it does not hear */

/* A write that comes late. */
byte late_write, late_node, late_lease, late_alive;
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
bool lives;
bool was_held[2];

byte kills, cuts, deafs, delays, absences, stops, strangers;
byte strikes; /* before the next tick */
byte calm;    /* ticks without one */
bool harmed;  /* there was more than stops of the store and deaf watches */
bool settled; /* the process was told, and both members know */
byte t_stays[2], t_sided[2], t_untold[2];
bool unheld, stays, one_sided, untold, unanswered, for_nothing, left_over;

#define WANTED	   (gang == ASKED || gang == TOLD)
#define REACHES(n) (up[n] && cut[n] != 1 && !stopped)
#define HEARS(n)   (up[n] && cut[n] == 0 && !stopped)
#define HAS(n)	   (granted[n] && left[3 * lease[n] + (n)] > 0)
#define JOINED(n)  (granted[n] && alive[n] == lease[n])

#define STOOD(n, x) (stood[3 * (n) + (x)] >= TTL)
#if defined(TRUSTS_A_LEASE)
#define DEAD(n, x) (STOOD(n, x) && ((x) != C || alive[x] == 0))
#elif defined(KEEPS_LAST_WORD)
#define DEAD(n, x) (STOOD(n, x) && alive[x] > 0)
#else
#define DEAD(n, x) STOOD(n, x)
#endif
#define SAYS(n, x) (DEAD(n, x) -> NONE : sees[3 * (n) + (x)])

#ifdef HOLDS_FIRST
#define SAID(s) (s == SEEN -> HELD : s)
#else
#define SAID(s) (s == SEEN -> NONE : s)
#endif
#ifdef LEAVES_UNKNOWN
bool knows; /* that the record was put */
#define UNWANTED (knows -> NONE : sees[3 * C + C])
#else
#define UNWANTED NONE
#endif
#define WANTS(n) \
	((n) == C -> (WANTED -> HELD : UNWANTED) : SAID(state[(n) % 2]))

/* No two values of a key have the same revision. */
inline put(n, w, l)
{
	key[n] = w;
	key_lease[n] = (w == NONE -> 0 : l);
	if
	:: late_write != NOTHING && late_node == n && expected != NONE ->
		expected = NOTHING
	:: else
	fi
}

#ifdef WRITES_BLINDLY
#define IS_COMPARED(condition) true
#else
#define IS_COMPARED(condition) (condition)
#endif

/* A transaction: the lease lives, alive/NAME and the key are as they were. */
inline arrive(n, w, l, a, e)
{
	if
	:: left[3 * l + n] > 0 && alive[n] == a && IS_COMPARED(key[n] == e) ->
		put(n, w, l)
	:: else
	fi
}

/* The writer takes the write for timed out. */
inline come_late(n)
{
	d_step {
		delays++;
		strikes--;
		late_write = WANTS(n);
		late_node = n;
		late_lease = lease[n];
		late_alive = alive[n];
		expected = sees[3 * n + n]
	}
}

inline forget_late()
{
	late_write = NOTHING;
	late_node = 0;
	late_lease = 0;
	late_alive = 0;
	expected = 0
}

inline come()
{
	d_step {
		arrive(late_node, late_write, late_lease, late_alive, expected);
		forget_late()
	}
}

/* ---- what each gpumap-sync does ------------------------------------------ */

/* Keys that vanish with alive/NAME are kept as the node's last word. */
#if defined(ENDS_WITH_ALIVE)
#define SPEAKS(x) true
#elif defined(HEARS_NO_DELETE)
#define SPEAKS(x) (key[x] != NONE)
#else
#define SPEAKS(x) (key[x] != NONE || alive[x] > 0)
#endif
#define BEHIND(n, x) (sees[3 * (n) + (x)] != key[x] && SPEAKS(x))
#define IS_OVER(n, x) \
	(sees[3 * (n) + (x)] != NONE && !SPEAKS(x) && DEAD(n, x))

#define LISTEN(n, x)                                                    \
	:: atomic { HEARS(n) && BEHIND(n, x) -> sees[3 * n + x] = key[x] } \
	:: atomic { HEARS(n) && IS_OVER(n, x) -> sees[3 * n + x] = NONE }

/* A hold names the process that wrote it, so a predecessor's differs. */
#define IS_OLD(n) (WANTS(n) != NONE && key_lease[n] != lease[n])
#ifdef LEAVES_HOLD
#define MAY_WRITE(n) ((n) == C || WANTS(n) != NONE)
#else
#define MAY_WRITE(n) true
#endif
#define DIFFERS(n)                                        \
	((sees[3 * (n) + (n)] != WANTS(n) || IS_OLD(n)) && \
	 MAY_WRITE(n))

inline grant(n)
{
	lease[n]++;
	granted[n] = true;
	left[3 * lease[n] + n] = TTL
}

/* A transaction that changed nothing reads the key. */
inline write(n)
{
	if
	:: d_step {
		true ->
		w = WANTS(n);
		arrive(n, w, lease[n], alive[n], sees[3 * n + n]);
		sees[3 * n + n] = key[n];
#ifdef LEAVES_UNKNOWN
		knows = (n == C -> w == HELD : knows);
#endif
		w = 0
	}
	:: delays < DELAYS && strikes > 0 -> come_late(n)
	fi
}

/* All that hear the store hear the counter. */
inline join(n)
{
	alive[n] = lease[n];
	stood[n] = 0;
	stood[3 + n] = 0;
	stood[6 + n] = 0
}

#ifdef ALIVE_FIRST
#define EARLY(n) false
#else
#define EARLY(n) (WANTS(n) != NONE)
#endif

/* The key that a node wants is there before alive/NAME. */
#define SPEAK(n)                                                             \
	:: atomic {                                                          \
		HEARS(n) && sees[3 * n + n] != key[n] ->                     \
		sees[3 * n + n] = key[n]                                     \
	}                                                                    \
	:: atomic { HEARS(n) && !HAS(n) -> d_step { grant(n) } }             \
	:: atomic {                                                          \
		HAS(n) && DIFFERS(n) && (JOINED(n) -> REACHES(n)             \
						    : HEARS(n) && EARLY(n)) -> \
		write(n)                                                     \
	}                                                                    \
	:: atomic {                                                          \
		HEARS(n) && HAS(n) && !JOINED(n) &&                          \
				sees[3 * n + n] == key[n] &&                 \
				(!DIFFERS(n) || !EARLY(n)) ->                \
		d_step { join(n) }                                           \
	}

/* ---- members ------------------------------------------------------------- */

#define HOLDS(n) (state[n] == HELD || state[n] == SEEN)
#define OTHER(n) SAYS(n, 1 - (n))

inline become(n, s)
{
	reserved[n] = (s == HELD);
	complete[n] = false;
	patience[n] = (s == HELD -> TTL / 2 : 0);
	state[n] = s
}

inline ask(n)
{
	if
	:: d_step {
		true ->
		become(n, HELD);
		was_held[n] = (gang == ASKED);
		t_stays[n] = 0;
		t_untold[n] = 0;
		t_sided[0] = 0;
		t_sided[1] = 0
	}
	:: d_step { true -> become(n, REFUSED) }
	fi
}

proctype member(byte n)
{
	byte w;

end:
	do
	SPEAK(n)
	LISTEN(n, C)
	LISTEN(n, 1 - n)
	:: atomic {
		JOINED(n) && SAYS(n, C) == HELD && state[n] == NONE ->
#ifdef BELIEVES_PREDECESSOR
		if
		:: sees[3 * n + n] == HELD -> state[n] = HELD
		:: else -> d_step { become(n, SEEN) }
		fi
#else
		d_step { become(n, SEEN) }
#endif
	}
	:: atomic { state[n] == SEEN && !away[n] -> ask(n) }
	:: atomic {
		state[n] == HELD && OTHER(n) == HELD && !complete[n] ->
		complete[n] = true;
		patience[n] = 0
	}
#ifndef MEMBERS_ALONE
	:: atomic {
		HOLDS(n) && (OTHER(n) == REFUSED ||
			     (complete[n] && OTHER(n) == NONE)) ->
		d_step { become(n, REFUSED) }
	}
#endif
#ifndef MEMBER_WAITS
	:: atomic {
		state[n] == HELD && !complete[n] && patience[n] == 0 &&
				!deaf[n] ->
		d_step { become(n, REFUSED) }
	}
#endif
#ifdef ENDS_WHEN_CUT_OFF
	:: atomic { HOLDS(n) && deaf[n] -> d_step { become(n, REFUSED) } }
#endif
	:: atomic {
		state[n] != NONE && SAYS(n, C) == NONE ->
		d_step { become(n, NONE) }
	}
	od
}

/* ---- the coordinator ----------------------------------------------------- */

#define BOTH(v)	  (SAYS(C, 0) == v && SAYS(C, 1) == v)
#define EITHER(v) (SAYS(C, 0) == v || SAYS(C, 1) == v)

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
	byte w;

end:
	do
	SPEAK(C)
	LISTEN(C, 0)
	LISTEN(C, 1)
	:: atomic {
		HEARS(C) && JOINED(C) && lives && gang == NONE ->
		gang = ASKED;
		deadline = TTL
	}
	:: atomic { gang == ASKED && lives && BOTH(HELD) -> tell() }
	:: atomic { gang == ASKED && EITHER(REFUSED) -> gang = ENDED }
#ifndef COORDINATOR_WAITS
	:: atomic { gang == ASKED && deadline == 0 -> gang = ENDED }
#endif
#ifndef IGNORES_HOLDS
	:: atomic { gang == TOLD && !BOTH(HELD) -> gang = ENDED }
#endif
	:: atomic { WANTED && !lives -> gang = ENDED }
	od
}

/* ---- what strikes -------------------------------------------------------- */

/* Keys go with their leases. */
inline expire()
{
	i = 0;
	do
	:: i < 3 ->
#ifndef WITHOUT_LEASE
		if
		:: key[i] != NONE && left[3 * key_lease[i] + i] == 0 ->
			put(i, NONE, 0)
		:: else
		fi;
#endif
		if
		:: alive[i] > 0 && left[3 * alive[i] + i] == 0 -> alive[i] = 0
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

/* The store comes back: all leases live on, or all have ended. */
inline come_back(ticks)
{
	stopped = false;
	do
	:: i < 3 * LEASES ->
		left[i] = (left[i] > 0 -> ticks : 0);
		i++
	:: else -> break
	od;
	kept = (ticks > 0 -> kept : 0);
	expire()
}

inline hear_nothing(n)
{
	stood[3 * n] = 0;
	stood[3 * n + 1] = 0;
	stood[3 * n + 2] = 0
}

inline kill(n)
{
	d_step {
		kills++;
		harmed = true;
		up[n] = false;
		granted[n] = false;
		hear_nothing(n);
		deaf[n] = false;
		sees[3 * n] = NONE;
		sees[3 * n + 1] = NONE;
		sees[3 * n + 2] = NONE;
		if
		:: n == C ->
			lives = false;
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
	:: !up[n] -> up[n] = true
	:: strangers < STRANGERS && !up[n] && alive[n] > 0 ->
		strangers++;
		kept = 3 * alive[n] + n
	:: cuts < CUTS && up[n] && cut[n] == 0 ->
		cuts++;
		cut[n] = 1;
		harmed = true
	:: deafs < DEAFS && up[n] && cut[n] == 0 -> deafs++; cut[n] = 2
	:: cut[n] != 0 -> cut[n] = 0
	:: n == C && late_write != NOTHING && !stopped -> come()
	:: n == C && lives -> lives = false; harmed = true
	:: n == C && stops < STOPS && !stopped -> stops++; stopped = true
	:: n == C && stopped -> d_step { come_back(TTL) }
	:: n == C && stopped -> d_step { come_back(0) }
	:: n != C && absences < ABSENCES && !away[n] -> absences++; away[n] = true
	:: n != C && away[n] -> away[n] = false
	:: else
	fi
}

proctype fate()
{
	byte n, i;

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

#define IS_LONG (calm > LIMIT + TTL)
#define IS_LEFT(n) (key[n] != NONE && (up[n] || kept != 3 * key_lease[n] + n))

inline judge()
{
	i = 0;
	do
	:: i < 2 ->
		t_stays[i] = (reserved[i] && !WANTED && HEARS(i) && cut[C] != 2
				      -> t_stays[i] + 1 : 0);
		stays = stays || t_stays[i] > LIMIT;
		t_sided[i] = (reserved[i] && !reserved[1 - i] && HEARS(i)
				      -> t_sided[i] + 1 : 0);
		one_sided = one_sided || t_sided[i] > LIMIT;
		t_untold[i] = (gang == TOLD && !reserved[i] && HEARS(C)
				       -> t_untold[i] + 1 : 0);
		untold = untold || t_untold[i] > LIMIT;
		i++
	:: else -> break
	od;
	unanswered = gang == ASKED && deadline == 0;
	for_nothing = settled && !harmed &&
		(gang != TOLD || !reserved[0] || !reserved[1]);
	harmed = harmed || gang == ENDED;
	settled = !harmed && gang == TOLD && complete[0] && complete[1];
	left_over = IS_LONG && gang == ENDED && !stopped &&
		!cut[0] && !cut[1] && !cut[C] &&
		(reserved[0] || reserved[1] || IS_LEFT(0) || IS_LEFT(1) ||
		 IS_LEFT(C));
	i = 0;
	assert(!(stays));
	assert(!(one_sided));
	assert(!(untold));
	assert(!(unanswered));
	assert(!(for_nothing));
	assert(!(left_over))
}

#define LESS(x) x = (x > 0 -> x - 1 : 0)

inline hear(n, x)
{
	stood[3 * n + x] =
		(HEARS(n) && REACHES(x) && JOINED(x) -> 0 :
		 (stood[3 * n + x] < TTL -> stood[3 * n + x] + 1 : TTL))
}

/* Leases that are renewed have their time again. */
inline pass()
{
	LESS(deadline);
	LESS(patience[0]);
	LESS(patience[1]);
	i = 0;
	do
	:: !stopped && i < 3 * LEASES ->
		if
		:: left[i] > 0 && REACHES(i % 3) && granted[i % 3] &&
				lease[i % 3] == i / 3 ->
			left[i] = TTL
		:: else -> left[i] = (left[i] > 0 && i != kept -> left[i] - 1
							       : left[i])
		fi;
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < 3 ->
		deaf[i] = i != C && up[i] && !HEARS(i);
		hear(i, (i + 1) % 3);
		hear(i, (i + 2) % 3);
#ifndef TAKES_SILENCE_FOR_DEATH
		if
		:: !HEARS(i) -> hear_nothing(i)
		:: else
		fi;
#endif
		i++
	:: else -> break
	od;
	expire();
	/* States that differ no more are made the same. */
	if
	:: gang != ASKED ->
		deadline = 0;
		was_held[0] = false;
		was_held[1] = false
	:: else
	fi;
	if
	:: late_write != NOTHING &&
			!(left[3 * late_lease + late_node] > 0 &&
			  IS_COMPARED(expected != NOTHING)) ->
		forget_late()
	:: else
	fi
}

/* How much strikes before the next tick. */
inline foretell()
{
	if
	:: strikes = 0; calm = (gang == ENDED && !IS_LONG -> calm + 1 : calm)
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
			grant(i);
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
