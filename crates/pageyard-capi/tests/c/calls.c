/* Every call, right and wrong: nothing that is given ends the process. */
#include "pageyard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

enum { PAGE = 4096 };

static size_t free_bytes(pageyard_arena arena) {
    pageyard_usage usage;
    CHECK(pageyard_arena_usage(arena, &usage) == PAGEYARD_ERROR_OK);
    return (size_t)usage.free_bytes;
}

/* Requests that fail on purpose, and only those. */
static void failures(void) {
    pageyard_arena arena, plain;
    CHECK(pageyard_arena_new_failing(8 << 20, PAGEYARD_BACKING_BASE, &arena) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_arena_new(1 << 20, PAGEYARD_BACKING_BASE, &plain) == PAGEYARD_ERROR_OK);
    void *page, *many[100];
    CHECK(pageyard_alloc(arena, PAGE, &page) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(arena, page, PAGE) == PAGEYARD_ERROR_OK);

    pageyard_fail_knobs knobs = {.interval = 1, .probability = 100, .times = 2};
    uint64_t failed = 9;
    CHECK(pageyard_fail_alloc(arena, &knobs, &failed) == PAGEYARD_ERROR_OK && failed == 0);
    CHECK(pageyard_alloc(arena, PAGE, &page) == PAGEYARD_ERROR_OUT_OF_MEMORY);
    CHECK(pageyard_alloc_zeroed(arena, 13 * PAGE, &page) == PAGEYARD_ERROR_OUT_OF_MEMORY);
    CHECK(pageyard_alloc(arena, PAGE, &page) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(arena, page, PAGE) == PAGEYARD_ERROR_OK);

    knobs = (pageyard_fail_knobs){.interval = 41, .probability = 100, .times = -1};
    CHECK(pageyard_fail_alloc(arena, &knobs, &failed) == PAGEYARD_ERROR_OK && failed == 2);
    CHECK(pageyard_alloc_bulk(arena, PAGE, many, 100) == 40);
    CHECK(pageyard_free_bulk(arena, many, 40, PAGE) == 40);
    CHECK(pageyard_fail_alloc(arena, NULL, &failed) == PAGEYARD_ERROR_OK && failed == 1);

    knobs = (pageyard_fail_knobs){.interval = 1, .probability = 100, .times = -1, .least_bytes = 5 * PAGE};
    CHECK(pageyard_fail_alloc(arena, &knobs, NULL) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_alloc(arena, 4 * PAGE, &page) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(arena, page, 4 * PAGE) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_alloc(arena, 8 * PAGE, &page) == PAGEYARD_ERROR_OUT_OF_MEMORY);

    knobs.probability = 101;
    CHECK(pageyard_fail_alloc(arena, &knobs, NULL) == PAGEYARD_ERROR_ARGUMENT);
    knobs.probability = 1;
    CHECK(pageyard_fail_alloc(plain, &knobs, NULL) == PAGEYARD_ERROR_ARGUMENT);
    CHECK(free_bytes(arena) == 8 << 20);
    CHECK(pageyard_arena_delete(arena) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_fail_alloc(arena, &knobs, NULL) == PAGEYARD_ERROR_HANDLE);
    CHECK(pageyard_arena_new_failing(0, PAGEYARD_BACKING_BASE, &arena) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_arena_new_failing(PAGE, PAGEYARD_BACKING_BASE, NULL) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_arena_delete(plain) == PAGEYARD_ERROR_OK);
}

static void arenas(void) {
    pageyard_arena arena, other;
    CHECK(pageyard_arena_new(8 << 20, PAGEYARD_BACKING_TRANSPARENT, &arena) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_arena_new(1 << 20, PAGEYARD_BACKING_FILE, &other) == PAGEYARD_ERROR_OK);
    size_t all = free_bytes(arena);
    CHECK(all == 8 << 20);

    char *piece;
    CHECK(pageyard_alloc(arena, 13 * PAGE, (void **)&piece) == PAGEYARD_ERROR_OK);
    memset(piece, 1, 13 * PAGE);
    CHECK(free_bytes(arena) == all - 13 * PAGE);
    /* In pieces, the middle first, and none twice. */
    CHECK(pageyard_free(arena, piece + 5 * PAGE, 3 * PAGE) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(arena, piece + 5 * PAGE, PAGE) == PAGEYARD_ERROR_NOT_ALLOCATED);
    CHECK(pageyard_free(arena, piece, 5 * PAGE) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(arena, piece + 8 * PAGE, 5 * PAGE) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(arena, piece, 13 * PAGE) == PAGEYARD_ERROR_NOT_ALLOCATED);
    CHECK(free_bytes(arena) == all);

    for (size_t bytes = 1; bytes < 300000; bytes = bytes * 3 + 1) {
        void *one;
        CHECK(pageyard_alloc_zeroed(arena, bytes, &one) == PAGEYARD_ERROR_OK);
        for (size_t i = 0; i < bytes; i++) {
            CHECK(((char *)one)[i] == 0);
        }
        memset(one, 7, bytes);
        CHECK(pageyard_free(arena, one, bytes) == PAGEYARD_ERROR_OK);
    }
    for (size_t align = 1; align <= 2 << 20; align *= 2) {
        void *one;
        CHECK(pageyard_alloc_aligned(arena, 3 * PAGE, align, &one) == PAGEYARD_ERROR_OK);
        CHECK((uintptr_t)one % align == 0);
        CHECK(pageyard_free(arena, one, 3 * PAGE) == PAGEYARD_ERROR_OK);
    }

    void *many[300];
    size_t sizes[] = {PAGE, 3 * PAGE, 4 * PAGE};
    for (size_t i = 0; i < 3; i++) {
        size_t got = pageyard_alloc_bulk(arena, sizes[i], many, 300);
        CHECK(got == 300);
        CHECK(pageyard_free_bulk(arena, many, got, sizes[i]) == got);
        CHECK(pageyard_free_bulk(arena, many, got, sizes[i]) == 0);
    }
    many[0] = NULL;
    CHECK(pageyard_free_bulk(arena, many, 1, PAGE) == 0);

    uint64_t offsets[100];
    void *start;
    size_t bytes, given;
    CHECK(pageyard_area(arena, &start, &bytes) == PAGEYARD_ERROR_OK && bytes == 8 << 20);
    CHECK(pageyard_reserve(arena, offsets, 100) == 100);
    for (size_t i = 0; i < 100; i++) {
        CHECK(offsets[i] % PAGE == 0 && offsets[i] < bytes);
        memset((char *)start + offsets[i], 9, PAGE);
        offsets[i] += 100; /* where a packet's headers begin */
    }
    CHECK(pageyard_release(arena, offsets, 100) == 100);
    CHECK(pageyard_release(arena, offsets, 100) == 0);
    offsets[0] = UINT64_MAX;
    CHECK(pageyard_release(arena, offsets, 1) == 0);

    /* Zeros for the owner, pages for the host. */
    CHECK(pageyard_alloc(arena, 16 * PAGE, (void **)&piece) == PAGEYARD_ERROR_OK);
    memset(piece, 7, 16 * PAGE);
    CHECK(pageyard_discard(arena, piece + 100, 4 * PAGE, &given) == PAGEYARD_ERROR_OK && given == 3 * PAGE);
    CHECK(piece[99] == 7 && piece[100] == 0 && piece[4 * PAGE + 99] == 0 && piece[4 * PAGE + 100] == 7);
    CHECK(pageyard_discard(arena, piece, 1, NULL) == PAGEYARD_ERROR_OK && piece[0] == 0);
    CHECK(pageyard_discard(arena, piece, 0, NULL) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_discard(arena, piece, SIZE_MAX, NULL) != PAGEYARD_ERROR_OK);
    CHECK(pageyard_discard(arena, NULL, PAGE, NULL) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_discard(arena, &all, PAGE, NULL) == PAGEYARD_ERROR_OUTSIDE);
    CHECK(pageyard_free(arena, piece, 16 * PAGE) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_purge(arena, PAGE, SIZE_MAX, &given) == PAGEYARD_ERROR_OK && given > 0);
    CHECK(pageyard_purge(arena, 2 << 20, SIZE_MAX, NULL) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_purge(arena, 0, 1, &given) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_purge(arena, 3 * PAGE, 1, &given) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_purge(arena, SIZE_MAX, 1, &given) == PAGEYARD_ERROR_MISALIGNED);

    /* Wrong sizes, pointers, alignments. */
    void *none;
    CHECK(pageyard_alloc(arena, 0, &none) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_alloc(arena, SIZE_MAX, &none) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_alloc(arena, 16 << 20, &none) == PAGEYARD_ERROR_OUT_OF_MEMORY);
    CHECK(pageyard_alloc(arena, PAGE, NULL) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_alloc_aligned(arena, PAGE, 3, &none) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_alloc_aligned(arena, PAGE, 0, &none) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_alloc_aligned(arena, PAGE, (size_t)1 << 40, &none) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_alloc_bulk(arena, 0, many, 3) == 0 && pageyard_alloc_bulk(arena, SIZE_MAX, many, 3) == 0);
    CHECK(pageyard_alloc_bulk(arena, PAGE, NULL, 3) == 0 && pageyard_reserve(arena, NULL, 3) == 0);
    CHECK(pageyard_free_bulk(arena, NULL, 3, PAGE) == 0 && pageyard_release(arena, NULL, 3) == 0);
    CHECK(pageyard_free(arena, NULL, PAGE) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_alloc(other, PAGE, (void **)&piece) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(arena, piece, PAGE) == PAGEYARD_ERROR_OUTSIDE);
    CHECK(pageyard_free(other, piece + 1, PAGE) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_free(other, piece, 0) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_free(other, piece, SIZE_MAX) != PAGEYARD_ERROR_OK);
    CHECK(pageyard_free(other, piece, PAGE) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_area(arena, NULL, &bytes) == PAGEYARD_ERROR_NULL);
    CHECK(free_bytes(arena) == all);

    /* A child's copy does nothing. */
    CHECK(pageyard_alloc(arena, PAGE, (void **)&piece) == PAGEYARD_ERROR_OK);
    pid_t child = fork();
    if (child == 0) {
        _exit(pageyard_alloc(arena, PAGE, &none) == PAGEYARD_ERROR_FORKED && pageyard_free(arena, piece, PAGE) == PAGEYARD_ERROR_FORKED &&
                      pageyard_reserve(arena, offsets, 1) == 0 && pageyard_purge(arena, PAGE, PAGE, NULL) == PAGEYARD_ERROR_FORKED &&
                      pageyard_discard(arena, piece, PAGE, NULL) == PAGEYARD_ERROR_FORKED
                  ? 0
                  : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(pageyard_free(arena, piece, PAGE) == PAGEYARD_ERROR_OK);

    /* Calls after the end, and on what was never made. */
    CHECK(pageyard_arena_delete(arena) == PAGEYARD_ERROR_OK);
    pageyard_arena wrong[] = {arena, {0}, {UINT64_MAX}, {other.handle + 1}, {(uint64_t)(uintptr_t)&all}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(pageyard_alloc(wrong[i], PAGE, &none) == PAGEYARD_ERROR_HANDLE);
        CHECK(pageyard_free(wrong[i], piece, PAGE) == PAGEYARD_ERROR_HANDLE);
        CHECK(pageyard_purge(wrong[i], PAGE, 1, &given) == PAGEYARD_ERROR_HANDLE);
        CHECK(pageyard_discard(wrong[i], piece, PAGE, &given) == PAGEYARD_ERROR_HANDLE);
        CHECK(pageyard_area(wrong[i], &start, &bytes) == PAGEYARD_ERROR_HANDLE);
        CHECK(pageyard_reserve(wrong[i], offsets, 1) == 0 && pageyard_release(wrong[i], offsets, 1) == 0);
        CHECK(pageyard_alloc_bulk(wrong[i], PAGE, many, 1) == 0);
        CHECK(pageyard_arena_delete(wrong[i]) == PAGEYARD_ERROR_HANDLE);
    }
    CHECK(pageyard_arena_delete(other) == PAGEYARD_ERROR_OK);

    CHECK(pageyard_arena_new(0, PAGEYARD_BACKING_BASE, &arena) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_arena_new(SIZE_MAX, PAGEYARD_BACKING_BASE, &arena) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_arena_new(PAGE, 77, &arena) == PAGEYARD_ERROR_ARGUMENT);
    CHECK(pageyard_arena_new(PAGE, PAGEYARD_BACKING_BASE, NULL) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_arena_new((size_t)1 << 46, PAGEYARD_BACKING_HUGE_1G, &arena) == PAGEYARD_ERROR_REFUSED);
    char why[200], little[8];
    CHECK(pageyard_last_error(why, sizeof why) > 0 && strstr(why, "/sys/kernel/mm/hugepages"));
    CHECK(pageyard_last_error(NULL, 0) == strlen(why) || strlen(why) == sizeof why - 1);
    CHECK(pageyard_last_error(little, sizeof little) > 7 && strncmp(little, why, 7) == 0 && little[7] == 0);
}

static void placed(void) {
    pageyard_range ranges[] = {{4 << 20, 16 << 20}};
    pageyard_engine engine;
    size_t bytes;
    CHECK(pageyard_engine_metadata(2, ranges, 1, &bytes) == PAGEYARD_ERROR_OK && bytes > 0 && bytes < 1 << 20);
    char *memory = malloc(bytes + 1);
    CHECK(memory != NULL);
    memset(memory, 0xa5, bytes + 1);
    /* Where it begins does not matter. */
    CHECK(pageyard_engine_new_in(2, ranges, 1, memory + 1, bytes, &engine) == PAGEYARD_ERROR_OK);
    uint64_t at, pages = 0;
    while (pageyard_palloc(engine, 1, 1, &at) == PAGEYARD_ERROR_OK) {
        pages++;
    }
    CHECK(pages == (16 << 20) / PAGE);
    CHECK(pageyard_pfree(engine, 0, 4 << 20, pages) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_engine_delete(engine) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_palloc(engine, 0, 1, &at) == PAGEYARD_ERROR_HANDLE);

    CHECK(pageyard_engine_new_in(2, ranges, 1, memory, bytes - 1, &engine) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_engine_new_in(2, ranges, 1, memory, SIZE_MAX, &engine) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_engine_new_in(2, ranges, 1, NULL, bytes, &engine) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_engine_new_in(2, NULL, 1, memory, bytes, &engine) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_engine_new_in(2, ranges, 1, memory, bytes, NULL) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_engine_new_in(0, ranges, 1, memory, bytes, &engine) != PAGEYARD_ERROR_OK);
    CHECK(pageyard_engine_metadata(0, ranges, 1, &bytes) != PAGEYARD_ERROR_OK);
    CHECK(pageyard_engine_metadata(1, NULL, 1, &bytes) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_engine_metadata(1, ranges, 1, NULL) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_engine_metadata(1, ranges, 0, &bytes) == PAGEYARD_ERROR_SIZE);
    free(memory);
}

static void engines(void) {
    pageyard_range ranges[] = {{1 << 20, 15 << 20}, {32 << 20, 32 << 20}};
    pageyard_engine engine;
    CHECK(pageyard_engine_new(2, ranges, 2, &engine) == PAGEYARD_ERROR_OK);
    pageyard_usage usage;
    CHECK(pageyard_engine_usage(engine, &usage) == PAGEYARD_ERROR_OK);
    CHECK(usage.bytes == 47 << 20 && usage.free_bytes == usage.bytes);
    uint64_t at, other;
    CHECK(pageyard_palloc(engine, 0, 10, &at) == PAGEYARD_ERROR_OK && at % PAGE == 0);
    for (uint64_t i = 0; i < 10; i += 2) {
        CHECK(pageyard_pfree(engine, 1, at + i * PAGE, 1) == PAGEYARD_ERROR_OK);
    }
    CHECK(pageyard_pfree(engine, 1, at, 10) == PAGEYARD_ERROR_NOT_ALLOCATED);
    for (uint64_t i = 1; i < 10; i += 2) {
        CHECK(pageyard_pfree(engine, 0, at + i * PAGE, 1) == PAGEYARD_ERROR_OK);
    }
    CHECK(pageyard_addmem(engine, 0, 20 << 20, 3 * PAGE) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_engine_usage(engine, &usage) == PAGEYARD_ERROR_OK);
    CHECK(usage.bytes == (47 << 20) + 3 * PAGE && usage.free_bytes == usage.bytes);
    CHECK(pageyard_addmem(engine, 0, 20 << 20, PAGE) == PAGEYARD_ERROR_NOT_ALLOCATED);
    CHECK(pageyard_addmem(engine, 0, 1 << 30, PAGE) == PAGEYARD_ERROR_OUTSIDE);
    CHECK(pageyard_addmem(engine, 0, 20 << 20, 1) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_addmem(engine, 0, UINT64_MAX - PAGE + 1, PAGE) != PAGEYARD_ERROR_OK);

    CHECK(pageyard_palloc(engine, 0, 0, &at) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_palloc(engine, 0, UINT64_MAX, &at) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_palloc(engine, 0, 1 << 14, &at) == PAGEYARD_ERROR_OUT_OF_MEMORY);
    CHECK(pageyard_palloc(engine, 2, 1, &at) == PAGEYARD_ERROR_CPU);
    CHECK(pageyard_palloc(engine, 0, 1, NULL) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_palloc(engine, 0, 1, &at) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_pfree(engine, 2, at, 1) == PAGEYARD_ERROR_CPU);
    CHECK(pageyard_pfree(engine, 0, at + 1, 1) == PAGEYARD_ERROR_MISALIGNED);
    CHECK(pageyard_pfree(engine, 0, at, 0) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_pfree(engine, 0, at, UINT64_MAX) != PAGEYARD_ERROR_OK);
    CHECK(pageyard_pfree(engine, 0, 0, 1) == PAGEYARD_ERROR_OUTSIDE);
    CHECK(pageyard_pfree(engine, 0, at, 1) == PAGEYARD_ERROR_OK);

    CHECK(pageyard_engine_delete(engine) == PAGEYARD_ERROR_OK);
    CHECK(pageyard_engine_delete(engine) == PAGEYARD_ERROR_HANDLE);
    CHECK(pageyard_palloc(engine, 0, 1, &other) == PAGEYARD_ERROR_HANDLE);
    CHECK(pageyard_pfree(engine, 0, at, 1) == PAGEYARD_ERROR_HANDLE);
    CHECK(pageyard_engine_usage(engine, &usage) == PAGEYARD_ERROR_HANDLE);

    CHECK(pageyard_engine_new(0, ranges, 2, &engine) != PAGEYARD_ERROR_OK);
    CHECK(pageyard_engine_new(UINT32_MAX, ranges, 2, &engine) != PAGEYARD_ERROR_OK);
    CHECK(pageyard_engine_new(1, ranges, 0, &engine) == PAGEYARD_ERROR_SIZE);
    CHECK(pageyard_engine_new(1, NULL, 1, &engine) == PAGEYARD_ERROR_NULL);
    CHECK(pageyard_engine_new(1, ranges, 1, NULL) == PAGEYARD_ERROR_NULL);
    ranges[0].bytes = 0;
    CHECK(pageyard_engine_new(1, ranges, 2, &engine) == PAGEYARD_ERROR_SIZE);
    ranges[0].bytes = UINT64_MAX;
    CHECK(pageyard_engine_new(1, ranges, 2, &engine) == PAGEYARD_ERROR_REFUSED);
}

/* A process that is ending still gets answers. */
static void at_exit(void) {
    pageyard_arena arena;
    char why[8];
    (void)pageyard_last_error(why, sizeof why);
    (void)pageyard_arena_new(0, PAGEYARD_BACKING_BASE, &arena);
    (void)pageyard_arena_new(PAGE, PAGEYARD_BACKING_BASE, &arena);
}

int main(void) {
    CHECK(atexit(at_exit) == 0);
    arenas();
    failures();
    engines();
    placed();
    for (int error = -2; error < 20; error++) {
        CHECK(strlen(pageyard_error_text(error)) > 3);
    }
    CHECK(strcmp(pageyard_error_text(-1), pageyard_error_text(19)) == 0);
    puts("calls: all as they should be");
    return 0;
}
