/* Threads that begin, allocate, free what others allocated, and end. */
#include "pageyard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, THREADS = 4, ROUNDS = 50, HELD = 64 };

static pageyard_arena arena;
static void *slots[THREADS][HELD];

static void *work(void *argument) {
    size_t mine = (size_t)argument;
    size_t other = (mine + 1) % THREADS;
    for (size_t i = 0; i < HELD; i++) {
        void *was = __atomic_exchange_n(&slots[other][i], NULL, __ATOMIC_ACQ_REL);
        if (was != NULL) {
            char value = *(char *)was;
            if (value != ((char *)was)[PAGE - 1] || pageyard_free(arena, was, PAGE) != PAGEYARD_ERROR_OK) {
                return "a page has two owners";
            }
        }
        void *page;
        if (pageyard_alloc(arena, PAGE, &page) != PAGEYARD_ERROR_OK) {
            return "no memory";
        }
        memset(page, (int)mine + 1, PAGE);
        was = __atomic_exchange_n(&slots[mine][i], page, __ATOMIC_ACQ_REL);
        if (was != NULL && pageyard_free(arena, was, PAGE) != PAGEYARD_ERROR_OK) {
            return "a page is gone";
        }
    }
    return NULL;
}

int main(void) {
    pageyard_usage usage;
    if (pageyard_arena_new(16 << 20, PAGEYARD_BACKING_BASE, &arena) != PAGEYARD_ERROR_OK) {
        return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) {
                return 1;
            }
        }
        for (size_t i = 0; i < THREADS; i++) {
            void *why;
            pthread_join(threads[i], &why);
            if (why != NULL) {
                fprintf(stderr, "%s\n", (char *)why);
                return 1;
            }
        }
    }
    for (size_t i = 0; i < THREADS * HELD; i++) {
        void *page = slots[i / HELD][i % HELD];
        if (page != NULL && pageyard_free(arena, page, PAGE) != PAGEYARD_ERROR_OK) {
            return 1;
        }
    }
    if (pageyard_arena_usage(arena, &usage) != PAGEYARD_ERROR_OK || usage.bytes != usage.free_bytes) {
        fprintf(stderr, "pages are lost\n");
        return 1;
    }
    puts("threads: every page had one owner");
    return pageyard_arena_delete(arena) == PAGEYARD_ERROR_OK ? 0 : 1;
}
