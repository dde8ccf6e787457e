/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gang_pair - two gangs on two nodes that have room for one of them.
 *
 * Each process asks both nodes, at any time.  A node without room looks at the
 * gang that has it.  If that gang is complete, the node refuses for good.  If
 * it is not, and is the higher, the node says nothing and asks its agent again,
 * for half the lease's time; if it is the lower, the node refuses with EBUSY.
 * So it refuses a gang, too, that is not complete within half the lease's time.
 * An asker that is refused with EBUSY lets go, and asks again after one tick or
 * two, under a new ID, until its deadline.  A node may do nothing for a tick.
 * Nothing else goes wrong here: see gang.
 *
 * Gang 1 is the higher.  All that can be done is done before a tick passes, in
 * any order, so a node that waits asks its agent again before an asker that has
 * let go asks again.  No fairness of the random time is needed beyond that.
 *
 * over		both processes are told, or a node holds both gangs
 * both_wait	each gang waits for the other
 * none		both deadlines have passed, and neither process was told
 *
 * bounds: STALLS=1
 * bounds: STALLS=2
 *
 * mutant: ANSWERS_EARLY !(over): a node that waits says that it holds
 * mutant: HIGHER_WAITS !(both_wait): for the lower, too
 * mutant: LOWER_LETS_GO !(none): both let go, and both come back
 */

#define TTL 6

/* A node's answer to a gang. */
#define NONE  0
#define WAITS 1
#define HELD  2
#define BUSY  3
#define FULL  4

/* A gang. */
#define ASKED  1
#define LET_GO 2
#define TOLD   3
#define ENDED  4

byte gang[2];
byte id[2];
byte deadline[2];
byte apart[2]; /* ticks until it asks again, at most */

/* Indexed by 2 * node + gang. */
byte answer[4];
byte answered[4]; /* the ID */
byte patience[4];
bool complete[4];

byte stalls;
bool stalled[2];
bool over, both_wait, none;

#define AT(n, g) (2 * (n) + (g))
#define SAYS(n, g) (answered[AT(n, g)] == id[g] -> answer[AT(n, g)] : NONE)
#ifdef ANSWERS_EARLY
#define HOLDS(n, g) (SAYS(n, g) == HELD || SAYS(n, g) == WAITS)
#else
#define HOLDS(n, g) (SAYS(n, g) == HELD)
#endif
#define EITHER(g, v) (SAYS(0, g) == v || SAYS(1, g) == v)

proctype asker(byte g)
{
end:
	do
	:: atomic {
		gang[g] == ASKED && HOLDS(0, g) && HOLDS(1, g) ->
		gang[g] = TOLD
	}
	:: atomic { gang[g] == ASKED && EITHER(g, FULL) -> gang[g] = ENDED }
	:: atomic {
		gang[g] == ASKED && EITHER(g, BUSY) ->
		gang[g] = LET_GO;
		apart[g] = 2
	}
	od
}

#ifdef HIGHER_WAITS
#define MAY_WAIT true
#elif defined(LOWER_LETS_GO)
#define MAY_WAIT false
#else
#define MAY_WAIT (g == 0)
#endif

inline answers(v)
{
	d_step {
		patience[AT(n, g)] = (v == WAITS || v == HELD -> TTL / 2 : 0);
		answered[AT(n, g)] = id[g];
		complete[AT(n, g)] = false;
		answer[AT(n, g)] = v
	}
}

#define IS_ASKED (gang[g] == ASKED || gang[g] == TOLD)
#define MINE	 answer[AT(n, g)]
#define THEIRS	 answer[AT(n, 1 - g)]
#define OTHER	 SAYS(1 - n, g)

/* A node does this for one gang. */
proctype member(byte n; byte g)
{
end:
	do
	:: atomic {
		!stalled[n] && MINE != NONE &&
				(!IS_ASKED || answered[AT(n, g)] != id[g]) ->
		answers(NONE)
	}
	:: atomic {
		!stalled[n] && THEIRS != HELD &&
				((gang[g] == ASKED && MINE == NONE) ||
				 MINE == WAITS) ->
		answers(HELD)
	}
	:: atomic {
		!stalled[n] && THEIRS == HELD && gang[g] == ASKED &&
				MINE == NONE ->
		if
		:: complete[AT(n, 1 - g)] -> answers(FULL)
		:: !complete[AT(n, 1 - g)] && MAY_WAIT -> answers(WAITS)
		:: !complete[AT(n, 1 - g)] && !MAY_WAIT -> answers(BUSY)
		fi
	}
	:: atomic {
		!stalled[n] && MINE == WAITS && THEIRS == HELD &&
				complete[AT(n, 1 - g)] ->
		answers(FULL)
	}
	:: atomic {
		!stalled[n] && MINE == HELD && OTHER == HELD &&
				!complete[AT(n, g)] ->
		complete[AT(n, g)] = true
	}
	:: atomic {
		!stalled[n] && !complete[AT(n, g)] && patience[AT(n, g)] == 0 &&
				(MINE == HELD || MINE == WAITS) ->
		answers(BUSY)
	}
	:: atomic {
		!stalled[n] && (MINE == HELD || MINE == WAITS) &&
				OTHER >= BUSY ->
		answers(BUSY)
	}
	od
}

#define LESS(x) x = (x > 0 -> x - 1 : 0)

inline pass()
{
	over = (gang[0] == TOLD && gang[1] == TOLD) ||
	       (answer[0] == HELD && answer[1] == HELD) ||
	       (answer[2] == HELD && answer[3] == HELD);
	both_wait = (answer[0] == WAITS && answer[3] == WAITS) ||
		    (answer[1] == WAITS && answer[2] == WAITS);
	none = gang[0] == ENDED && gang[1] == ENDED;
	assert(!(over));
	assert(!(both_wait));
	assert(!(none));
	do
	:: i < 4 -> LESS(patience[i]); i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < 2 ->
		stalled[i] = false;
		LESS(apart[i]);
		LESS(deadline[i]);
		if
		:: deadline[i] == 0 && (gang[i] == ASKED || gang[i] == LET_GO) ->
			gang[i] = ENDED;
			apart[i] = 0
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline next(g)
{
	gang[g] = ASKED;
	id[g]++;
	apart[g] = 0
}

/* The askers begin at any time. */
inline foretell()
{
	do
	:: i < 2 ->
		if
		:: gang[i] == NONE -> deadline[i] = TTL; next(i)
		:: gang[i] == LET_GO -> next(i)
		:: gang[i] != LET_GO || apart[i] > 0
		fi;
		i++
	:: else -> break
	od;
	i = 0;
	if
	:: true
	:: stalls < STALLS -> stalls++; stalled[0] = true
	:: stalls < STALLS -> stalls++; stalled[1] = true
	fi
}

proctype clock()
{
	byte i;

end:
	do
	:: atomic { timeout -> d_step { pass() }; foretell() }
	od
}

init {
	atomic {
		run asker(0);
		run asker(1);
		run member(0, 0);
		run member(0, 1);
		run member(1, 0);
		run member(1, 1);
		run clock()
	}
}
