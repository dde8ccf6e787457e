/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * rows - the moving part of a device row: a version over several buffers.
 *
 * The agent writes version v + 1 into buffer (v + 1) modulo BUFFERS, then
 * stores the version.  A reader loads the version, reads that buffer, loads the
 * version again and accepts a distance of at most BUFFERS - 2.  The real row
 * has eight buffers and accepts six.  The agent may be killed between any two
 * steps; its successor goes on from the version it finds.
 *
 * torn		a read that was accepted mixed two versions
 *
 * bounds: BUFFERS=3 VERSIONS=7 DEATHS=2
 * bounds: BUFFERS=4 VERSIONS=9 DEATHS=2
 * deeper: BUFFERS=8 VERSIONS=18 DEATHS=3
 *
 * mutant: ACCEPTS_ONE_MORE !(torn): that buffer is the one being written
 * mutant: READER_LOOKS_ONCE !(torn): only the second look sees the distance
 * mutant: VERSION_FIRST !(torn): a reader follows the version to old words
 * mutant: SUCCESSOR_SKIPS !(torn): two buffers are in the making, not one
 * mutant: VERSION_RESTARTS !(torn): old and new distances look alike
 */

#ifdef ACCEPTS_ONE_MORE
#define ACCEPTED (BUFFERS - 1)
#else
#define ACCEPTED (BUFFERS - 2)
#endif

/* In the segment. */
typedef buffer { byte word[2] };
buffer row[BUFFERS];
byte version;

byte serial; /* counts what was written; only the property knows it */
byte deaths;
bool killed, torn;

inline write(v)
{
	serial++;
	row[(v) % BUFFERS].word[0] = serial;
	row[(v) % BUFFERS].word[1] = serial;
}

proctype agent()
{
	byte next;

attach:
	{
		next = version + 1;
#ifdef SUCCESSOR_SKIPS
		next = next + (deaths > 0 -> 1 : 0);
#endif
#ifdef VERSION_RESTARTS
		next = (deaths > 0 -> 1 : next);
#endif
		do
		:: serial < VERSIONS ->
#ifdef VERSION_FIRST
			version = next;
			write(next);
#else
			write(next);
			version = next;
#endif
			next++
		:: else -> break
		od
	} unless {
		killed -> killed = false;
		goto attach
	}
}

proctype reader()
{
	byte seen, first, second;

	seen = version;
	first = row[seen % BUFFERS].word[0];
	second = row[seen % BUFFERS].word[1];
	atomic {
		if
#ifndef READER_LOOKS_ONCE
		:: version < seen || version - seen > ACCEPTED -> skip
#endif
		:: else ->
			torn = first != second;
			assert(!torn)
		fi
	}
}

proctype killer()
{
	do
	:: deaths < DEATHS && !killed -> deaths++; killed = true
	:: break
	od
}

init {
	atomic {
		run agent();
		run reader();
		run killer()
	}
}
