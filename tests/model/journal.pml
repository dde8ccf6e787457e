/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * journal - what a worker owes, and its recovery (shm/journal.[ch]).
 *
 * The journal has one word per slot of the ring, stored as one: a position, and
 * a completion position or none.  An entry that outlives the turn that read it
 * is journalled at once.  One that ends within the turn is not, and stays in
 * the ring for all the journal knows, until its completion position is given.
 * To end a batch the worker gives words, in the order of completion positions,
 * stores the next-completion counter, and posts from the last completion to the
 * first.  The worker stops before an entry whose word belongs to one in flight.
 *
 * Worker and recovery process may be killed between any two steps.  The next
 * one knows the words, the counter and both rings.  Words hold the low half of
 * positions, counted modulo LOW and here 16; counter and sequences count modulo FULL, 32.
 * They stand for 2^31 and 2^32.  All positions begin at START, so the bounds
 * below cross neither, the first, and both ends of the count.
 *
 * doubled	an entry ended twice, or never was
 * garbled	a completion was visible before it was written
 * posted_over	a completion slot was stored before it was taken
 * stuck	an entry never ends
 *
 * bounds: N=2 ENTRIES=4 DEATHS=3 START=0
 * bounds: N=2 ENTRIES=5 DEATHS=1 START=14
 * bounds: N=2 ENTRIES=5 DEATHS=2 START=29
 * bounds: N=4 ENTRIES=6 DEATHS=1 START=28
 * deeper: N=2 ENTRIES=8 DEATHS=3 START=28
 * deeper: N=4 ENTRIES=7 DEATHS=2 START=12
 *
 * mutant: POSTS_BEFORE_WORDS !(doubled): recovery posts it once more
 * mutant: COUNTER_BEFORE_WORDS stuck: a completion position that is never posted
 * mutant: NO_COUNTER stuck: a later entry has taken the last word's place
 * mutant: CLEARS_BEFORE_POST stuck: killed between the two
 * mutant: CLEARS_AFTER_POST !(doubled): what was consumed is forgotten
 * mutant: TWO_STORES stuck: a new position beside an old completion
 * mutant: GIVES_BACKWARDS stuck: what is not given is skipped
 * mutant: JOURNALS_PAST_UNJOURNALLED stuck: what is before it seems consumed
 * mutant: PASSES_WHAT_FLIES stuck: the word of one entry, taken by another
 * mutant: SEQUENCE_BEFORE_COMPLETION !(garbled): fresh sequence, stale words
 * mutant: RECOVERY_DOES_NOT_LOOK !(doubled): it may have been posted
 * mutant: RING_BEFORE_FLYING stuck: the ring's entries take their words
 * mutant: CONSUMED_FROM_COUNTER !(doubled): some that fly came before it
 * mutant: LOOKS_AT_SEQUENCE_ONLY !(doubled): a later lap is no old debt
 */

#define LOW  16
#define FULL 32
#define NONE 255

#define AFTER(p, k)   (((p) + (k)) % FULL)
#define BETWEEN(a, b) (((b) + FULL - (a)) % FULL)

/* In the session's memory. */
typedef completion {
	byte sequence;
	byte position;
};
byte entry[N]; /* sequences */
completion done[N];

/* In the journal. */
#define UNUSED 0
#define FLYING 1
#define GIVEN  2
typedef journal_word {
	byte state;
	byte position; /* low */
	byte at;       /* low, once given */
};
journal_word word[N];
byte next;

/* The client's own. */
byte submitted, taken;
bool open[ENTRIES];
bool finished;

bool killed;
byte deaths;
bool doubled, garbled, posted_over;

#define VISIBLE(p) (entry[(p) % N] == AFTER(p, 1))
#define POSTED(at) (done[(at) % N].sequence == AFTER(at, 1))

/* The position that is nearest to near and ends in low. */
#define AHEAD(low, near) (((low) + LOW - (near) % LOW) % LOW)
#define WIDEN(low, near)						\
	(AHEAD(low, near) < LOW / 2 ->					\
	 AFTER(near, AHEAD(low, near)) :				\
	 AFTER(near, AHEAD(low, near) + FULL - LOW))

inline take_word(pos)
{
#ifdef TWO_STORES
	word[(pos) % N].position = (pos) % LOW;
	word[(pos) % N].state = FLYING
#else
	d_step {
		word[(pos) % N].position = (pos) % LOW;
		word[(pos) % N].at = 0;
		word[(pos) % N].state = FLYING
	}
#endif
}

inline give_word(pos, cpos)
{
	d_step {
		word[(pos) % N].position = (pos) % LOW;
		word[(pos) % N].at = (cpos) % LOW;
		word[(pos) % N].state = GIVEN
	}
}

inline clear_word(pos)
{
	d_step {
		word[(pos) % N].position = 0;
		word[(pos) % N].at = 0;
		word[(pos) % N].state = UNUSED
	}
}

inline post(cpos, pos)
{
	d_step {
		posted_over = BETWEEN(taken, cpos) >= N && BETWEEN(taken, cpos) < LOW;
		assert(!posted_over)
	};
#ifdef SEQUENCE_BEFORE_COMPLETION
	done[(cpos) % N].sequence = AFTER(cpos, 1);
	done[(cpos) % N].position = pos
#else
	done[(cpos) % N].position = pos;
	done[(cpos) % N].sequence = AFTER(cpos, 1)
#endif
}

/* gm_journal_read(): where the owner before stood. */
inline read_journal()
{
	d_step {
		c = next;
		i = 0;
		do
		:: i < N ->
			if
			:: word[i].state == GIVEN &&
			   BETWEEN(c, WIDEN(word[i].at, next)) < LOW ->
				c = AFTER(WIDEN(word[i].at, next), 1)
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		h = 0; /* how many were consumed after the last given one */
		do
		:: i < N ->
			p = AFTER(WIDEN(word[i].position, c), 1);
			if
			:: word[i].state != UNUSED &&
			   BETWEEN(c, p) <= N && BETWEEN(c, p) > h ->
				h = BETWEEN(c, p)
			:: else
			fi;
			i++
		:: else -> break
		od;
#ifdef CONSUMED_FROM_COUNTER
		h = 0;
#endif
		h = AFTER(c, h);
		p = 0;
		i = 0
	}
}

/*
 * The worker
 */

#define IN_BATCH(i) ((n > 0 && ending[0] % N == (i)) || \
		     (n > 1 && ending[1] % N == (i)))

#ifdef PASSES_WHAT_FLIES
#define BUSY(p) IN_BATCH((p) % N)
#else
#define BUSY(p) (word[(p) % N].state == FLYING || IN_BATCH((p) % N))
#endif

/* The next entry: it ends within this turn, or it does not. */
inline consume()
{
	if
	:: n < 2 ->
		ending[n] = h;
		n++;
		unjournalled++
#ifdef JOURNALS_PAST_UNJOURNALLED
	:: take_word(h)
#else
	:: unjournalled == 0 -> take_word(h)
#endif
	fi;
	h = AFTER(h, 1)
}

#define CAN_CONSUME (VISIBLE(h) && !BUSY(h) && (n < 2 || unjournalled == 0))

/* The entry in flight whose word is i ends: in this batch or a later one. */
#define CAN_END(i) (word[i].state == FLYING && !IN_BATCH(i) && n < 2)

inline end_later(i)
{
	d_step {
		ending[n] = WIDEN(word[i].position, h);
		n++
	}
}

inline give_batch()
{
#ifdef GIVES_BACKWARDS
	if
	:: n == 2 -> give_word(ending[1], AFTER(c, 1))
	:: else
	fi;
	give_word(ending[0], c)
#else
	give_word(ending[0], c);
	if
	:: n == 2 -> give_word(ending[1], AFTER(c, 1))
	:: else
	fi
#endif
}

inline post_batch()
{
	if
	:: n == 2 -> post(AFTER(c, 1), ending[1])
	:: else
	fi;
	post(c, ending[0])
}

inline clear_batch()
{
	clear_word(ending[0]);
	if
	:: n == 2 -> clear_word(ending[1])
	:: else
	fi
}

inline end_batch()
{
#ifdef POSTS_BEFORE_WORDS
	post_batch();
#endif
#ifdef COUNTER_BEFORE_WORDS
	next = AFTER(c, n);
#endif
	give_batch();
#ifndef NO_COUNTER
	next = AFTER(c, n);
#endif
#ifdef CLEARS_BEFORE_POST
	clear_batch();
#endif
#ifndef POSTS_BEFORE_WORDS
	post_batch();
#endif
#ifdef CLEARS_AFTER_POST
	clear_batch();
#endif
	d_step {
		c = AFTER(c, n);
		n = 0;
		unjournalled = 0;
		ending[0] = 0;
		ending[1] = 0
	}
}

/*
 * The recovery process
 */

inline end_entry(whose)
{
	give_word(whose, c);
	next = AFTER(c, 1);
	post(c, whose);
	c = AFTER(c, 1)
}

#if defined(RECOVERY_DOES_NOT_LOOK)
#define OWES_GIVEN(i) (word[i].state == GIVEN)
#elif defined(LOOKS_AT_SEQUENCE_ONLY)
#define OWES_GIVEN(i) (word[i].state == GIVEN &&			\
		       !POSTED(WIDEN(word[i].at, c)))
#else
#define OWES_GIVEN(i) (word[i].state == GIVEN &&			\
		       BETWEEN(WIDEN(word[i].at, c), c) <= N &&		\
		       !POSTED(WIDEN(word[i].at, c)))
#endif

inline end_given()
{
	i = 0;
	do
	:: i < N && OWES_GIVEN(i) ->
		d_step {
			to = WIDEN(word[i].at, c);
			p = WIDEN(word[i].position, h)
		};
		post(to, p);
		d_step { i++; p = 0; to = 0 }
	:: i < N && !OWES_GIVEN(i) -> i++
	:: i == N -> break
	od
}

/* Oldest first. */
inline end_flying()
{
	p = AFTER(h, FULL - N);
	do
	:: p != h ->
		if
		:: word[p % N].state == FLYING &&
		   WIDEN(word[p % N].position, h) == p -> end_entry(p)
		:: else
		fi;
		p = AFTER(p, 1)
	:: else -> break
	od
}

inline end_ring()
{
	i = 0;
	do
	:: i < N && VISIBLE(h) ->
		end_entry(h);
		d_step { h = AFTER(h, 1); i++ }
	:: i == N || !VISIBLE(h) -> break
	od
}

proctype worker()
{
	byte h, c;           /* next entry, next completion */
	byte ending[2], n;   /* the batch */
	byte unjournalled;   /* how many of it the journal does not know */
	byte i, p, to;

attach:
	{
		read_journal();
end:
		do
		:: CAN_CONSUME -> consume()
		:: CAN_END(0) -> end_later(0)
		:: CAN_END(1) -> end_later(1)
#if N > 2
		:: CAN_END(2) -> end_later(2)
		:: CAN_END(3) -> end_later(3)
#endif
		:: n > 0 -> end_batch()
		od
	} unless {
		killed -> killed = false
	};
recover:
	{
		d_step {
			n = 0;
			unjournalled = 0;
			ending[0] = 0;
			ending[1] = 0
		};
		read_journal();
		next = c;
		end_given();
#ifdef RING_BEFORE_FLYING
		end_ring();
		end_flying()
#else
		end_flying();
		end_ring()
#endif
	} unless {
		killed -> killed = false;
		goto recover
	};
	goto attach
}

inline take()
{
	d_step {
		e = BETWEEN(START, done[taken % N].position);
		garbled = e >= ENTRIES;
		assert(!garbled);
		doubled = !open[e];
		assert(!doubled);
		open[e] = false;
		e = 0;
		taken = AFTER(taken, 1)
	}
}

proctype client()
{
	byte e;

	do
	:: BETWEEN(START, submitted) < ENTRIES &&
	   BETWEEN(taken, submitted) < N ->
		d_step {
			open[BETWEEN(START, submitted)] = true;
			entry[submitted % N] = AFTER(submitted, 1);
			submitted = AFTER(submitted, 1)
		}
	:: POSTED(taken) -> take()
	:: BETWEEN(START, taken) == ENTRIES -> break
	od;
	finished = true
}

proctype killer()
{
end:
	do
	:: d_step { deaths < DEATHS && !killed -> deaths++; killed = true }
	od
}

init {
	byte p;

	atomic {
		/* The lap before this one. */
		p = AFTER(START, FULL - N);
		do
		:: p != START ->
			entry[p % N] = AFTER(p, 1);
			done[p % N].sequence = AFTER(p, 1);
			done[p % N].position = NONE;
			p = AFTER(p, 1)
		:: else -> break
		od;
		submitted = START;
		taken = START;
		next = START;
		run worker();
		run client();
		run killer()
	}
}
