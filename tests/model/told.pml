/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * told - threads of a driver that tell a worker which marks of a lane have passed:
 * gm_stream_told(), and gm_stream_arm() beside it.
 *
 * Each mark has a thread of its own, so they tell in any order.  A thread makes the
 * lane's word the mark's value, where it is not beyond it, and wakes the worker by an
 * eventfd if it finds the worker armed.  The worker looks at the word; where it has
 * not moved it arms, looks once more, and sleeps.  Something else may wake it, too.
 *
 * A store that is only released leaves its processor at any time later.
 *
 * back		the word goes back: a mark that had passed has not
 * stuck	the worker sleeps, and all marks have passed
 *
 * bounds: MARKS=2
 * bounds: MARKS=3
 *
 * mutant: ARMS_AND_SLEEPS stuck: the word may move between look and arming
 * mutant: LOOKS_THEN_ARMS stuck: the same, with a second look that is too early
 * mutant: ARM_RELEASED stuck: the second look overtakes the arming
 * mutant: WORD_RELEASED:1 stuck: the look for a sleeper overtakes the word
 * mutant: TELLS_FIRST stuck: the worker may arm between that look and the word
 * mutant: WORD_IS_STORED:2 !(back): a later thread has an earlier mark
 * mutant: DISARMS_LATE stuck: what it clears is the next arming
 */

byte word;
bool armed;
bool event; /* the eventfd, in the kernel */
bool back;

byte held[MARKS + 1]; /* word as each thread's processor has it; 0: as all have it */
bool arm_held;

inline write_word(value)
{
	d_step {
#ifdef WORD_IS_STORED
		word = value
#else
		if
		:: word < value -> word = value
		:: else
		fi
#endif
	}
}

proctype thread(byte value)
{
	bool must_tell;

#ifdef TELLS_FIRST
	must_tell = armed;
#endif
#ifdef WORD_RELEASED
	held[value] = value;
#else
	write_word(value);
#endif
#ifndef TELLS_FIRST
	must_tell = armed;
#endif
	if
	:: must_tell ->
#ifdef DISARMS_LATE
		event = true;
		armed = false
#else
		d_step { must_tell = armed; armed = false };
		if
		:: must_tell -> event = true
		:: else
		fi
#endif
	:: else
	fi
}

/* A store that a processor holds becomes visible at any time. */
proctype memory()
{
	byte i;

end:
	do
#ifdef WORD_RELEASED
	:: d_step {
		held[1] != 0 ->
		i = 1;
		write_word(held[i]);
		held[i] = 0
	}
	:: d_step {
		held[2] != 0 ->
		i = 2;
		write_word(held[i]);
		held[i] = 0
	}
#endif
#ifdef ARM_RELEASED
	:: d_step { arm_held -> arm_held = false; armed = true }
#endif
	:: false
	od
}

inline look()
{
	d_step {
		back = word < seen;
		assert(!back);
		has_moved = word > seen;
		seen = word
	}
}

inline arm()
{
#ifdef ARM_RELEASED
	arm_held = true
#else
	armed = true
#endif
}

proctype worker()
{
	byte seen;
	bool has_moved;

	do
	:: seen == MARKS -> break
	:: else ->
		look();
		if
		:: has_moved -> skip
		:: else ->
#ifdef LOOKS_THEN_ARMS
			look();
			arm();
#else
			arm();
#ifndef ARMS_AND_SLEEPS
			look();
#endif
#endif
			if
			:: has_moved -> skip
			:: else ->
				event;
				event = false
			fi
		fi
	od
}

/* Another wakes it once: it is armed still. */
proctype other()
{
	event = true
}

init {
	byte i = 1;

	atomic {
		run worker();
		run memory();
		run other();
		do
		:: i <= MARKS -> run thread(i); i++
		:: else -> break
		od
	}
}
