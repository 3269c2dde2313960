/*
 * snmalloc as a library, with calls that begin with `sn_`. All peers are told to keep free memory, and it has no
 * setting for that: MADV_FREE, after which the contents may stay, does nothing here.
 */
#include <sys/mman.h>

static int advise(void *start, size_t bytes, int advice)
{
	return advice == MADV_FREE ? 0 : madvise(start, bytes, advice);
}

#define madvise advise
#include "snmalloc/override/malloc.cc"
