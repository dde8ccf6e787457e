/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * turn - maps that wait for room of one row, their places and their turns.
 *
 * Each client asks for one map: client 0 for two bytes of the row, the others
 * for SMALL.  A map of OLD bytes is there before all, and may end at any time.
 * The map of the third client lies on certain rows, and the agent tries it
 * again.  The layers of the others may lie elsewhere: such a client asks ROOM,
 * plans, and asks to publish the plan, or only to wait.  When something has
 * changed, and the place may move, and a glance finds room, the agent answers
 * that it is the client's turn, and keeps the place for the connection.  The
 * client plans again, or gives up and says so.  A turn passes at any time,
 * because clients may be slow; the second one that was missed puts the place
 * last.  A later request may pass a place where both can stand together, with
 * all that have passed it already.
 *
 * The agent has one request in hand: it checks the request, gives a file to the
 * I/O thread, and answers when that is done.  The promise is made after the
 * file, where a map of that name is set aside first, or before it, and then a
 * failure gives the promise back.  Meanwhile the agent hears messages, the ends
 * of turns, and the ends of clients: that of the connection, and that of the
 * holder, in any order.
 *
 * The line tries a place once after each change.  In truth it does so once a
 * second, too, and finds late what is lost here.  Here it does so LOOKS times,
 * and for places alone whose turn has passed.  A place claims the same bytes
 * all the time, for there is one row.  No request's time is over.
 *
 * The properties keep their own account: who came before whom, who missed two
 * turns, whose maps stand.
 *
 * over		the promises exceed the row's capacity
 * passed	a request was admitted before an earlier one that cannot stand
 *		beside it and those that had passed before
 * lost		in the end a client waits, neither dead nor stopped, whose map
 *		fits, and no request before it bars it
 * twice	the agent takes in hand, or admits, a request that has been
 *		answered; or in the end a dead client has a place
 *
 * bounds: CLIENTS=2 SMALL=2 DEATHS=1 STOPS=1 FAILURES=1 LOOKS=1
 * bounds: CLIENTS=3 SMALL=1 DEATHS=1 STOPS=1 FAILURES=0 LOOKS=1
 * deeper: CLIENTS=2 SMALL=2 DEATHS=2 STOPS=2 FAILURES=2 LOOKS=3
 * deeper: CLIENTS=3 SMALL=1 DEATHS=1 STOPS=1 FAILURES=1 LOOKS=2
 * deeper: CLIENTS=3 SMALL=2 DEATHS=1 STOPS=1 FAILURES=1 LOOKS=1
 *
 * mutant: TWO_IN_HAND:1 !(over): both were checked before either was promised
 * mutant: IGNORES_PASSED:2 !(passed): a second one takes the bytes that it asks
 * mutant: NONE_MAY_PASS:2 !(lost): there is room for both
 * mutant: TURN_DROPS_PLACE:1 !(passed): its client comes back as the last one
 * mutant: TURN_END_DROPS_PLACE:1 !(passed): so does a client that is slow
 * mutant: MISSED_STAYS:1 !(passed): a slow client's map comes first for ever
 * mutant: TURN_NEVER_ENDS:1 !(lost): its client is stopped
 * mutant: CHANGE_IN_TURN_IS_OLD:1 !(lost): its client had looked before it
 * mutant: LATER_TURN_IS_HEARD:1 !(lost): its client knows of the first alone
 * mutant: NEW_PLACE_IS_TRIED:1 !(lost): room came between look and place
 * mutant: GIVES_UP_SILENTLY:1 !(lost): the place stays
 * mutant: FAILURE_KEEPS_PROMISE:1 !(lost): there is no map that has the bytes
 * mutant: DEATH_KEEPS_PROMISE:1 !(lost): likewise
 * mutant: DEATH_IN_TURN_KEEPS_PLACE:1 !(twice): no request has it
 * mutant: REQUEST_IS_TRIED:1 !(twice): one that comes after its turn's end
 */

#define CAPACITY 3
#define OLD      2
#define LAST     (CLIENTS - 1)

#define ASK(c)       ((c) == 0 -> 2 : SMALL)
#define IS_FIXED(c)  ((c) == 2)
#define BIT(c)       (1 << (c))
#define HAS(set, c)  (((set) >> (c) & 1) != 0)
#define BYTES(set)   (((set) & 1) * 2 + ((set) >> 1 & 1) * SMALL + \
		      ((set) >> 2) * SMALL)
#define ADD(set, c)  set = set | BIT(c)
#define DROP(set, c) set = set & ~BIT(c)

/* Between client and agent: requests, */
#define NONE     0
#define ROOM     1
#define MAP      2
#define NOTHING  3 /* only to wait */
#define LEAVE    4
#define ASKED    5 /* the agent has it */
/* and answers. */
#define THERE_IS 6
#define IS_NONE  7
#define TURN     8
#define DONE     9
#define FAILED   10
byte wire[CLIENTS];

/* Sets of clients from here on. */
byte dead, stopped;

/* The ledger. */
byte promised = OLD, shown;

/* The line. */
byte line;            /* whose places are in it, */
byte before[CLIENTS]; /* the places before each, */
byte after[CLIENTS];  /* and the maps that came after it */
byte changed;         /* since the place was tried last */
byte tried;           /* at present */

/* Admissions. */
byte connections;      /* their places are kept for these, */
byte timers;           /* which have a turn that will end, */
byte missed;           /* or have missed the last one, */
byte slow;             /* or one since they were told */
byte waiting;          /* requests: to be taken in hand, */
byte postponed;        /* in the line, */
byte file_first, file; /* in hand, before and after the promise */
byte only_waits, again;
byte hung_up; /* as the agent has heard */

/* The properties' account. */
byte in_order;         /* they wait, or are in their turn, */
byte earlier[CLIENTS]; /* and came later than these; */
byte passers[CLIENTS]; /* these came later, and have maps */
byte in_turn, missed_one;
byte admitted;
bool over, passed, lost, twice;

byte deaths, stops, failures, looks;
bool is_old_gone;

#define KEEPS(p, set, by, bytes)                                 \
	(HAS(set, p) && ASK(p) + BYTES(by[p]) + (bytes) > CAPACITY)
#define KEPT(set, by, bytes)                                     \
	(KEEPS(0, set, by, bytes) || KEEPS(1, set, by, bytes) || \
	 KEEPS(LAST, set, by, bytes))

#define BEFORE(c)  (HAS(line, c) -> before[c] : line)
#define EARLIER(c) (HAS(in_order, c) -> earlier[c] : in_order)
#if defined(IGNORES_PASSED)
byte none[CLIENTS];
#define BARRED(c, bytes) KEPT(BEFORE(c), none, bytes)
#elif defined(NONE_MAY_PASS)
#define BARRED(c, bytes) (BEFORE(c) != 0)
#else
#define BARRED(c, bytes) KEPT(BEFORE(c), after, bytes)
#endif
#define FITS(c) (promised + ASK(c) <= CAPACITY)
/* Another plan may need less of this row. */
#define MAY_MOVE(c) (!BARRED(c, (IS_FIXED(c) -> ASK(c) : 1)))

#define DROP_FROM(sets, c) \
	DROP(sets[0], c);  \
	DROP(sets[1], c);  \
	DROP(sets[LAST], c)

#define ADD_ONE(sets, to, which, c) \
	sets[to] = sets[to] | (HAS(which, to) -> BIT(c) : 0)
#define ADD_TO(sets, which, c)      \
	ADD_ONE(sets, 0, which, c); \
	ADD_ONE(sets, 1, which, c); \
	ADD_ONE(sets, LAST, which, c)

/* ---- the account --------------------------------------------------------- */

inline comes(c)
{
	if
	:: !HAS(in_order | dead, c) ->
		earlier[c] = in_order;
		ADD(in_order, c)
	:: else
	fi
}

inline goes(c)
{
	DROP(in_order, c);
	DROP(in_turn, c);
	DROP(missed_one, c);
	DROP_FROM(earlier, c);
	earlier[c] = 0;
	passers[c] = 0
}

/* A client that has given up, or is dead, is not in order. */
inline turn_passes(c)
{
	DROP(in_turn, c);
	if
	:: HAS(in_order & missed_one, c) ->
		goes(c);
		comes(c)
	:: HAS(in_order & ~missed_one, c) -> ADD(missed_one, c)
	:: else
	fi
}

/* ---- the line ------------------------------------------------------------ */

inline leave(c)
{
	if
	:: HAS(line, c) ->
		DROP(line, c);
		DROP_FROM(before, c);
		before[c] = 0;
		after[c] = 0;
		changed = line
	:: else
	fi
}

inline stand(c)
{
	if
	:: !HAS(line, c) ->
		before[c] = line;
		ADD(line, c);
#ifndef NEW_PLACE_IS_TRIED
		ADD(changed, c)
#endif
	:: else
	fi;
	DROP(tried, c)
}

inline drop_place(c)
{
	leave(c);
	DROP(tried, c);
	DROP(connections, c);
	DROP(timers, c);
	DROP(missed, c);
	DROP(slow, c)
}

/* ---- admissions ---------------------------------------------------------- */

inline begin_turn(c)
{
	ADD(in_turn, c);
#ifdef TURN_DROPS_PLACE
	drop_place(c)
#else
	ADD(connections, c);
#ifndef TURN_NEVER_ENDS
	ADD(timers, c)
#endif
#endif
}

inline end_turn(c)
{
	turn_passes(c);
	DROP(timers, c);
#ifdef TURN_END_DROPS_PLACE
	drop_place(c);
#else
	ADD(slow, c);
	if
	:: !HAS(missed, c) -> ADD(missed, c)
	:: HAS(missed, c) ->
		DROP(missed, c);
#ifndef MISSED_STAYS
		leave(c)
#endif
	fi;
	stand(c)
#endif
}

inline postpone(c)
{
	comes(c);
#ifndef LATER_TURN_IS_HEARD
	changed = changed | (slow & line & BIT(c));
#endif
#ifdef CHANGE_IN_TURN_IS_OLD
	DROP(changed, c);
#endif
	DROP(missed, c);
	DROP(slow, c);
	stand(c);
	ADD(postponed, c)
}

inline promise(c)
{
	twice = HAS(admitted, c);
	ADD(admitted, c);
	if
	:: !HAS(dead, c) -> ADD_TO(passers, EARLIER(c), c)
	:: else
	fi;
	goes(c);
	ADD_TO(after, BEFORE(c), c);
	leave(c);
	promised = promised + ASK(c);
	ADD(shown, c);
	changed = line;
	over = promised > CAPACITY;
	assert(!(twice));
	assert(!(over))
}

inline give_back(c)
{
	promised = promised - ASK(c);
	DROP(shown, c);
	DROP_FROM(after, c);
	changed = line
}

inline finish(c, answer)
{
	if
	:: !HAS(hung_up, c) -> wire[c] = answer
	:: else
	fi;
	DROP(file, c);
	DROP(file_first, c);
	drop_place(c)
}

inline fail(c)
{
	goes(c);
	DROP(admitted, c);
	DROP_FROM(passers, c);
	finish(c, FAILED)
}

inline admit(c)
{
	passed = KEPT(EARLIER(c), passers, ASK(c));
	assert(!(passed));
	if
	:: ADD(file_first, c)
	:: promise(c); ADD(file, c)
	fi
}

/* Take its request in hand. */
inline begin(c)
{
	twice = wire[c] != ASKED;
	assert(!(twice));
	DROP(waiting, c);
	if
	:: HAS(again, c) && !IS_FIXED(c) ->
		begin_turn(c);
		wire[c] = TURN
	:: !(HAS(again, c) && !IS_FIXED(c)) &&
	   (HAS(only_waits, c) || !FITS(c) || BARRED(c, ASK(c))) ->
		postpone(c)
	:: else ->
		if
		:: HAS(dead, c) -> fail(c) /* it cannot be watched */
		:: else -> admit(c)
		fi
	fi;
	DROP(again, c);
	DROP(only_waits, c)
}

inline take(c)
{
	if
	:: wire[c] == ROOM -> wire[c] = (FITS(c) -> THERE_IS : IS_NONE)
	:: wire[c] == LEAVE ->
		drop_place(c);
		wire[c] = FAILED
	:: else ->
		if
		:: wire[c] == NOTHING -> ADD(only_waits, c)
		:: else
		fi;
		wire[c] = ASKED;
		DROP(in_turn, c);
		DROP(missed_one, c);
#ifndef REQUEST_IS_TRIED
		tried = tried | (connections & BIT(c));
#endif
		DROP(connections, c);
		DROP(timers, c);
		ADD(waiting, c)
	fi
}

inline try_again(c)
{
	DROP(changed, c);
	if
	:: HAS(connections, c) ->
		ADD(tried, c);
		begin_turn(c)
	:: !HAS(connections, c) && FITS(c) ->
		ADD(tried, c);
		ADD(again, c);
		DROP(postponed, c);
		ADD(waiting, c)
	:: else
	fi
}

inline written(c)
{
	if
	:: HAS(file_first, c) -> promise(c)
	:: else
	fi;
	finish(c, DONE)
}

/* Its holder may have ended meanwhile. */
inline not_written(c)
{
	failures++;
	if
#ifndef FAILURE_KEEPS_PROMISE
	:: HAS(shown, c) -> give_back(c)
#endif
	:: else
	fi;
	fail(c)
}

inline hear_hang_up(c)
{
	ADD(hung_up, c);
	wire[c] = NONE;
	if
	:: HAS(file | file_first, c)
	:: else ->
		DROP(waiting, c);
		DROP(postponed, c);
		DROP(again, c);
		DROP(only_waits, c);
#ifdef DEATH_IN_TURN_KEEPS_PLACE
		if
		:: !HAS(connections, c) -> drop_place(c)
		:: else
		fi
#else
		drop_place(c)
#endif
	fi
}

/* ---- processes ----------------------------------------------------------- */

#define IN_HAND (file | file_first)
#ifdef TWO_IN_HAND
#define MAY_BEGIN true
#else
#define MAY_BEGIN (IN_HAND == 0)
#endif

/* All that the agent does for one client. */
proctype agent(byte c)
{
end:
	do
	:: d_step { wire[c] >= ROOM && wire[c] <= LEAVE -> take(c) }
	:: atomic { MAY_BEGIN && HAS(waiting, c) -> begin(c) }
	:: d_step { HAS(IN_HAND, c) -> written(c) }
	:: d_step { HAS(IN_HAND, c) && failures < FAILURES -> not_written(c) }
	:: d_step {
		HAS(line & changed & ~tried, c) && MAY_MOVE(c) ->
		try_again(c)
	}
	:: d_step { HAS(timers, c) -> end_turn(c) }
	:: d_step {
		HAS(connections & ~tried & ~changed, c) && looks < LOOKS ->
		looks++;
		changed = line
	}
	:: d_step { HAS(dead & ~hung_up, c) -> hear_hang_up(c) }
#ifndef DEATH_KEEPS_PROMISE
	:: d_step { HAS(dead & shown, c) -> give_back(c) }
#endif
	od
}

#define SENDS(c, answer) (!HAS(dead | stopped, c) && wire[c] == answer)

proctype client(byte c)
{
end:
	do
	:: d_step {
		SENDS(c, NONE) -> wire[c] = (IS_FIXED(c) -> MAP : ROOM)
	}
	:: d_step { SENDS(c, THERE_IS) -> wire[c] = MAP }
	:: d_step { SENDS(c, IS_NONE) -> wire[c] = NOTHING }
	:: d_step { SENDS(c, TURN) -> wire[c] = ROOM }
	:: d_step {
		SENDS(c, TURN) && failures < FAILURES ->
		failures++;
		goes(c);
#ifdef GIVES_UP_SILENTLY
		wire[c] = FAILED
#else
		wire[c] = LEAVE
#endif
	}
	od
}

inline kill(c)
{
	deaths++;
	ADD(dead, c);
	DROP_FROM(passers, c);
	goes(c)
}

inline stop(c)
{
	stops++;
	ADD(stopped, c)
}

proctype killer()
{
	do
	:: d_step { deaths < DEATHS && !HAS(dead, 0) -> kill(0) }
	:: d_step { deaths < DEATHS && !HAS(dead, 1) -> kill(1) }
	:: d_step { deaths < DEATHS && !HAS(dead, LAST) -> kill(LAST) }
	:: d_step { stops < STOPS && !HAS(dead, 0) -> stop(0) }
	:: d_step { stops < STOPS && !HAS(dead, 1) -> stop(1) }
	:: d_step { stops < STOPS && !HAS(dead, LAST) -> stop(LAST) }
	:: break
	od
}

/* In the end a turn that is under way is one that never passes. */
#define HAS_ROOM(c)                                             \
	((is_old_gone -> 0 : OLD) + BYTES(admitted & ~dead) +   \
	 ASK(c) <= CAPACITY)
#define IS_LOST(c)                                              \
	(!HAS(dead | stopped, c) && wire[c] != DONE &&          \
	 wire[c] != FAILED && HAS_ROOM(c) &&                    \
	 !KEPT(EARLIER(c) & ~in_turn, passers, ASK(c)))

/* Nothing can move any more. */
proctype monitor()
{
	atomic {
		timeout ->
		twice = (line & dead) != 0;
		assert(!(twice));
		lost = IS_LOST(0) || IS_LOST(1) || IS_LOST(LAST);
		assert(!(lost))
	}
}

init {
	atomic {
		byte i;

		for (i : 0 .. LAST) {
			run agent(i);
			run client(i)
		}
		run killer();
		run monitor()
	};
	if
	:: d_step {
		promised = promised - OLD;
		is_old_gone = true;
		changed = line
	}
	:: true
	fi
}
