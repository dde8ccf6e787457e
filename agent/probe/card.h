/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * card - merges all facts of a card or an instance, and derives its health.
 *
 * Facts come in pieces, from NVML, from the driver, from an event and from
 * silence, in any order and each more than once.  A card keeps the last report
 * of each source; gpumapd is sent the result of all of them together: the worst
 * of four verdicts, and facts of which CUDA's win over NVML's.
 *
 * Pure: no call here enters the kernel, but for the CPUs of a node.
 */
#ifndef GM_PROBE_CARD_H
#define GM_PROBE_CARD_H

#include "agent/probe/probe.h"
#include "agent/probe/protocol.h"

/* The sources that decide over a card's health. */
enum gm_card_voice {
	GM_VOICE_SILENCE = 0, /* it does not answer */
	GM_VOICE_EVENT = 1,   /* an Xid, until the card was let go */
	GM_VOICE_NVML = 2,
	GM_VOICE_DRIVER = 3,
	GM_CARD_VOICES = 4
};

struct gm_probe_verdict {
	uint32_t health; /* enum gm_probe_health */
	int32_t code;
	char text[160];
};

struct gm_card {
	bool used;
	bool is_instance;
	bool is_met;    /* by the watcher that runs: an instance may be gone */
	bool has_facts; /* of NVML, or of the kernel where NVML is silent */
	bool has_moving;
	bool has_driver;
	bool is_asked; /* the driver has answered since the card came back */
	bool is_said;  /* gpumapd has its DEVICE */
	bool is_released;
	bool is_next_look; /* processes of it have come, its MOVING not */
	/* To be told. */
	bool want_device;
	bool want_moving;
	bool want_released;
	uint32_t slot; /* NVML index of its GPU; UINT32_MAX: none any more */
	uint8_t uuid[16];
	uint64_t since;       /* when it was first heard of */
	uint32_t release;     /* its serial */
	uint64_t released_at; /* what began later has nothing of it open */
	uint64_t ask_at;      /* when the driver may be asked again */
	uint32_t asked;       /* times in a row that it refused */
	struct gm_note_card facts;
	struct gm_probe_moving moving;
	uint32_t n_processes; /* heard of, of the look that is being told */
	struct gm_probe_process processes[GM_PROBE_PROCESSES];
	struct gm_note_driver driver;
	int32_t ordinals[2]; /* by PCI address, by speed; -1: not enumerated */
	int32_t counting[2]; /* the same, of a list that has not ended yet */
	bool has_ordinals;
	struct gm_probe_verdict verdicts[GM_CARD_VOICES];
};

/* Types that came with an architecture: GPUMAP_DEVICE_FP16 and so on. */
uint32_t gm_card_types(uint32_t cc_major, uint32_t cc_minor);

/* Before anything is known of it. */
void gm_card_begin(struct gm_card *card, const uint8_t uuid[16], uint32_t slot,
		   uint64_t now);

/* CARD and MOVING of a watcher. */
void gm_card_facts(struct gm_card *card, const struct gm_note *note);
void gm_card_moving(struct gm_card *card, const struct gm_note *note);

/* PROCESS of a watcher, whose MOVING follows. */
void gm_card_process(struct gm_card *card, const struct gm_note *note);

/* DRIVER of a role that asked the driver. */
void gm_card_driver(struct gm_card *card, const struct gm_note *note);

/* A voice has its say, NULL for "usable". */
void gm_card_check(struct gm_card *card, enum gm_card_voice voice,
		   const struct gm_probe_verdict *verdict);

/*
 * gm_card_event - what an Xid says of the card's health
 *
 * Those that any process's fault can cause (13, 31, 43, 45, 68, 109) and those
 * that end a process (94) say nothing of the card.
 *
 * Returns	whether it changed anything
 */
bool gm_card_event(struct gm_card *card, const struct gm_probe_event *event);

/* The worst verdict; text and code are of who said so. */
struct gm_probe_verdict gm_card_verdict(const struct gm_card *card);

/* Does it answer, with nothing wrong? */
bool gm_card_is_well(const struct gm_card *card);

/* Can the driver be asked about it, and is it worth it? */
bool gm_card_is_askable(const struct gm_card *card);

/* A card that NVML does not speak of: by its PCI address, or by its index. */
void gm_card_made(struct gm_card *card, const struct gm_note *place,
		  uint32_t index);

/* The records for gpumapd: DEVICE, MOVING, and before it a PROCESS for each
 * process of the same look, whose number gm_card_n_processes() is. */
void gm_card_device(const struct gm_card *card, const char *sysfs,
		    struct gm_probe_wire *ret_wire);
uint32_t gm_card_n_processes(const struct gm_card *card);
void gm_card_wire_process(const struct gm_card *card, uint32_t i,
			  struct gm_probe_wire *ret_wire);
void gm_card_wire_moving(const struct gm_card *card,
			 struct gm_probe_wire *ret_wire);

#endif
