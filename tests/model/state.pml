/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - a published map, its state file, its slot, and the answer.
 *
 * A client asks for one change after another of one name: a map that is kept,
 * one that is held, or none.  The agent writes the file of a kept map under
 * another name, syncs it, renames it, syncs the directory, stores the slot and
 * answers; for a release it removes the file, syncs the directory, clears the
 * slot and answers; a held map has no file, so that of the map it replaces is
 * set aside, under another name, before the slot names it, and removed after
 * that.  A map may wait for its device, with a file and no slot: then the file
 * is removed once the slot names the held map.  The agent may be killed between
 * any two steps: the slot and what the kernel knows of the disk stay.  The
 * machine may go down: the slot is gone, and of what was not synced any part may
 * be.  The next agent syncs the directory, gives a file that was set aside its
 * name back where the slot has its map or never had any, makes the slot say what
 * the file says, and may be killed at that.
 *
 * Contents are numbers that grow, as versions do.
 *
 * lost		the client was told of something that is not so
 * backwards	readers saw something that is not so any more, and no
 *		client has asked to change it
 *
 * bounds: CHANGES=2 DEATHS=2
 * deeper: CHANGES=3 DEATHS=3
 *
 * mutant: ANSWERS_BEFORE_FILE !(lost): killed between the two
 * mutant: SLOT_BEFORE_FILE !(backwards): readers see what will not last
 * mutant: RENAMES_UNSYNCED !(backwards): the name may last without the bytes
 * mutant: DIRECTORY_UNSYNCED !(backwards): the bytes may last without the name
 * mutant: WRITES_IN_PLACE !(lost): half a file is no file, old or new
 * mutant: CLEARS_SLOT_FIRST !(backwards): the file would bring it back
 * mutant: RELEASE_UNSYNCED !(backwards): so it would here, and readers saw it
 * mutant: HELD_KEEPS_FILE !(lost): what was replaced comes back
 * mutant: ASIDE_IS_GONE !(lost): the held map was not shown
 * mutant: ASIDE_UNSYNCED !(lost): it would come back with the machine
 * mutant: WAITING_IS_SET_ASIDE !(lost): no slot tells that it was not shown
 * mutant: FILE_BEATS_HELD !(backwards): its file may be there still
 * mutant: RESTORES_UNSYNCED !(lost): what an agent died at may not be on disk
 * mutant: SLOT_WITHOUT_FILE_STAYS !(lost): it is gone with the machine
 */

#define NONE 0
#define ANY  255

/* In the segment. */
byte slot;
bool held;
bool had; /* it has had an object, of this name or another one */

/* The file as the kernel has it, and as it would be found after a loss of
 * power: the number, and whether all of it has been written. */
byte cached, disk;
bool cached_whole = true, disk_whole = true;
byte aside, aside_disk; /* likewise, the file that was set aside */

/* The answers that the client has. */
byte told, asked;
bool told_held, asked_held, is_asking;

byte shown; /* what readers saw last; only the properties know it */
byte is_so; /* what the slot has, or waits */

byte serial, changes, deaths;
bool killed, lost, backwards, is_over;

inline store_slot(x, h)
{
	d_step {
		slot = x;
		held = h;
		had = true;
		shown = x
	}
}

inline answer()
{
	d_step {
		told = asked;
		told_held = asked_held;
		is_asking = false
	}
}

inline sync_directory()
{
	d_step {
		disk = cached;
		disk_whole = cached_whole;
		aside_disk = aside
	}
}

inline set_aside()
{
	d_step {
		aside = cached;
		cached = NONE
	};
	sync_directory()
}

inline drop_aside()
{
	aside = NONE;
#ifndef ASIDE_UNSYNCED
	sync_directory()
#endif
}

inline write_file()
{
#ifdef WRITES_IN_PLACE
	d_step {
		cached_whole = false;
		disk_whole = false
	};
	d_step {
		cached = asked;
		disk = asked;
		cached_whole = true;
		disk_whole = true
	}
#else
#ifdef RENAMES_UNSYNCED
	fresh_whole = false;
#else
	fresh_whole = true;
#endif
	d_step {
		cached = asked;
		cached_whole = fresh_whole
	};
#ifndef DIRECTORY_UNSYNCED
	sync_directory()
#endif
#endif
}

inline remove_file()
{
	d_step {
		cached = NONE;
		cached_whole = true
	};
#ifndef RELEASE_UNSYNCED
	sync_directory()
#endif
}

inline ask(h)
{
	d_step {
		changes++;
		asked_held = h;
		is_asking = true
	}
}

inline keep()
{
	d_step {
		serial++;
		asked = serial
	};
	ask(false);
#ifdef ANSWERS_BEFORE_FILE
	answer();
#endif
#ifdef SLOT_BEFORE_FILE
	store_slot(asked, false);
#endif
	write_file();
#ifndef SLOT_BEFORE_FILE
	store_slot(asked, false);
#endif
#ifndef ANSWERS_BEFORE_FILE
	answer()
#endif
}

inline hold()
{
	d_step {
		serial++;
		asked = serial
	};
	ask(true);
#ifdef HELD_KEEPS_FILE
	store_slot(asked, true);
#else
	if
#ifndef WAITING_IS_SET_ASIDE
	:: slot == NONE ->
		store_slot(asked, true);
		remove_file()
#endif
	:: else ->
		set_aside();
		store_slot(asked, true);
		drop_aside()
	fi;
#endif
	answer()
}

inline release()
{
	asked = NONE;
	ask(false);
#ifdef CLEARS_SLOT_FIRST
	store_slot(NONE, false);
#endif
	remove_file();
#ifndef CLEARS_SLOT_FIRST
	store_slot(NONE, false);
#endif
	answer()
}

/* A new agent does this before any client can ask; it puts a torn file
 * aside. */
inline restore()
{
#if defined(RENAMES_UNSYNCED) || defined(WRITES_IN_PLACE)
	if
	:: !cached_whole ->
		d_step {
			cached = NONE;
			cached_whole = true
		}
	:: else
	fi;
#endif
#ifndef RESTORES_UNSYNCED
	sync_directory();
#endif
	if
#ifndef ASIDE_IS_GONE
	:: aside != NONE && cached == NONE && (slot != NONE -> !held : !had) ->
		d_step {
			cached = aside;
			aside = NONE
		};
		sync_directory()
	:: aside != NONE && !(cached == NONE && (slot != NONE -> !held : !had)) ->
		drop_aside()
#else
	:: aside != NONE -> drop_aside()
#endif
	:: else
	fi;
	if
#ifndef FILE_BEATS_HELD
	:: held && cached != NONE && slot > cached ->
		remove_file()
#endif
#ifndef SLOT_WITHOUT_FILE_STAYS
	:: !held && cached == NONE && slot != NONE ->
		d_step { slot = NONE }
#endif
	:: cached != NONE && slot != cached && !(held && slot > cached) ->
		d_step {
			slot = cached;
			held = false;
			had = true
		}
	/* Its device is not there. */
	:: cached != NONE && slot == NONE ->
		d_step {
			had = true;
			shown = ANY
		}
#ifdef FILE_BEATS_HELD
	:: held && cached != NONE && slot > cached ->
		d_step {
			slot = cached;
			held = false
		}
#endif
	:: else
	fi;
	d_step {
		is_so = (slot != NONE -> slot : cached);
		lost = is_so != told && !(is_asking && is_so == asked);
		backwards = shown != ANY && slot != shown &&
			    !(is_asking && slot == asked);
		assert(!lost);
		assert(!backwards);
		told = is_so;
		told_held = held;
		shown = (slot == NONE && cached != NONE -> ANY : slot);
		is_asking = false
	}
}

proctype agent()
{
	bool fresh_whole;

attach:
	{
		restore();
		do
		:: changes < CHANGES -> keep()
		:: changes < CHANGES -> hold()
		:: changes < CHANGES && (slot != NONE || cached != NONE) ->
			release()
		:: changes == CHANGES -> break
		od;
		is_over = true
	} unless {
		killed -> killed = false;
		goto attach
	}
}

/* Holders and their holds end with the machine. */
inline go_down()
{
	if
	:: true
	:: cached = disk;
		cached_whole = disk_whole;
		aside = aside_disk
	fi;
	d_step {
		disk = cached;
		disk_whole = cached_whole;
		aside_disk = aside;
		shown = (held -> ANY : shown);
		slot = NONE;
		held = false;
		had = false;
		told = (told_held -> NONE : told);
		asked = (asked_held -> NONE : asked);
		told_held = false;
		asked_held = false
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
	:: atomic {
		deaths < DEATHS && !killed && !is_over ->
		deaths++;
		go_down();
		killed = true
	}
	:: break
	od
}

init {
	atomic {
		run agent();
		run killer()
	}
}
