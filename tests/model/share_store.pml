/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_store - a share, the service manager that keeps its descriptors, and
 * the next agent.
 *
 * One client makes a share, another opens it.  The agent sends the descriptors
 * of the share's record and of its buffers to the manager, one message each,
 * through a queue that may be full; what has no room yet is the agent's alone.
 * The record is memory that the agent writes and that lasts as long as its
 * descriptor: it says which processes hold the share, and that the share has
 * ended.  The agent may be killed between any two steps, and a client too.  The
 * manager takes what is in its queue before it starts the next agent, which
 * restores a share whose descriptors are all there, and has the others removed.
 *
 * half		a share is there without all its buffers
 * lost		a client that was answered holds what is not there
 * outlives	a share is there that was released, or that none holds; or
 *		a descriptor of it is
 *
 * bounds: ROOM=1 DEATHS=1
 * bounds: ROOM=2 DEATHS=2
 * deeper: ROOM=1 DEATHS=3
 *
 * mutant: ANSWERS_UNSENT !(lost): killed with the rest in its own memory
 * mutant: RESTORES_UNCHECKED !(half): a buffer was not sent yet
 * mutant: ENDS_BY_MESSAGE !(outlives): killed with the message unsent
 * mutant: HOLDS_LATE !(lost): the record does not say so yet
 * mutant: FORGETS_HOLDERS stuck: their deaths end nothing any more
 * mutant: STARTS_AT_ONCE !(outlives): messages are still in the queue
 * mutant: LEAVES_REST !(outlives): of what was not whole, or had ended
 */

#define MAKER  0
#define OPENER 1
#define RECORD 0 /* and two buffers */
#define N      3

mtype = { PUT, REMOVE };

chan queue = [ROOM] of { mtype, byte };
bool stored[N];

/* In the record. */
bool ended;
bool holds[2];

/* The clients. */
bool alive[2] = true;
bool told[2]; /* it was answered, and has not asked for anything else */
bool asked[2];
bool was_released;

byte deaths;
bool killed, is_over;
bool half, lost, outlives;

/* The agent, and lost with it. */
bool listed, waits[2], watched[2];
byte n_put, n_removed;

inline end_share()
{
	d_step {
		listed = false;
#ifndef ENDS_BY_MESSAGE
		ended = true;
#endif
		n_removed = 0
	}
}

inline leave(c)
{
	holds[c] = false;
	if
	:: listed && !holds[MAKER] && !holds[OPENER] -> end_share()
	:: else
	fi
}

inline hold(c)
{
#ifndef HOLDS_LATE
	holds[c] = true;
#endif
	waits[c] = true
}

inline answer(c)
{
	d_step {
		told[c] = alive[c];
		waits[c] = false
	};
#ifdef HOLDS_LATE
	holds[c] = true;
#endif
	watched[c] = true
}

/* The manager has no agent to serve meanwhile. */
inline restore()
{
	atomic {
		listed = false;
		waits[MAKER] = false;
		waits[OPENER] = false;
		watched[MAKER] = false;
		watched[OPENER] = false;
		n_put = N;
		n_removed = N
	};
#ifndef STARTS_AT_ONCE
	empty(queue);
#endif
	if
#ifdef RESTORES_UNCHECKED
	:: stored[RECORD] && !ended ->
#else
	:: stored[RECORD] && stored[1] && stored[2] && !ended ->
#endif
		d_step {
			half = !stored[1] || !stored[2];
			assert(!half);
			outlives = was_released;
			assert(!outlives);
			listed = true
		};
#ifndef FORGETS_HOLDERS
		watched[MAKER] = holds[MAKER];
		watched[OPENER] = holds[OPENER];
#endif
		if
		:: !holds[MAKER] && !holds[OPENER] -> end_share()
		:: else
		fi
	:: else ->
		if
#ifndef LEAVES_REST
		:: stored[RECORD] || stored[1] || stored[2] -> n_removed = 0
#endif
		:: else
		fi
	fi;
	d_step {
		lost = (told[MAKER] || told[OPENER]) && !listed;
		assert(!lost)
	}
}

#define unsettled (n_put < N)
#ifdef ANSWERS_UNSENT
#define may_answer listed
#else
#define may_answer (listed && !unsettled)
#endif

inline serve()
{
	do
	:: alive[MAKER] && !asked[MAKER] ->
		d_step {
			asked[MAKER] = true;
			listed = true;
			n_put = 0
		};
		hold(MAKER)
	:: listed && alive[OPENER] && !asked[OPENER] ->
		asked[OPENER] = true;
		hold(OPENER)
	:: atomic {
		unsettled && nfull(queue) ->
		queue!PUT(n_put);
		n_put++
	}
	:: atomic {
		!unsettled && n_removed < N && nfull(queue) ->
		queue!REMOVE(n_removed);
		n_removed++
	}
	:: may_answer && waits[MAKER] -> answer(MAKER)
	:: may_answer && waits[OPENER] -> answer(OPENER)
	/* Requests of clients that were answered. */
	:: told[MAKER] -> told[MAKER] = false; leave(MAKER)
	:: told[OPENER] -> told[OPENER] = false; leave(OPENER)
	:: listed && told[MAKER] ->
		d_step {
			told[MAKER] = false;
			told[OPENER] = false
		};
		end_share();
		was_released = true
	:: atomic {
		(watched[MAKER] || waits[MAKER]) && !alive[MAKER] ->
		watched[MAKER] = false;
		waits[MAKER] = false
	};
		leave(MAKER)
	:: atomic {
		(watched[OPENER] || waits[OPENER]) && !alive[OPENER] ->
		watched[OPENER] = false;
		waits[OPENER] = false
	};
		leave(OPENER)
	:: !alive[MAKER] && !alive[OPENER] && !listed && !unsettled &&
			empty(queue) && (n_removed == N || !asked[MAKER]) ->
		break
	od
}

proctype agent()
{
	n_put = N;
	n_removed = N;
attach:
	{
		serve();
		skip;
		d_step {
			outlives = stored[RECORD] || stored[1] || stored[2];
			assert(!outlives);
			is_over = true
		}
	} unless {
		killed -> killed = false
	};
start:
	if
	:: is_over
	:: !is_over ->
		{
			restore();
			goto attach
		} unless {
			killed -> killed = false
		};
		goto start
	fi
}

proctype manager()
{
	mtype what;
	byte item;

end:
	do
	:: atomic {
		queue?what, item ->
		stored[item] = (what == PUT)
	}
	od
}

proctype client(byte c)
{
	d_step {
		alive[c] = false;
		told[c] = false
	}
}

proctype killer()
{
	do
	:: atomic {
		deaths < DEATHS && !killed && !is_over ->
		deaths++;
		killed = true
	}
	:: break
	od
}

init {
	atomic {
		run agent();
		run manager();
		run client(MAKER);
		run client(OPENER);
		run killer()
	}
}
