/*
 * The load of `unlisted-pair` in bench/instructions on an allocator of a library: in 1 GiB three quarters are taken in
 * blocks of one order, every other block is given back, then 64 blocks are taken and given back, one by one.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAMES (1ull << 18)
#define PAIRS 64

typedef void *(*new_fn)(uint64_t, uint32_t);
typedef uint64_t (*take_fn)(void *, uint32_t, uint32_t);
typedef void (*give_fn)(void *, uint32_t, uint64_t, uint32_t);

static void *peer;
static take_fn take;
static give_fn give;
static uint32_t order;

/* What is counted. */
__attribute__((noinline)) void counted_case(void)
{
	for (int i = 0; i < PAIRS; i++)
		give(peer, 0, take(peer, 0, order), order);
}

static void *find(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (found == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return found;
}

int main(int argc, char **argv)
{
	void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	uint64_t blocks, *held;

	if (library == NULL) {
		fprintf(stderr, "usage: pairs LIBRARY ORDER\n");
		return 2;
	}
	order = atoi(argv[2]);
	take = (take_fn)find(library, "pageyard_peer_take");
	give = (give_fn)find(library, "pageyard_peer_give");
	peer = ((new_fn)find(library, "pageyard_peer_new"))(FRAMES, 2);
	blocks = (FRAMES >> order) / 4 * 3;
	held = malloc(blocks * sizeof(*held));
	for (uint64_t i = 0; i < blocks; i++)
		held[i] = take(peer, 0, order);
	for (uint64_t i = 0; i < blocks; i += 2)
		give(peer, 0, held[i], order);
	counted_case();
	counted_case();
	return 0;
}
