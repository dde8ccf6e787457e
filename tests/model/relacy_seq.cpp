/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * relacy_seq - the orders of shm/seq.h.
 *
 * test: slot: a block that is accepted is of one publication, the slot's
 * test: versions: what is accepted from the buffers is of the version returned
 *
 * weaken: slot gm_seq_fill gm_put_release: a new tenant's word comes alone
 * weaken: slot gm_seq_read gm_get_acquire: and is met without its past
 * weaken: slot gm_seq_publish gm_put_release: the slot before its block
 * weaken: slot gm_seq_open gm_get_acquire: the slot without its block
 * weaken: versions gm_seq_fill gm_put_release: a new version's word comes alone
 * weaken: versions gm_seq_read gm_get_acquire: and is met without its past
 * weaken: versions gm_seq_publish gm_put_release: a version before its words
 * weaken: versions gm_seq_open gm_get_acquire: a version without its words
 *
 * edit: slot seq.h s/return gm_get(slot) == word/return true/: no second look
 * edit: versions seq.h s/BUFFERS - 2/BUFFERS - 1/: the one being written
 */

#include "relacy/test.h"
#include "shm/seq.h"

#define WORDS 2

/* Three publications over two blocks: each store but the first meets readers of
 * a block's last tenant. */
struct slot_test : rl::test_suite<slot_test, 2> {
	gm_a64 slot;
	gm_a64 block[2][WORDS];

	void publish(uint64_t version)
	{
		uint64_t words[WORDS] = { version, version };

		gm_seq_fill(block[version % 2], words, WORDS);
		gm_seq_publish(&slot, gm_seq_word(version, version % 2));
	}

	void before()
	{
		for (int i = 0; i < WORDS; i++)
			gm_put(&block[0][i], 0);
		publish(1);
	}

	void read()
	{
		uint64_t words[WORDS];
		uint64_t word = gm_seq_open(&slot);

		gm_seq_read(block[gm_seq_unit(word)], words, WORDS);
		if (!gm_seq_whole(&slot, word))
			return;
		for (int i = 0; i < WORDS; i++)
			RL_ASSERT(words[i] == gm_seq_version(word));
	}

	void thread(unsigned index)
	{
		if (index == 0) {
			publish(2);
			publish(3);
		} else {
			read();
		}
	}
};

/*
 * One word is torn when it is another version's.  The reader is overtaken by
 * any number of versions before it reads; that it knows how many it was tells
 * it nothing about what it will see, for it learns so through relaxed loads.
 */
struct versions_test : rl::test_suite<versions_test, 2> {
	static const unsigned puts = GM_SEQ_BUFFERS + 1;
	static versions_test *running;

	gm_a64 version;
	gm_a64 buffers[GM_SEQ_BUFFERS];
	gm_a32 written;
	unsigned overtaken_by;

	void put_next()
	{
		uint64_t word = version.debug_value() + 1;

		gm_seq_put_next(&version, buffers, 1, &word, 1);
	}

	void before()
	{
		gm_put(&version, 0);
		gm_put(&written, 0);
		for (unsigned i = 0; i < GM_SEQ_BUFFERS; i++)
			put_next();
		overtaken_by = rl::rand(puts + 1);
		running = this;
		gm_before_acquire = hold_up;
	}

	static void hold_up(const char *function)
	{
		if (strcmp(function, "gm_seq_read") != 0)
			return;
		while (gm_get(&running->written) < running->overtaken_by)
			rl::yield(1, $);
	}

	void thread(unsigned index)
	{
		uint64_t seen, word;

		if (index == 0) {
			for (unsigned i = 0; i < puts; i++) {
				put_next();
				gm_put(&written, i + 1);
			}
			return;
		}
		seen = gm_seq_get_latest(&version, buffers, 1, &word, 1);
		if (seen != 0)
			RL_ASSERT(word == seen);
	}
};

versions_test *versions_test::running;

static const struct gm_test tests[] = {
	{ "slot", rl::simulate<slot_test> },
	{ "versions", rl::simulate<versions_test> },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return gm_run(tests, argc, argv);
}
