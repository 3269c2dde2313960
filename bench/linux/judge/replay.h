/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the replaying module and its driver tell each other, through a file that the guest sees as the memory of a PCI
 * device. All numbers are little-endian, offsets are bytes from the start of the file. docs/design/kernel-engine.md
 * says what the module does with them.
 */
#ifndef PAGEYARD_REPLAY_H
#define PAGEYARD_REPLAY_H

#define REPLAY_MAGIC 0x316c706572756a70ULL /* "pjurepl1" */
#define REPLAY_VERSION 2

#define REPLAY_ZONES 4 /* DMA, DMA32, Normal, Movable */
#define REPLAY_TYPES 5 /* unmovable, movable, reclaimable, set aside; all others */
#define NO_FRAME 0xffffffffU
#define REPLAY_REFUSALS (1 << 16) /* refused requests after which a sample is taken */

enum replay_status {
	REPLAY_WAITING, /* the guest boots */
	REPLAY_TAKEN, /* all memory is taken; the driver says what to open with */
	REPLAY_GO, /* by the driver */
	REPLAY_DONE,
	REPLAY_FAILED, /* `message` says why */
};

struct replay_zone {
	/* By the driver: frames that the recorded zone managed, 0 where it had no such zone. */
	u64 managed;
	/* By the guest, once all memory is taken. */
	u64 start;
	u64 spanned;
	u64 marks[3];
	u64 protection[REPLAY_ZONES];
	u64 batch;
	u64 high_min;
	u64 high_max;
};

struct replay_exchange {
	u64 magic;
	u32 version;
	u32 status;
	/* By the driver, before the guest boots. */
	u64 cpus;
	u64 min_free_kbytes;
	u64 frames; /* bits of each of the maps below */
	u64 taken_at; /* a bit for each frame that the module got */
	u64 free_at; /* and of those, at the end: on free lists */
	u64 cached_at; /* in lists of CPUs */
	/* By the driver, before GO. */
	u64 types; /* pairs of 32 bits: a pageblock, its type */
	u64 types_at;
	u64 lists; /* 32-bit words: of each free list order, type, blocks, and their first frames in order */
	u64 lists_at;
	u64 cached; /* 32-bit words: of each list of a CPU: cpu, zone, list, order, blocks, and frames | type << 56 as two words */
	u64 cached_lists_at;
	u64 highs; /* four 32-bit words each: cpu, zone, high, 0 */
	u64 highs_at;
	u64 movable_at; /* a bit for each frame whose holder can move it */
	u64 steps;
	u64 steps_at;
	u64 answers_at; /* 32 bits for each step */
	u64 samples_at; /* 64-bit words */
	u64 samples_room; /* words that fit */
	/* By the guest. */
	u64 done; /* steps carried out */
	u64 samples; /* words written */
	u64 misplaced; /* blocks of the opening that are not on the list that they belong on */
	u64 slow; /* requests that found no zone above its low watermark, of those that may wake the background reclaimer */
	u64 page_bytes; /* of struct page */
	u64 fallbacks[REPLAY_TYPES][REPLAY_TYPES]; /* by the type asked for and the type taken from */
	struct replay_zone zones[REPLAY_ZONES];
	char release[64];
	char message[256];
};

enum step_kind {
	STEP_ALLOC,
	STEP_FREE, /* a part of what step `arg` got, `offset` frames from its first on */
	STEP_FREE_AT, /* the block at frame `arg`, which the opening holds */
	STEP_DRAIN, /* the lists of all CPUs */
	STEP_TICK, /* the vmstat worker of this CPU */
	STEP_KSWAPD_ENDS, /* the background reclaimer goes to sleep */
	STEP_SAMPLE, /* writes down what zones and lists hold */
	STEP_KINDS,
};

struct step {
	u8 kind;
	u8 order;
	u8 type; /* 0 unmovable, 1 movable, 2 reclaimable */
	u8 zone; /* the highest that may serve */
	u16 cpu;
	u16 flags;
	u32 arg;
	u32 offset;
};

/*
 * A sample, in words: the step after which it was taken, REPLAY_SAMPLED words of each of the REPLAY_ZONES zones (free
 * frames, boost, frames set aside, free blocks by order and type, pageblocks by type), and of each zone and CPU the
 * frames in its lists and their limit.
 */
#define REPLAY_SAMPLED (3 + ORDERS * REPLAY_TYPES + REPLAY_TYPES)

#endif
