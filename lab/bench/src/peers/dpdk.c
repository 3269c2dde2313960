/*
 * DPDK as a peer: loops that take and give back. With RING, a ring of frames for any number of threads; with MEMPOOL,
 * an rte_mempool with a cache of 512 objects for each core.
 *
 * Speaks the protocol of remote.rs on standard input and output. Frames are 4 KiB apart; none is touched.
 */
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_launch.h>
#ifdef RING
#include <rte_ring.h>
#elif defined(MEMPOOL)
#include <rte_mempool.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OBJECTS 40959
#define CACHE 512
#define MOST_BATCH 16384
#define MOST_MARKS 4096

struct request {
	uint32_t threads, batch, call, rounds, chunk, split;
};

struct taken {
	uint64_t marks[MOST_MARKS];
	uint32_t n;
	uint32_t missing;
	uint64_t alloc, free;
	void *held[MOST_BATCH];
};

static struct request req;
static uint32_t order[MOST_BATCH];
static struct taken *taken[RTE_MAX_LCORE];
static unsigned int arrived;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What is measured: take_one and take_many return 0 where they took all they were asked for. */
#ifdef RING
#define NAME "rte_ring"

static struct rte_ring *ring;

static int make(void)
{
	uintptr_t frame;

	ring = rte_ring_create("frames", OBJECTS, SOCKET_ID_ANY, RING_F_EXACT_SZ);
	if (!ring)
		return -1;
	for (frame = 1; frame <= OBJECTS; frame++)
		rte_ring_mp_enqueue(ring, (void *)(frame * 4096));
	return 0;
}

static __rte_always_inline int take_one(void **frame)
{
	return rte_ring_mc_dequeue(ring, frame);
}

static __rte_always_inline int take_many(void **frames, uint32_t n)
{
	return rte_ring_mc_dequeue_bulk(ring, frames, n, NULL) != n;
}

static __rte_always_inline void give_one(void *frame)
{
	rte_ring_mp_enqueue(ring, frame);
}

static __rte_always_inline void give_many(void **frames, uint32_t n)
{
	rte_ring_mp_enqueue_bulk(ring, frames, n, NULL);
}
#elif defined(MEMPOOL)
#define NAME "rte_mempool"

static struct rte_mempool *pool;

static int make(void)
{
	pool = rte_mempool_create("frames", OBJECTS, 4096, CACHE, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
	return pool ? 0 : -1;
}

static __rte_always_inline int take_one(void **frame)
{
	return rte_mempool_get(pool, frame);
}

static __rte_always_inline int take_many(void **frames, uint32_t n)
{
	return rte_mempool_get_bulk(pool, frames, n);
}

static __rte_always_inline void give_one(void *frame)
{
	rte_mempool_put(pool, frame);
}

static __rte_always_inline void give_many(void **frames, uint32_t n)
{
	rte_mempool_put_bulk(pool, frames, n);
}
#endif

static __rte_always_inline uint32_t fill(struct taken *t)
{
	uint32_t missing = 0, i;

	if (req.call > 1) {
		for (i = 0; i < req.batch; i += req.call) {
			uint32_t n = RTE_MIN(req.call, req.batch - i);

			if (take_many(t->held + i, n) != 0) {
				memset(t->held + i, 0, n * sizeof(void *));
				missing += n;
			}
		}
		return missing;
	}
	for (i = 0; i < req.batch; i++) {
		if (take_one(&t->held[i]) != 0) {
			t->held[i] = NULL;
			missing++;
		}
	}
	return missing;
}

static __rte_always_inline void give(struct taken *t)
{
	uint32_t i;

	if (req.call > 1) {
		for (i = 0; i < req.batch; i += req.call)
			if (t->held[i])
				give_many(t->held + i, RTE_MIN(req.call, req.batch - i));
		return;
	}
	for (i = 0; i < req.batch; i++)
		if (t->held[order[i]])
			give_one(t->held[order[i]]);
}

static int sample(void *argument)
{
	struct taken *t = argument;
	uint32_t i, j;

	__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < req.threads)
		rte_pause();
	t->n = t->missing = 0;
	t->alloc = t->free = 0;
	t->marks[t->n++] = now();
	for (i = 0; i < req.rounds / req.chunk; i++) {
		for (j = 0; j < req.chunk; j++) {
			t->missing += fill(t);
			give(t);
		}
		t->marks[t->n++] = now();
	}
	for (i = 0; i < req.split; i++) {
		uint64_t start = now(), middle;

		t->missing += fill(t);
		middle = now();
		give(t);
		t->alloc += middle - start;
		t->free += now() - middle;
	}
	return 0;
}

static void say(const void *bytes, size_t n)
{
	if (fwrite(bytes, 1, n, stdout) != n)
		exit(1);
}

static void greet(uint32_t status, const char *text)
{
	uint32_t n = strlen(text);

	say(&status, sizeof(status));
	say(&n, sizeof(n));
	say(text, n);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned int lcore;
	uint32_t i;

	if (rte_eal_init(argc, argv) < 0) {
		greet(1, "DPDK cannot start here");
		return 1;
	}
	if (make() != 0) {
		greet(1, "DPDK has no memory for its frames");
		return 1;
	}
	for (i = 0; i < rte_lcore_count(); i++) {
		taken[i] = calloc(1, sizeof(struct taken));
		if (!taken[i])
			return 1;
	}
	greet(0, NAME);
	while (fread(&req, sizeof(req), 1, stdin) == 1) {
		if (!req.batch || req.batch > MOST_BATCH || !req.chunk || req.rounds / req.chunk >= MOST_MARKS ||
		    !req.threads || req.threads > rte_lcore_count() || !req.call ||
		    fread(order, sizeof(*order), req.batch, stdin) != req.batch)
			return 1;
		arrived = 0;
		i = 1;
		RTE_LCORE_FOREACH_WORKER(lcore) {
			if (i >= req.threads)
				break;
			rte_eal_remote_launch(sample, taken[i++], lcore);
		}
		sample(taken[0]);
		rte_eal_mp_wait_lcore();
		for (i = 0; i < req.threads; i++) {
			say(&taken[i]->n, sizeof(uint32_t));
			say(&taken[i]->missing, sizeof(uint32_t));
			say(taken[i]->marks, taken[i]->n * sizeof(uint64_t));
			say(&taken[i]->alloc, sizeof(uint64_t));
			say(&taken[i]->free, sizeof(uint64_t));
		}
		fflush(stdout);
	}
	return 0;
}
