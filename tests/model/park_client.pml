/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * park_client - one client asleep on a futex, several workers that complete.
 *
 * The client has one counter, parked, odd while it sleeps, and a futex word,
 * wake, that only wakers change.  To sleep it remembers wake, makes parked odd,
 * looks at every ring once more and waits while wake is what it remembers.
 * A worker publishes a batch from its last slot to its first, loads parked, and
 * answers each odd value once: it adds to wake and calls FUTEX_WAKE.  Worker 0
 * may be killed or stopped for ever between any two steps; once it is killed a
 * recovery process ends what it owed and wakes the client whether or not it
 * posted anything, and may be killed itself.
 *
 * A store with release may become visible later than loads that follow it; it
 * waits in a store buffer.  A sequentially consistent store does not wait, and
 * takes along what the same worker stored before it.
 *
 * lost		the client sleeps beside a completion that it can see
 * nagging	a worker woke it twice for one sleep
 * stuck	the client waits for ever for any other reason
 *
 * bounds: SLOTS=2 OTHERS=1 DEATHS=0 STOPS=1
 * bounds: SLOTS=2 OTHERS=1 DEATHS=1 STOPS=0
 * bounds: SLOTS=1 OTHERS=1 DEATHS=2 STOPS=0
 * deeper: SLOTS=2 OTHERS=1 DEATHS=2 STOPS=0
 * deeper: SLOTS=3 OTHERS=1 DEATHS=0 STOPS=1
 *
 * mutant: LOOKS_THEN_PARKS !(lost): a completion between the two is missed
 * mutant: READS_WAKE_LATE !(lost): it waits for the wake after the next
 * mutant: RECHECKS_ONE_RING !(lost): the other ring's worker saw it awake
 * mutant: SLEEPS_ON_OLD_VALUE:2 !(lost): that odd value has been answered
 * mutant: WORKER_LOOKS_FIRST !(lost): it may park between look and store
 * mutant: FIRST_SLOT_RELEASED !(lost): parked is loaded before it is visible
 * mutant: FORWARD_BATCH:2 !(lost): the slot that is looked at is not the ordered
 * mutant: WAKES_WITHOUT_COUNTING !(lost): a wake before the wait is forgotten
 * mutant: ONE_ANSWER_FOR_ALL !(lost): who took the answer has been stopped
 * mutant: ANSWERED_FROM_MEMORY !(lost): a new worker has answered nothing
 * mutant: RECOVERY_WAKES_IF_POSTED:3 !(lost): killed between post and wake
 * mutant: ANSWERS_EVERY_TIME !(nagging): a wake for every batch
 */

#define WORKERS   2
#define LAST(i)   ((i) == 0 -> SLOTS : OTHERS)
#define NONE    255

/* A ring of completions, one slot per completion; and what is still on its way
 * there: the store buffer outlives the process. */
typedef ring {
	bool visible[SLOTS];
	byte buffered;
	byte taken; /* the client's own */
};
ring rings[WORKERS];

/* In the session's memory.  All that matters of the futex word is whether it
 * has moved since the client remembered it. */
byte parked = 1;
bool wake_moved;

bool asleep; /* in the kernel */

bool killed, stopped, finished;
byte deaths, stops;
bool lost, nagging, stuck;
#ifdef ONE_ANSWER_FOR_ALL
byte all_answered;
#endif

#define SEEN(i)    rings[i].visible[rings[i].taken]
#define READY(i)   (rings[i].taken < LAST(i) && SEEN(i))
#define ALL_TAKEN  (rings[0].taken == SLOTS && rings[1].taken == OTHERS)
#define STORED(i, k) (rings[i].visible[k] || rings[i].buffered == (k))

inline drain(i)
{
	if
	:: rings[i].buffered != NONE ->
		rings[i].visible[rings[i].buffered] = true;
		rings[i].buffered = NONE
	:: else
	fi
}

inline store_released(i, k)
{
	d_step {
		drain(i);
		rings[i].buffered = k
	}
}

inline store_ordered(i, k)
{
	d_step {
#ifndef FORWARD_BATCH
		drain(i);
#endif
		rings[i].visible[k] = true
	}
}

inline wake_client()
{
#ifndef WAKES_WITHOUT_COUNTING
	wake_moved = true;
#endif
	asleep = false /* FUTEX_WAKE */
}

/* Load parked; is it for us to answer? */
inline look()
{
	d_step {
		must_wake = parked % 2 == 1;
#if defined(ONE_ANSWER_FOR_ALL)
		must_wake = must_wake && parked != all_answered;
		all_answered = (must_wake -> parked : all_answered);
#elif !defined(ANSWERS_EVERY_TIME)
		must_wake = must_wake && parked != answered;
#endif
		nagging = must_wake && parked == answered;
		assert(!nagging);
		answered = (must_wake -> parked : answered)
	}
}

/* One batch, of one or two completions. */
inline post(i)
{
	if
	:: next + 1 < LAST(i) && !STORED(i, next + 1) -> batch = 2
	:: batch = 1
	fi;
#ifdef WORKER_LOOKS_FIRST
	look();
#endif
#if defined(FIRST_SLOT_RELEASED)
	store_released(i, next);
#elif defined(FORWARD_BATCH)
	if
	:: batch == 2 -> store_released(i, next); store_ordered(i, next + 1)
	:: else -> store_ordered(i, next)
	fi;
#else
	if
	:: batch == 2 -> store_released(i, next + 1)
	:: else
	fi;
	store_ordered(i, next);
#endif
#ifndef WORKER_LOOKS_FIRST
	look();
#endif
	if
	:: must_wake -> wake_client()
	:: else
	fi
}

/* The journal says what has been posted; see journal.pml for how. */
inline resume(i)
{
	d_step {
		next = 0;
		do
		:: next < LAST(i) && STORED(i, next) -> next++
		:: else -> break
		od;
		batch = 0;
		must_wake = false
	}
}

proctype worker(byte i)
{
	byte next, batch, answered;
	bool must_wake, posted;

attach:
	{
		answered = 0;
#ifdef ANSWERED_FROM_MEMORY
		answered = parked;
#endif
		do
		:: resume(i);
			if
			:: next < LAST(i) -> post(i)
			:: else -> break
			fi
		od
	} unless {
		if
		:: i == 0 && killed -> killed = false; goto recover
		:: i == 0 && stopped -> goto halt
		fi
	};
	goto gone;
recover:
	{
		resume(i);
		posted = false;
		if
		:: next < LAST(i) -> /* an entry was in flight */
			store_ordered(i, next);
			posted = true
		:: skip
		fi;
#ifdef RECOVERY_WAKES_IF_POSTED
		if
		:: posted -> wake_client()
		:: else
		fi
#else
		wake_client()
#endif
	} unless {
		i == 0 && killed -> killed = false; goto recover
	};
	goto attach;
halt:
end:
	false; /* stopped, for ever */
gone:
	skip
}

proctype client()
{
	bool found;

awake:
	parked = (parked | 1) + 1;
scan:
	do
	:: READY(0) -> rings[0].taken++
	:: READY(1) -> rings[1].taken++
	:: !READY(0) && !READY(1) -> break
	od;
	if
	:: ALL_TAKEN -> goto gone
	:: else
	fi;

#ifndef READS_WAKE_LATE
	wake_moved = false; /* remembers it */
#endif
#ifdef LOOKS_THEN_PARKS
	found = READY(0);
	found = found || READY(1);
	parked = parked | 1;
#else
	parked = parked | 1;
	found = READY(0);
#ifndef RECHECKS_ONE_RING
	found = found || READY(1);
#endif
#endif
#ifdef READS_WAKE_LATE
	wake_moved = false; /* remembers it */
#endif
	if
	:: found -> found = false; goto awake
	:: else
	fi;
	asleep = !wake_moved; /* FUTEX_WAIT */
end:
	(!asleep); /* whether it may end so is the monitor's to say */
#ifdef SLEEPS_ON_OLD_VALUE
	goto scan;
#endif
	goto awake;
gone:
	finished = true
}

/* A buffered store becomes visible whenever it likes. */
proctype memory()
{
end:
	do
	:: d_step { rings[0].buffered != NONE -> drain(0) }
	:: d_step { rings[1].buffered != NONE -> drain(1) }
	od
}

proctype killer()
{
end:
	do
	:: d_step { deaths < DEATHS && !killed -> deaths++; killed = true }
	:: d_step { stops < STOPS && !stopped -> stops++; stopped = true }
	od
}

/* Nothing can move any more. */
proctype monitor()
{
	atomic {
		timeout ->
		lost = asleep && ((READY(0) && !stopped) || READY(1));
		assert(!lost);
		stuck = !finished && !stopped;
		assert(!stuck)
	}
}

init {
	atomic {
		rings[0].buffered = NONE;
		rings[1].buffered = NONE;
		run worker(0);
		run worker(1);
		run client();
		run memory();
		run killer();
		run monitor()
	}
}
