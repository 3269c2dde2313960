/* Forwards frames between two queues, as a program on AF_XDP does: the receiver reserves pages of one area, by their
 * offsets, and the sender releases them on another thread.
 *
 *     cc examples/forward.c $(pkg-config --cflags --libs pageyard) -lpthread && ./a.out
 */
#include <pageyard.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { BURST = 64, RING = 1024, PACKETS = 1 << 20, BYTES = 1500 };

static pageyard_arena arena;
static char *area;
static uint64_t ring[RING];
static uint64_t head, tail;

/* Stands for the device's transmit queue: reads each packet, then frees its page. */
static void *transmit(void *bytes) {
    uint64_t done[BURST];
    for (uint64_t sent = 0; sent < PACKETS;) {
        uint64_t filled = __atomic_load_n(&head, __ATOMIC_ACQUIRE);
        size_t n = 0;
        for (; n < BURST && sent < filled; n++, sent++) {
            done[n] = ring[sent % RING];
            *(uint64_t *)bytes += (unsigned char)area[done[n] + BYTES - 1];
        }
        __atomic_store_n(&tail, sent, __ATOMIC_RELEASE);
        if (pageyard_release(arena, done, n) != n) {
            fprintf(stderr, "a page was not this program's\n");
        }
        if (n == 0) {
            sched_yield();
        }
    }
    return NULL;
}

int main(void) {
    size_t size;
    pageyard_error error = pageyard_arena_new(16 << 20, PAGEYARD_BACKING_FILE, &arena);
    if (error != PAGEYARD_ERROR_OK) {
        fprintf(stderr, "%s\n", pageyard_error_text(error));
        return 1;
    }
    /* A real program registers this area with setsockopt(XDP_UMEM_REG). */
    pageyard_area(arena, (void **)&area, &size);
    uint64_t sum = 0, pages[BURST];
    pthread_t sender;
    pthread_create(&sender, NULL, transmit, &sum);
    for (uint64_t received = 0; received < PACKETS;) {
        if (received + BURST - __atomic_load_n(&tail, __ATOMIC_ACQUIRE) > RING) {
            sched_yield();
            continue;
        }
        size_t n = pageyard_reserve(arena, pages, BURST);
        for (size_t i = 0; i < n; i++, received++) {
            memset(area + pages[i], (int)(received & 1), BYTES);
            ring[received % RING] = pages[i];
        }
        __atomic_store_n(&head, received, __ATOMIC_RELEASE);
    }
    pthread_join(sender, NULL);
    pageyard_usage usage;
    pageyard_arena_usage(arena, &usage);
    printf("%d packets, %llu odd ones; %llu of %llu bytes are free\n", PACKETS, (unsigned long long)sum,
           (unsigned long long)usage.free_bytes, (unsigned long long)usage.bytes);
    return sum == PACKETS / 2 && usage.free_bytes == usage.bytes ? 0 : 1;
}
