/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wait - an entry at the head of one row's queue that waits for two other rows.
 *
 * Each of those has a timeline, one word: how many of its entries have ended, and
 * the incarnation of its worker, 0 once that is dead.  The waiting worker reads
 * both; if one has not come so far the worker sets its bit in that row's line,
 * reads the timeline once more, and sleeps.  A worker that ends an entry stores its
 * timeline, looks for the bit, takes it, and wakes the waiting worker by an eventfd.
 * If the worker does not have that eventfd yet, it owes the wake until gpumapd has
 * sent it.
 *
 * A row's worker may be killed between any two steps.  Its recovery process
 * marks the timeline as dead before it ends what is left, with an error, and a
 * next worker may come, which goes on behind all that, under another
 * incarnation; or none.  No process wakes the waiter for a death: the coarse
 * timer does, and for nothing else here.  In truth it finds all that is lost,
 * too, but late.
 *
 * Store buffers are those of park_client.pml.
 *
 * early	it began before the work that it waits for was done
 * lost		it sleeps for ever although all has come that it waits for
 * stuck	it never ends for any other reason
 *
 * bounds: LAST=2 WANT0=1 WANT1=2 DEATHS=0
 * bounds: LAST=2 WANT0=2 WANT1=1 DEATHS=1
 * deeper: LAST=3 WANT0=2 WANT1=3 DEATHS=2
 *
 * mutant: ARMS_THEN_SLEEPS !(lost): a change between look and bit wakes no worker
 * mutant: BIT_RELEASED !(lost): the last look overtakes the bit
 * mutant: ENDER_LOOKS_FIRST !(lost): the bit may come between look and store
 * mutant: TIME_RELEASED !(lost): the look for the bit overtakes the timeline
 * mutant: CLEARS_LATE !(lost): the bit that it clears is the next one
 * mutant: WAKE_IS_NOT_OWED !(lost): a worker without an eventfd wakes no other
 * mutant: ANY_INCARNATION:2 !(early): what recovery ended counts as done
 * mutant: ONE_IS_ENOUGH !(early): it waits for all of them
 * mutant: DEAD_TIME_STAYS:2 !(stuck): no next worker may ever come
 */

#define ROWS 2
#define NONE 255
#define WANT(e) ((e) == 0 -> WANT0 : WANT1)

typedef row {
	byte time;        /* the timeline: how many have ended, */
	byte incarnation; /* under whom; 0: dead */
	byte buffered;    /* what time will be, when it leaves the store buffer */
	bool awaited;     /* the bit: a worker waits for this row */
	bool bit_held;    /* in the waiter's store buffer */
	byte done;        /* by the first worker: not by its recovery */
};
row rows[ROWS];

bool event; /* the waiter's eventfd, in the kernel, or its timer */
bool began, failed;
bool killed[ROWS];
byte deaths;
bool early, lost, stuck;

inline drain(e)
{
	if
	:: rows[e].buffered != NONE ->
		rows[e].time = rows[e].buffered;
		rows[e].buffered = NONE
	:: else
	fi
}

inline store_time(e)
{
#ifdef TIME_RELEASED
	d_step { drain(e); rows[e].buffered = rows[e].done }
#else
	rows[e].time = rows[e].done
#endif
}

inline wake()
{
	if
	:: has_waker -> event = true
#ifdef WAKE_IS_NOT_OWED
	:: !has_waker -> has_waker = true
#else
	:: !has_waker -> owes = true
#endif
	fi
}

inline tell(e)
{
#ifdef CLEARS_LATE
	if
	:: must_tell -> wake(); rows[e].awaited = false
	:: else
	fi;
#else
	if
	:: must_tell -> rows[e].awaited = false; wake()
	:: else
	fi;
#endif
	must_tell = false
}

proctype ender(byte e)
{
	bool must_tell, has_waker, owes;

	{
		if
		:: has_waker = true /* from earlier waits */
		:: skip
		fi;
		do
		:: rows[e].done < LAST ->
			rows[e].done++;
#ifdef ENDER_LOOKS_FIRST
			must_tell = rows[e].awaited;
			store_time(e);
#else
			store_time(e);
			must_tell = rows[e].awaited;
#endif
			tell(e)
		:: owes -> /* what was asked for comes */
			has_waker = true;
			event = true;
			owes = false
		:: rows[e].done == LAST && !owes -> break
		od
	} unless {
		killed[e] -> killed[e] = false;
#ifdef TIME_RELEASED
		d_step { drain(e) };
#endif
#ifndef DEAD_TIME_STAYS
		rows[e].incarnation = 0;
#endif
		event = true;
		if
		:: d_step { rows[e].time = LAST; rows[e].incarnation = 2 };
			event = true
		:: skip
		fi
	}
}

/* One load: has this row come so far? */
inline look(e, ret)
{
	d_step {
#ifdef ANY_INCARNATION
		failed = failed || rows[e].incarnation == 0;
#else
		failed = failed || rows[e].incarnation != 1;
#endif
		ret = rows[e].time >= WANT(e)
	}
}

inline look_at_both()
{
	look(0, come[0]);
	look(1, come[1])
}

#ifdef ONE_IS_ENOUGH
#define ALL_CAME (come[0] || come[1])
#else
#define ALL_CAME (come[0] && come[1])
#endif

inline set_bit(e)
{
	if
	:: !come[e] && !rows[e].awaited ->
#ifdef BIT_RELEASED
		rows[e].bit_held = true
#else
		rows[e].awaited = true
#endif
	:: else
	fi
}

proctype waiter()
{
	bool come[ROWS];

	do
	:: true ->
		look_at_both();
		if
		:: failed || ALL_CAME -> break
		:: else
		fi;
		set_bit(0);
		set_bit(1);
#ifndef ARMS_THEN_SLEEPS
		look_at_both();
		if
		:: failed || ALL_CAME -> break
		:: else
		fi;
#endif
end:
		event -> event = false
	od;
	skip;
	d_step {
		began = true;
		early = !failed && (rows[0].done < WANT0 || rows[1].done < WANT1);
		assert(!early)
	}
}

/* A buffered store becomes visible at any time. */
proctype memory()
{
end:
	do
#ifdef TIME_RELEASED
	:: d_step { rows[0].buffered != NONE -> drain(0) }
	:: d_step { rows[1].buffered != NONE -> drain(1) }
#endif
#ifdef BIT_RELEASED
	:: d_step {
		rows[0].bit_held ->
		rows[0].awaited = true;
		rows[0].bit_held = false
	}
	:: d_step {
		rows[1].bit_held ->
		rows[1].awaited = true;
		rows[1].bit_held = false
	}
#endif
	:: false
	od
}

proctype killer()
{
end:
	do
	:: d_step { deaths < DEATHS -> deaths++; killed[0] = true }
	:: d_step { deaths < DEATHS -> deaths++; killed[1] = true }
	od
}

/* Nothing can move any more. */
proctype monitor()
{
	atomic {
		timeout ->
		lost = !began && rows[0].time >= WANT0 && rows[1].time >= WANT1;
		assert(!lost);
		stuck = !began;
		assert(!stuck)
	}
}

init {
	atomic {
		rows[0].incarnation = 1;
		rows[1].incarnation = 1;
		rows[0].buffered = NONE;
		rows[1].buffered = NONE;
		run ender(0);
		run ender(1);
		run waiter();
		run memory();
		run killer();
		run monitor()
	}
}
