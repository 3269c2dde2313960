// SPDX-License-Identifier: GPL-2.0
/*
 * What compaction does on its way: the kernel's own trace events, written down in order. Where it moves other frames than the
 * reference, the first step that differs says where they part.
 */
#include <linux/gfp.h>
#include <linux/mmzone.h>
#include <linux/sched.h>
#include <linux/compaction.h>
#include <linux/tracepoint.h>

#include "judge.h"

static struct step *steps;

static void note(enum step_kind kind, u32 a, u32 b, u32 c)
{
	if (!opened)
		return;
	if (ex->steps < ex->steps_room)
		steps[ex->steps] = (struct step){ .operation = turn, .kind = kind, .a = a, .b = b, .c = c };
	ex->steps++;
}

/* The numbers of results differ between kernels. */
static u32 result(int status)
{
	switch (status) {
	case COMPACT_NOT_SUITABLE_ZONE:
	case COMPACT_SKIPPED:
		return RESULT_SKIPPED;
	case COMPACT_DEFERRED:
		return RESULT_DEFERRED;
	case COMPACT_CONTENDED:
		return RESULT_CONTENDED;
	case COMPACT_PARTIAL_SKIPPED:
		return RESULT_PARTIAL;
	case COMPACT_COMPLETE:
		return RESULT_COMPLETE;
	case COMPACT_SUCCESS:
		return RESULT_SUCCESS;
	default:
		return RESULT_GOES_ON;
	}
}

/* The beginning of mm/internal.h's structure of this name, as far as the scanners' positions. */
struct control {
#if IS_6_12
	struct list_head free[ORDERS];
#else
	struct list_head free;
#endif
	struct list_head isolated;
	unsigned int nr_free;
	unsigned int nr_isolated;
	unsigned long free_pfn;
	unsigned long migrate_pfn;
};

static void on_deferred(void *data, struct zone *zone, int order)
{
	note(STEP_DEFERRED, zone->zone_start_pfn, order, 0);
}

static void on_begin(void *data, struct control *cc, unsigned long start, unsigned long end, bool sync)
{
	note(STEP_BEGUN, cc->migrate_pfn, cc->free_pfn, sync);
}

static void on_finished(void *data, struct zone *zone, int order, int ret)
{
	note(STEP_CHECKED, result(ret), 0, 0);
}

static void on_sources(void *data, unsigned long start, unsigned long end, unsigned long scanned, unsigned long taken)
{
	note(STEP_SOURCES, start, end, taken);
}

static void on_targets(void *data, unsigned long start, unsigned long end, unsigned long scanned, unsigned long taken)
{
	note(STEP_TARGETS, start, end, taken);
}

#if IS_6_12
static void on_moved(void *data, unsigned int wanted, unsigned int moved)
#else
static void on_moved(void *data, struct control *cc, unsigned int moved)
#endif
{
	note(STEP_MOVED, moved, 0, 0);
}

static void on_end(void *data, struct control *cc, unsigned long start, unsigned long end, bool sync, int status)
{
	note(STEP_ENDED, cc->migrate_pfn, cc->free_pfn, result(status));
}

static void on_failed(void *data, struct zone *zone, int order)
{
	note(STEP_FAILED, zone->zone_start_pfn, order, 0);
}

static void on_helped(void *data, struct zone *zone, int order)
{
	note(STEP_HELPED, zone->zone_start_pfn, order, 0);
}

#if IS_6_12
static void on_search(void *data, unsigned long least, unsigned long free, unsigned long scanned, unsigned long taken)
{
	/* Of a block that was taken each frame counts as scanned. */
	note(STEP_SEARCHED, least, taken ? scanned - taken + 1 : scanned, taken);
}
#endif

static struct {
	const char *name;
	void *probe;
	struct tracepoint *at;
} events[] = {
	{ "mm_compaction_deferred", on_deferred },
	{ "mm_compaction_begin", on_begin },
	{ "mm_compaction_finished", on_finished },
	{ "mm_compaction_isolate_migratepages", on_sources },
	{ "mm_compaction_isolate_freepages", on_targets },
	{ "mm_compaction_migratepages", on_moved },
	{ "mm_compaction_end", on_end },
#if IS_6_12
	{ "mm_compaction_fast_isolate_freepages", on_search },
#endif
	{ "mm_compaction_defer_compaction", on_failed },
	{ "mm_compaction_defer_reset", on_helped },
};

static void find_event(struct tracepoint *at, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(events); i++)
		if (!strcmp(at->name, events[i].name))
			events[i].at = at;
}

int follow_steps(void)
{
	int i;

	steps = (void *)ex + ex->steps_at;
	for_each_kernel_tracepoint(find_event, NULL);
	for (i = 0; i < ARRAY_SIZE(events); i++) {
		if (!events[i].at)
			return -ENOENT;
		if (tracepoint_probe_register(events[i].at, events[i].probe, NULL)) {
			events[i].at = NULL;
			return -EINVAL;
		}
	}
	return 0;
}

void leave_steps(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(events); i++)
		if (events[i].at)
			tracepoint_probe_unregister(events[i].at, events[i].probe, NULL);
	tracepoint_synchronize_unregister();
}
