/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the judge and its driver tell each other, through a file that the guest sees as the memory of a PCI device.
 *
 * All numbers are little-endian. Offsets are bytes from the start of the file. The same layout is described, field by
 * field, in docs/design/judge.md.
 */
#ifndef PAGEYARD_EXCHANGE_H
#define PAGEYARD_EXCHANGE_H

#define EXCHANGE_MAGIC 0x31656764756a7970ULL /* "pyjudge1" */
#define EXCHANGE_VERSION 4

/* Set in the number of a bulk request's frame once it is freed. */
#define FRAME_FREED 0x80000000U

/* Frames that user space and the page cache may have. */
#define OFF_LRU (256 * 1024)

/* Numbers of what is counted after an operation: 14 of each zone. */
#define COUNTS 64

enum status {
	STATUS_WAITING, /* written by the driver */
	STATUS_RUNNING,
	STATUS_DONE,
	STATUS_FAILED, /* `message` says why */
};

/*
 * What a call takes on a CPU whose list has what it needs, by the time stamp counter. Under `-icount shift=0` that counts
 * instructions.
 */
enum weight {
	WEIGHT_ALLOC, /* one frame */
	WEIGHT_FREE,
	WEIGHT_ALLOC_BULK, /* a frame of 64 */
	WEIGHTS = 8,
};

struct exchange {
	u64 magic;
	u32 version;
	u32 status;
	/* By the driver. */
	u64 operations; /* how many */
	u64 operations_at;
	u64 answers_at; /* one for each operation */
	u64 frames_at; /* what bulk requests got: frame numbers, in order */
	u64 frames_room; /* frame numbers that fit */
	u64 opening_at; /* where the state before goes */
	u64 closing_at; /* and the state after */
	u64 state_room; /* bytes for each of them */
	u64 counts_at; /* what zones and lists count after each of the first operations, COUNTS numbers each */
	u64 counts_room; /* operations that fit */
	u64 where_at; /* 32 bits for each operation, then for each frame of bulk requests: the frame that it holds now */
	u64 moves_at; /* what compaction moved, in order */
	u64 moves_room; /* moves that fit */
	u64 off_lru_at; /* room for the judge's own list of OFF_LRU frames */
	u64 steps_at; /* what compaction did on its way, in order */
	u64 steps_room; /* steps that fit */
	u32 compacts; /* requests that may wait may also compact */
	u32 weigh; /* measure `weights` before the stream */
	/* By the guest. */
	u64 done; /* operations carried out */
	u64 frames; /* frame numbers written */
	u64 moves; /* moves written */
	u64 steps; /* steps written */
	u64 opening_len;
	u64 closing_len;
	u64 weights[WEIGHTS]; /* a thousand times what a call takes, by `enum weight` */
	char release[64];
	char message[256];
};

enum kind {
	OP_ALLOC, /* one block */
	OP_FREE, /* the block of operation `arg`, or frame `sub` of a bulk request */
	OP_ALLOC_BULK, /* `arg` single frames */
	OP_FREE_BULK, /* all that is left of bulk request `arg` */
	OP_FREE_FRAG, /* as the last fragment of a page does */
	OP_DRAIN, /* the lists of all CPUs; with `arg` 1, of this one */
	OP_TICK, /* the vmstat worker of this CPU */
	OP_KSWAPD_ENDS, /* the background reclaimer of node `arg` goes to sleep */
	OP_GIVE_UP, /* the block of operation `arg` can be reclaimed */
	OP_ALLOC_EXACT, /* `arg` single frames that follow each other, as alloc_pages_exact gives them; a bulk request to those that free */
	OP_SET_WATERMARKS, /* min_free_kbytes `arg`, watermark_scale_factor `sub`, watermark_boost_factor `gives` thousandths */
	OP_KINDS,
};

/* Behind those of request.h. */
enum flag {
	FLAG_COMP = 1 << 7,
	FLAG_PINNED = 1 << 8, /* of movable single frames and compound pages: cannot be isolated */
	FLAG_STUCK = 1 << 9, /* can be isolated, and not moved */
	FLAG_VICTIM = 1 << 11, /* as a task that is being killed for its memory */
};

struct operation {
	u8 kind;
	u8 cpu;
	u8 order;
	u8 type; /* 0 unmovable, 1 movable, 2 reclaimable */
	u16 flags;
	u8 zone; /* the highest that may serve: 0 DMA, 1 DMA32, 2 Normal, 3 Movable */
	u8 nodes; /* a mask; 0: any */
	u32 arg;
	u16 sub;
	u16 gives; /* each time this request reclaims, so many blocks that can be reclaimed are freed */
};

struct move {
	u32 operation; /* that was carried out */
	u32 from;
	u32 to;
};

/* A step of a compaction; what `a`, `b` and `c` are follows each. */
enum step_kind {
	STEP_DEFERRED = 1, /* the zone is left out: its first frame, order */
	STEP_BEGUN, /* migrate scanner, free scanner, whether it waits */
	STEP_CHECKED, /* whether it is done: result */
	STEP_SOURCES, /* scanned from, to, frames isolated */
	STEP_TARGETS, /* scanned from, to, free frames taken */
	STEP_MOVED, /* frames */
	STEP_ENDED, /* migrate scanner, free scanner, result */
	STEP_FAILED, /* the next ones are left out: zone's first frame, order */
	STEP_HELPED, /* zone's first frame, order */
	STEP_SEARCHED, /* free lists, since 6.7: least frame, blocks seen, free frames taken */
};

enum step_result {
	RESULT_GOES_ON,
	RESULT_SKIPPED,
	RESULT_DEFERRED,
	RESULT_CONTENDED,
	RESULT_PARTIAL,
	RESULT_COMPLETE,
	RESULT_SUCCESS,
};

struct step {
	u32 operation; /* that was carried out */
	u32 kind;
	u32 a, b, c;
};

/*
 * So many frames and compound pages can be isolated in one operation, and no more: where a frame can be isolated and not moved, and leaves no hint
 * because no list for reclaim has it, 6.12 finds its pageblock again and again.
 */
#define MOST_ISOLATED 8192

struct answer {
	u64 result; /* frame number, ~0 for none; of bulk requests the count, of others 0 */
	u16 cut_short; /* more than MOST_ISOLATED were to be isolated */
	u16 reclaims; /* times that the request reclaimed */
	u32 counts; /* what every zone, list and node counts afterwards, folded into a number */
};

#endif
