// SPDX-License-Identifier: GPL-2.0
/* What a call takes where the CPU's list has what it needs. */
#include "judge.h"

#define WEIGHED 64
#define ROUNDS 200

static struct page *weighed[WEIGHED];

static void keep_least(int weight, u64 begin, u64 end, u64 empty)
{
	u64 each = (end - begin - min(empty, end - begin)) * 1000 / WEIGHED;

	if (!ex->weights[weight] || each < ex->weights[weight])
		ex->weights[weight] = each;
}

/* The least of many rounds: the other CPU's turns of the emulator fall into some of them. */
void weigh(void)
{
	u64 begin, end, empty = ~0ULL;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		begin = rdtsc();
		for (i = 0; i < WEIGHED; i++)
			WRITE_ONCE(weighed[i], NULL);
		end = rdtsc();
		empty = min(empty, end - begin);

		begin = rdtsc();
		for (i = 0; i < WEIGHED; i++)
			WRITE_ONCE(weighed[i], alloc_pages(GFP_ATOMIC | __GFP_NOWARN, 0));
		end = rdtsc();
		keep_least(WEIGHT_ALLOC, begin, end, empty);

		begin = rdtsc();
		for (i = 0; i < WEIGHED; i++)
			__free_pages(READ_ONCE(weighed[i]), 0);
		end = rdtsc();
		keep_least(WEIGHT_FREE, begin, end, empty);

		memset(weighed, 0, sizeof(weighed));
		begin = rdtsc();
		i = BULK(GFP_ATOMIC | __GFP_NOWARN, numa_node_id(), NULL, WEIGHED, weighed);
		end = rdtsc();
		if (i == WEIGHED)
			keep_least(WEIGHT_ALLOC_BULK, begin, end, 0);
		while (i--)
			__free_pages(weighed[i], 0);
	}
}
