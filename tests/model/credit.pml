/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * credit - one queue pair, and the one rule that keeps both rings sound.
 *
 * Two rings of N slots.  The sequence lies in the slot: position p carries
 * p + 1 and slots start at 0.  The client submits only while what it submitted
 * less what completions have given back stays below N.  The worker consumes in
 * order and completes in any order.  An entry may take two slots; the second is
 * published before the first, is checked with it, and is then consumed and
 * completed by itself, for a credit of its own.
 *
 * Credit does not keep the worker from going round the ring past an entry in
 * flight.  The journal (journal.pml) has one word per slot, so the worker stops
 * before a slot whose word is in use.
 *
 * Positions are counted modulo POSITIONS, as the real ones are modulo 2^32, so
 * the number of entries has no bound: the search ends when it meets no state
 * that is new.
 *
 * overwritten	a submission slot was stored before it was consumed
 * posted_over	a completion slot was stored before it was taken
 * garbled	a process acted on a slot that did not hold what it should
 * passed	an entry in flight was left behind by more than the journal's N
 * stuck	an entry never ends
 *
 * bounds: N=2 POSITIONS=8 WIDEST=2
 * bounds: N=3 POSITIONS=9 WIDEST=2
 * deeper: N=2 POSITIONS=16 WIDEST=2
 * deeper: N=3 POSITIONS=12 WIDEST=2
 *
 * mutant: CREDIT_AT_CONSUMPTION !(posted_over): completions pile up unread
 * mutant: CREDIT_BY_NEWEST !(posted_over): those before it may be in flight
 * mutant: ONE_CREDIT_TOO_MANY !(posted_over): off by one
 * mutant: SECOND_SLOT_FREE !(posted_over): two slots for one credit
 * mutant: CONSUMES_OUT_OF_ORDER !(overwritten): an end proves nothing then
 * mutant: SECOND_SLOT_LAST !(garbled): the first leads to what is not there
 * mutant: SEQUENCE_BEFORE_ENTRY !(garbled): fresh sequence, stale entry
 * mutant: SEQUENCE_BEFORE_COMPLETION !(garbled): the same the other way
 * mutant: SEQUENCE_TOO_NARROW !(garbled): the last lap's slot looks fresh
 * mutant: PASSES_WHAT_FLIES !(passed): one word for two entries in flight
 * mutant: SECOND_SLOT_PASSES:2 !(passed): the second slot has a word as well
 * mutant: FAILED_ENTRIES_VANISH stuck: what fails must complete too
 * mutant: SECOND_SLOT_VANISHES stuck: so must a second slot
 */

#define AFTER(p, k)   (((p) + (k)) % POSITIONS)
#define BETWEEN(a, b) (((b) + POSITIONS - (a)) % POSITIONS)
#define NONE          255

#ifdef SEQUENCE_TOO_NARROW
#define SEQUENCE(p) (((p) + 1) % N)
#else
#define SEQUENCE(p) AFTER(p, 1)
#endif

#define SECOND 3 /* in place of a width: a second slot */

#ifdef SECOND_SLOT_FREE
#define COST(width)  1
#define GIVES(width) ((width) != SECOND)
#else
#define COST(width)  (width)
#define GIVES(width) 1
#endif

/* In the session's memory. */
typedef submission {
	byte sequence;
	byte position; /* stands for the entry's words */
	bool next;     /* one more slot belongs to this entry */
};
submission entry[N];
typedef completion {
	byte sequence;
	byte position;
};
completion done[N];

/* The client's own. */
byte submitted, charged, given_back, taken;
byte width_of[POSITIONS]; /* of slots that have not ended; else 0 */
byte n_open;
bool stopping, finished;
#ifdef CREDIT_BY_NEWEST
byte newest; /* the highest position that has ended, plus its width */
#endif

/* The worker's own. */
byte consumed, posted;
byte flying[N] = NONE; /* positions in flight, as the journal has them */

bool overwritten, posted_over, garbled, passed;

#if defined(CREDIT_AT_CONSUMPTION)
#define USED BETWEEN(consumed, submitted)
#elif defined(CREDIT_BY_NEWEST)
#define USED BETWEEN(newest, submitted)
#else
#define USED BETWEEN(given_back, charged)
#endif

#ifdef ONE_CREDIT_TOO_MANY
#define CREDIT(width) (USED + COST(width) <= N + 1)
#else
#define CREDIT(width) (USED + COST(width) <= N)
#endif

inline fill(p, more)
{
	d_step {
		overwritten = BETWEEN(consumed, p) >= N;
		assert(!overwritten)
	};
#ifdef SEQUENCE_BEFORE_ENTRY
	entry[(p) % N].sequence = SEQUENCE(p);
#endif
	d_step {
		entry[(p) % N].position = p;
		entry[(p) % N].next = more
	};
#ifndef SEQUENCE_BEFORE_ENTRY
	entry[(p) % N].sequence = SEQUENCE(p)
#endif
}

inline submit()
{
#ifdef SECOND_SLOT_LAST
	fill(submitted, width == 2);
	if
	:: width == 2 -> fill(AFTER(submitted, 1), false)
	:: else
	fi;
#else
	if
	:: width == 2 -> fill(AFTER(submitted, 1), false)
	:: else
	fi;
	fill(submitted, width == 2);
#endif
	d_step {
		charged = AFTER(charged, COST(width));
		submitted = AFTER(submitted, width);
		width = 0
	}
}

inline take()
{
	d_step {
		ended = done[taken % N].position;
		garbled = width_of[ended] == 0;
		assert(!garbled);
#ifdef CREDIT_BY_NEWEST
		if
		:: BETWEEN(newest, ended) < N -> newest = AFTER(ended, 1)
		:: else
		fi;
#endif
		given_back = AFTER(given_back, GIVES(width_of[ended]));
		width_of[ended] = 0;
		n_open--;
		taken = AFTER(taken, 1);
		ended = 0
	}
}

proctype client()
{
	byte width, ended;

	do
	:: !stopping && CREDIT(1) ->
		width = 1;
		if
		:: WIDEST == 2 && CREDIT(2) -> width = 2
		:: skip
		fi;
		d_step {
			width_of[submitted] = width;
			n_open = n_open + width;
			if
			:: width == 2 -> width_of[AFTER(submitted, 1)] = SECOND
			:: else
			fi
		};
		submit()
	:: done[taken % N].sequence == SEQUENCE(taken) -> take()
	:: !stopping -> stopping = true
	:: stopping && n_open == 0 -> break
	od;
	finished = true
}

#define VISIBLE(p) (entry[(p) % N].sequence == SEQUENCE(p))
#define IS(p)      (VISIBLE(p) && entry[(p) % N].position == (p))

#ifdef PASSES_WHAT_FLIES
#define BUSY(p) false
#else
#define BUSY(p) (flying[(p) % N] != NONE)
#endif

inline take_word(p)
{
	i = 0;
	do
	:: i < N ->
		passed = flying[i] != NONE && BETWEEN(flying[i], AFTER(p, 1)) > N;
		assert(!passed);
		i++
	:: else -> break
	od;
	i = 0;
	flying[(p) % N] = p
}

/* Copy the slot at position p, and that behind it if it says so; check the
 * copies, then use them. */
inline consume(p)
{
	d_step {
		garbled = !IS(p) ||
			  (entry[(p) % N].next && !IS(AFTER(p, 1)));
		assert(!garbled);
		width = 1;
#ifndef FAILED_ENTRIES_VANISH
		take_word(p)
#endif
#ifdef SECOND_SLOT_VANISHES
		width = width + entry[(p) % N].next;
#endif
#ifdef SECOND_SLOT_PASSES
		if
		:: entry[(p) % N].next -> width = 2; take_word(AFTER(p, 1))
		:: else
		fi
#endif
	}
}

inline complete(i)
{
	d_step {
		posted_over = BETWEEN(taken, posted) >= N;
		assert(!posted_over)
	};
#ifdef SEQUENCE_BEFORE_COMPLETION
	done[posted % N].sequence = SEQUENCE(posted);
	done[posted % N].position = flying[i];
#else
	done[posted % N].position = flying[i];
	done[posted % N].sequence = SEQUENCE(posted);
#endif
	d_step {
		flying[i] = NONE;
		posted = AFTER(posted, 1)
	}
}

proctype worker()
{
	byte width, i;
#ifdef CONSUMES_OUT_OF_ORDER
	byte ahead; /* slots after the next one that are consumed */
#endif

	do
	:: VISIBLE(consumed) && !BUSY(consumed) ->
		consume(consumed);
		d_step {
			consumed = AFTER(consumed, width);
#ifdef CONSUMES_OUT_OF_ORDER
			consumed = AFTER(consumed, ahead);
			ahead = 0;
#endif
			width = 0
		}
#ifdef CONSUMES_OUT_OF_ORDER
	:: ahead == 0 && IS(consumed) && !entry[consumed % N].next &&
	   IS(AFTER(consumed, 1)) && !entry[AFTER(consumed, 1) % N].next ->
		consume(AFTER(consumed, 1));
		ahead = width
#endif
	:: flying[0] != NONE -> complete(0)
	:: flying[1] != NONE -> complete(1)
#if N > 2
	:: flying[2] != NONE -> complete(2)
#endif
#if N > 3
	:: flying[3] != NONE -> complete(3)
#endif
	:: finished -> break
	od
}

init {
	atomic {
		run client();
		run worker()
	}
}
