/* Pageyard: page frames, of real memory or of the caller's own.
 *
 * Link with `pkg-config --cflags --libs pageyard`. Every call returns a value. No size, handle or address of memory ends the
 * process; pointers to results and arrays must be valid or null. Writing to reserved huge
 * pages that were given back (pageyard_purge, pageyard_discard) raises SIGBUS where another process has taken them. Handles are values: a call on one that was deleted is refused. Any number of threads may
 * call, except that nothing may use an arena or an engine while it is deleted. */


#ifndef PAGEYARD_H
#define PAGEYARD_H

/* Written by cbindgen from crates/pageyard-capi/src. */

#include <stddef.h>
#include <stdint.h>

/*
 Transparent huge pages, where the host grants them.
 */
#define PAGEYARD_BACKING_TRANSPARENT 0

/*
 Pages of 4 KiB.
 */
#define PAGEYARD_BACKING_BASE 1

/*
 Reserved huge pages of 2 MiB.
 */
#define PAGEYARD_BACKING_HUGE_2M 2

/*
 Reserved huge pages of 1 GiB.
 */
#define PAGEYARD_BACKING_HUGE_1G 3

/*
 A sealed file in memory.
 */
#define PAGEYARD_BACKING_FILE 4

/*
 The same with transparent huge pages, where the host grants them to files.
 */
#define PAGEYARD_BACKING_FILE_TRANSPARENT 5

/*
 The outcome of a call.
 */
typedef enum {
  /*
   It is done.
   */
  PAGEYARD_ERROR_OK = 0,
  /*
   A pointer is null.
   */
  PAGEYARD_ERROR_NULL,
  /*
   The handle is of nothing: it was never made, or was deleted.
   */
  PAGEYARD_ERROR_HANDLE,
  /*
   A size is zero, or too large for any request.
   */
  PAGEYARD_ERROR_SIZE,
  /*
   An address is not page-aligned, or an alignment or a smallest block is no power of two or too large.
   */
  PAGEYARD_ERROR_MISALIGNED,
  /*
   An argument has a value that this call does not accept, such as an unknown backing.
   */
  PAGEYARD_ERROR_ARGUMENT,
  /*
   There is no CPU of that number.
   */
  PAGEYARD_ERROR_CPU,
  /*
   Memory is free, and kept back from this request.
   */
  PAGEYARD_ERROR_BELOW_WATERMARK,
  /*
   Enough memory is free, but not in one piece.
   */
  PAGEYARD_ERROR_FRAGMENTED,
  /*
   There is not enough free memory.
   */
  PAGEYARD_ERROR_OUT_OF_MEMORY,
  /*
   A page is not allocated: it was freed before, or never allocated.
   */
  PAGEYARD_ERROR_NOT_ALLOCATED,
  /*
   A page lies outside the arena or the engine.
   */
  PAGEYARD_ERROR_OUTSIDE,
  /*
   The host refused, or no engine can be made this way; pageyard_last_error says why, and what to change.
   */
  PAGEYARD_ERROR_REFUSED,
  /*
   A limit is reached: 1,024 arenas, 1,024 engines, or 64 ranges in one engine.
   */
  PAGEYARD_ERROR_TOO_MANY,
  /*
   This process is a child of a fork, where an arena hands nothing out and takes nothing back.
   */
  PAGEYARD_ERROR_FORKED,
  /*
   Another call is splitting the page, or was stopped in the middle of that; the page is still allocated.
   */
  PAGEYARD_ERROR_BUSY,
} pageyard_error;

/*
 An arena: memory of the host, in pages of 4,096 bytes.
 */
typedef struct {
  /*
   Its number. No arena has number 0.
   */
  uint64_t handle;
} pageyard_arena;

/*
 Which requests fail; fail_page_alloc of Linux's fault injection has the same knobs. `{ .interval = 1, .probability =
 100, .times = -1 }` fails all.
 */
typedef struct {
  /*
   Requests for less than this many bytes pass.
   */
  uint64_t least_bytes;
  /*
   How many bytes are handed out first: a request passes as long as it is smaller than what is left of them.
   */
  uint64_t space;
  /*
   How often requests fail at most; -1 for any number.
   */
  int64_t times;
  /*
   Where the random numbers begin.
   */
  uint64_t seed;
  /*
   Only every so many requests that get this far may fail; 0 is 1.
   */
  uint32_t interval;
  /*
   Of those, how many in a hundred do.
   */
  uint32_t probability;
} pageyard_fail_knobs;

/*
 How much memory there is, and how much of it is free.
 */
typedef struct {
  /*
   Bytes in all.
   */
  uint64_t bytes;
  /*
   Free bytes, those in the lists of CPUs included.
   */
  uint64_t free_bytes;
} pageyard_usage;

/*
 A range of addresses.
 */
typedef struct {
  /*
   The first byte.
   */
  uint64_t start;
  /*
   How many there are.
   */
  uint64_t bytes;
} pageyard_range;

/*
 An engine: page frames by their addresses. Nothing is stored in the memory that they name, and nothing touches it.
 */
typedef struct {
  /*
   Its number. No engine has number 0.
   */
  uint64_t handle;
} pageyard_engine;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes an arena of so many bytes, rounded up to pages. Nothing is touched: the first write to each page waits for the
 host.

 # Safety
 `out` is null, or has room for a handle.
 */
pageyard_error pageyard_arena_new(size_t bytes,
                                  uint32_t backing,
                                  pageyard_arena *out);

/*
 Makes an arena as pageyard_arena_new does, in which requests can be made to fail (pageyard_fail_alloc), for tests of
 what a program does then. Its calls are slower. None fails until it is told to.

 # Safety
 As pageyard_arena_new.
 */
pageyard_error pageyard_arena_new_failing(size_t bytes,
                                          uint32_t backing,
                                          pageyard_arena *out);

/*
 Sets which requests of an arena fail from now on, unless `knobs` is null, and writes how many did since they were
 set before, unless `failed` is null. They fail as if there were no memory. PAGEYARD_ERROR_ARGUMENT for an arena that
 pageyard_arena_new made, for a probability of more than 100, and for times below -1.

 # Safety
 `knobs` is null or points to knobs; `failed` is null, or has room for a number.
 */
pageyard_error pageyard_fail_alloc(pageyard_arena arena,
                                   const pageyard_fail_knobs *knobs,
                                   uint64_t *failed);

/*
 Ends an arena: its memory is unmapped, allocated or not.

 # Safety
 No other call uses it meanwhile, and nothing uses its memory any more.
 */
pageyard_error pageyard_arena_delete(pageyard_arena arena);

/*
 Allocates `bytes` contiguous bytes, rounded up to whole pages but not to a power of two: 13 pages take 13. The
 memory holds zeros or what its last owner wrote.

 # Safety
 `out` is null, or has room for a pointer.
 */
pageyard_error pageyard_alloc(pageyard_arena arena,
                              size_t bytes,
                              void **out);

/*
 Allocates zeros. What is known to be zeros is not cleared again.

 # Safety
 As pageyard_alloc.
 */
pageyard_error pageyard_alloc_zeroed(pageyard_arena arena, size_t bytes, void **out);

/*
 Allocates at a multiple of `align`, a power of two of at most 2 MiB.

 # Safety
 As pageyard_alloc.
 */
pageyard_error pageyard_alloc_aligned(pageyard_arena arena, size_t bytes, size_t align, void **out);

/*
 Frees memory by its size: what one call allocated, or any pages of it, in any order. Where a page is not allocated,
 those in front of it are free.

 # Safety
 Nothing uses it any more, and what is allocated there is the caller's.
 */
pageyard_error pageyard_free(pageyard_arena arena,
                             void *at,
                             size_t bytes);

/*
 Allocates up to `count` pieces of `bytes` bytes each, and writes their addresses; returns how many it allocated.

 # Safety
 `out` is null, or has room for `count` pointers.
 */
size_t pageyard_alloc_bulk(pageyard_arena arena,
                           size_t bytes,
                           void **out,
                           size_t count);

/*
 Frees `count` pieces of `bytes` bytes each; returns how many it freed. Null and invalid pointers are skipped. A
 piece that is allocated in part is freed up to its first page that is not, and not counted.

 # Safety
 `at` is null, or has `count` pointers; of each, as pageyard_free.
 */
size_t pageyard_free_bulk(pageyard_arena arena,
                          void *const *at,
                          size_t count,
                          size_t bytes);

/*
 Zeroes a range and returns its whole pages to the host. The range stays allocated to the caller. Writes how many
 bytes went back to the host, unless `given` is null.

 # Safety
 The bytes are the caller's, allocated in one piece or in several. `given` is null, or has room for a number.
 */
pageyard_error pageyard_discard(pageyard_arena arena,
                                void *at,
                                size_t bytes,
                                size_t *given);

/*
 Gives free memory back to the host, in pieces of at least `least` bytes, a power of two of 4,096 to 2 MiB: up to
 `most` bytes. Writes how many that were, unless `given` is null.

 # Safety
 `given` is null, or has room for a number.
 */
pageyard_error pageyard_purge(pageyard_arena arena,
                              size_t least,
                              size_t most,
                              size_t *given);

/*
 Writes the arena's first address and its size in bytes, for registering it with `AF_XDP`.

 # Safety
 Each pointer is null, or has room for what is written there.
 */
pageyard_error pageyard_area(pageyard_arena arena, void **start, size_t *bytes);

/*
 Allocates single pages by their offsets in the arena; returns how many of `count` it could.

 # Safety
 `offsets` is null, or has room for `count` numbers.
 */
size_t pageyard_reserve(pageyard_arena arena, uint64_t *offsets, size_t count);

/*
 Frees single pages, each named by the arena offset of any byte in it; returns how many it freed. Offsets of pages
 that are not allocated are skipped.

 # Safety
 `offsets` is null, or has `count` numbers. Nothing uses these pages any more, and those that are allocated are the
 caller's.
 */
size_t pageyard_release(pageyard_arena arena,
                        const uint64_t *offsets,
                        size_t count);

/*
 Writes how much memory there is, and how much is free.

 # Safety
 `out` is null, or has room for it.
 */
pageyard_error pageyard_arena_usage(pageyard_arena arena, pageyard_usage *out);

/*
 Makes an engine for `cpus` CPUs that manages up to 64 memory ranges. Memory in the gaps between them can be added
 later. The engine has no watermark reserve, and allocates its metadata with malloc.

 # Safety
 `ranges` is null, or has `count` of them; `out` is null, or has room for a handle.
 */
pageyard_error pageyard_engine_new(uint32_t cpus,
                                   const pageyard_range *ranges,
                                   size_t count,
                                   pageyard_engine *out);

/*
 Writes how many bytes of metadata an engine needs, for pageyard_engine_new_in.

 # Safety
 As for pageyard_engine_new; `out` has room for a size.
 */
pageyard_error pageyard_engine_metadata(uint32_t cpus,
                                        const pageyard_range *ranges,
                                        size_t count,
                                        size_t *out);

/*
 Makes an engine as pageyard_engine_new does, with its metadata in the caller's memory, of any alignment. It is
 overwritten.

 # Safety
 As for pageyard_engine_new; `metadata` is null, or has `bytes` bytes outside the ranges that nothing else uses until
 the engine is deleted.
 */
pageyard_error pageyard_engine_new_in(uint32_t cpus,
                                      const pageyard_range *ranges,
                                      size_t count,
                                      void *metadata,
                                      size_t bytes,
                                      pageyard_engine *out);

/*
 Ends an engine.

 # Safety
 No other call uses it meanwhile.
 */
pageyard_error pageyard_engine_delete(pageyard_engine engine);

/*
 Allocates `pages` contiguous pages for `cpu`, and writes the address of the first.

 # Safety
 `out` is null, or has room for a number.
 */
pageyard_error pageyard_palloc(pageyard_engine engine, uint32_t cpu, uint64_t pages, uint64_t *out);

/*
 Frees pages on a CPU: what one call allocated, or any part of it, in any order. Where a page is not allocated, those
 in front of it are free.
 */
pageyard_error pageyard_pfree(pageyard_engine engine,
                              uint32_t cpu,
                              uint64_t at,
                              uint64_t pages);

/*
 Adds free memory in whole pages, through the lists of `cpu`. It must lie within the span of the engine's ranges.

 # Safety
 It is memory that nothing uses: its pages are allocated from now on.
 */
pageyard_error pageyard_addmem(pageyard_engine engine,
                               uint32_t cpu,
                               uint64_t at,
                               uint64_t bytes);

/*
 Writes how much memory there is, and how much is free.

 # Safety
 `out` is null, or has room for it.
 */
pageyard_error pageyard_engine_usage(pageyard_engine engine, pageyard_usage *out);

/*
 Returns the English text of an error code: a static string, never null, even for an unknown code.
 */
const char *pageyard_error_text(int32_t error);

/*
 Writes the reason for this thread's last failure to make an arena or an engine, to discard or to purge, truncated to
 `size` and NUL-terminated. Returns its full length in bytes without the NUL: 0 if there was none.

 # Safety
 `buffer` is null, or has room for `size` bytes.
 */
size_t pageyard_last_error(char *buffer,
                           size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGEYARD_H */
