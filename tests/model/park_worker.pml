/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * park_worker - a worker asleep on doorbells, a client per queue that submits.
 *
 * Each queue has a counter, parked, odd while the worker sleeps on that queue.
 * A client publishes a batch from its last slot to its first, loads parked, and
 * answers each odd value once: it writes the queue's eventfd, which keeps the
 * event until the worker, or the next one, meets it.  The worker parks queues
 * one by one: it makes parked odd, looks at the ring once more, and leaves it
 * to the doorbell.  The worker may be killed between any two steps.  The next one goes
 * on from the counter that it finds to an odd value that no client has answered,
 * and looks at every ring.  A counter starts odd, before there is a worker.
 *
 * Store buffers are those of park_client.pml.
 *
 * lost		the worker sleeps beside an entry that it can see
 * nagging	a client rang twice for one sleep
 * stuck	an entry is never consumed for any other reason
 *
 * bounds: SLOTS=2 OTHERS=1 DEATHS=1
 * bounds: SLOTS=3 OTHERS=0 DEATHS=2
 * deeper: SLOTS=3 OTHERS=1 DEATHS=1
 * deeper: SLOTS=2 OTHERS=1 DEATHS=2
 *
 * mutant: LOOKS_THEN_PARKS !(lost): an entry between the two is missed
 * mutant: EMPTIES_LATE !(lost): a doorbell after the last look is thrown away
 * mutant: STAYS_PARKED !(lost): that odd value has been answered
 * mutant: COUNTER_RESTARTS:2 !(lost): its values have been answered before
 * mutant: ATTACHES_ASLEEP !(lost): the dead worker may have met the doorbell
 * mutant: CLIENT_LOOKS_FIRST !(lost): it may park between look and store
 * mutant: FIRST_SLOT_RELEASED !(lost): parked is loaded before it is visible
 * mutant: FORWARD_BATCH !(lost): the slot that is looked at is not the ordered
 * mutant: ANSWERS_EVERY_TIME !(nagging): a system call for every batch
 */

#define QUEUES  2
#define LAST(q) ((q) == 0 -> SLOTS : OTHERS)
#define NONE    255

typedef queue {
	bool visible[SLOTS];
	byte buffered; /* on its way from the client's store buffer */
	byte parked;
	bool event;    /* the eventfd's, in the kernel */
	byte consumed; /* as the journal has it, see journal.pml */
};
queue queues[QUEUES];

bool killed;
byte deaths;
bool lost, nagging, stuck;

#define READY(q) (queues[q].consumed < LAST(q) && \
		  queues[q].visible[queues[q].consumed])
#define ALL_CONSUMED (queues[0].consumed == SLOTS && \
		      queues[1].consumed == OTHERS)

inline drain(q)
{
	if
	:: queues[q].buffered != NONE ->
		queues[q].visible[queues[q].buffered] = true;
		queues[q].buffered = NONE
	:: else
	fi
}

inline store_released(q, k)
{
	d_step {
		drain(q);
		queues[q].buffered = k
	}
}

inline store_ordered(q, k)
{
	d_step {
#ifndef FORWARD_BATCH
		drain(q);
#endif
		queues[q].visible[k] = true
	}
}

/* Load parked; is it for us to answer? */
inline look(q)
{
	d_step {
		must_ring = queues[q].parked % 2 == 1;
#ifndef ANSWERS_EVERY_TIME
		must_ring = must_ring && queues[q].parked != answered;
#endif
		nagging = must_ring && queues[q].parked == answered;
		assert(!nagging);
		answered = (must_ring -> queues[q].parked : answered)
	}
}

proctype client(byte q)
{
	byte next, batch, answered;
	bool must_ring;

	do
	:: next < LAST(q) ->
		if
		:: next + 1 < LAST(q) -> batch = 2
		:: batch = 1
		fi;
#ifdef CLIENT_LOOKS_FIRST
		look(q);
#endif
#if defined(FIRST_SLOT_RELEASED)
		store_released(q, next);
		if
		:: batch == 2 -> store_released(q, next + 1)
		:: else
		fi;
#elif defined(FORWARD_BATCH)
		if
		:: batch == 2 ->
			store_released(q, next);
			store_ordered(q, next + 1)
		:: else ->
			store_ordered(q, next)
		fi;
#else
		if
		:: batch == 2 -> store_released(q, next + 1)
		:: else
		fi;
		store_ordered(q, next);
#endif
#ifndef CLIENT_LOOKS_FIRST
		look(q);
#endif
		if
		:: must_ring -> queues[q].event = true
		:: else
		fi;
		d_step { next = next + batch; batch = 0; must_ring = false }
	:: else -> break
	od
}

/* Go on from what the dead owner left; no client has answered that value. */
inline adopt(q)
{
#ifdef COUNTER_RESTARTS
	queues[q].parked = 1;
#else
	queues[q].parked = (queues[q].parked | 1) + 2;
#endif
#ifdef ATTACHES_ASLEEP
	hot[q] = false
#else
	hot[q] = true
#endif
}

inline unpark(q)
{
	queues[q].parked = (queues[q].parked | 1) + 1;
	hot[q] = true
}

/* The next steps of the worker at one queue. */
#define SERVE(q)							\
	:: hot[q] && READY(q) -> queues[q].consumed++			\
	:: hot[q] && !READY(q) -> park(q)				\
	:: !hot[q] && queues[q].event -> answer(q)

inline park(q)
{
#ifdef LOOKS_THEN_PARKS
	hot[q] = READY(q);
	queues[q].parked = queues[q].parked | 1;
#else
	queues[q].parked = queues[q].parked | 1;
	hot[q] = READY(q);
#endif
#ifdef EMPTIES_LATE
	queues[q].event = false;
#endif
	if
	:: hot[q] -> unpark(q)
	:: else
	fi
}

inline answer(q)
{
	queues[q].event = false;
#ifdef STAYS_PARKED
	hot[q] = true
#else
	unpark(q)
#endif
}

proctype worker()
{
	bool hot[QUEUES]; /* looked at again and again, not left to a doorbell */

attach:
	{
		adopt(0);
		adopt(1);
end:
		do
		SERVE(0)
		SERVE(1)
		od
	} unless {
		killed -> killed = false;
		hot[0] = false;
		hot[1] = false;
		goto attach
	}
}

/* A buffered store becomes visible whenever it likes. */
proctype memory()
{
end:
	do
	:: d_step { queues[0].buffered != NONE -> drain(0) }
	:: d_step { queues[1].buffered != NONE -> drain(1) }
	od
}

proctype killer()
{
end:
	do
	:: d_step { deaths < DEATHS && !killed -> deaths++; killed = true }
	od
}

/* Nothing can move any more. */
proctype monitor()
{
	atomic {
		timeout ->
		lost = READY(0) || READY(1);
		assert(!lost);
		stuck = !ALL_CONSUMED;
		assert(!stuck)
	}
}

init {
	atomic {
		queues[0].buffered = NONE;
		queues[1].buffered = NONE;
		queues[0].parked = 1;
		queues[1].parked = 1;
		run client(0);
		run client(1);
		run worker();
		run memory();
		run killer();
		run monitor()
	}
}
