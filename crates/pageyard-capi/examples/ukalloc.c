/* The page allocator of a unikernel, behind a table of functions in the shape of Unikraft's ukalloc: palloc, pfree in any
 * pieces, and addmem.
 *
 *     cc examples/ukalloc.c $(pkg-config --cflags --libs pageyard) && ./a.out
 */
#include <pageyard.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

struct uk_alloc {
    void *(*palloc)(struct uk_alloc *a, unsigned long num_pages);
    void (*pfree)(struct uk_alloc *a, void *ptr, unsigned long num_pages);
    int (*addmem)(struct uk_alloc *a, void *base, size_t size);
    pageyard_engine engine;
};

/* A unikernel asks for the core that it runs on. */
static uint32_t core(void) {
    return 0;
}

static void *palloc(struct uk_alloc *a, unsigned long num_pages) {
    uint64_t at;
    return pageyard_palloc(a->engine, core(), num_pages, &at) == PAGEYARD_ERROR_OK ? (void *)(uintptr_t)at : NULL;
}

static void pfree(struct uk_alloc *a, void *ptr, unsigned long num_pages) {
    pageyard_error error = pageyard_pfree(a->engine, core(), (uintptr_t)ptr, num_pages);
    if (error != PAGEYARD_ERROR_OK) {
        fprintf(stderr, "pfree of %p: %s\n", ptr, pageyard_error_text(error));
    }
}

static int addmem(struct uk_alloc *a, void *base, size_t size) {
    return pageyard_addmem(a->engine, core(), (uintptr_t)base, size) == PAGEYARD_ERROR_OK ? 0 : -EINVAL;
}

int main(void) {
    /* The machine's memory, of which a few pages in the middle are in use at first. */
    const size_t bytes = 32 << 20, early = 16 << 20, used = 5 * PAGE;
    char *memory = aligned_alloc(PAGE, bytes);
    struct uk_alloc a = {palloc, pfree, addmem, {0}};
    pageyard_range free_memory[] = {
        {(uintptr_t)memory, early},
        {(uintptr_t)memory + early + used, bytes - early - used},
    };
    if (memory == NULL || pageyard_engine_new(1, free_memory, 2, &a.engine) != PAGEYARD_ERROR_OK) {
        return 1;
    }
    char *seven = a.palloc(&a, 7);
    memset(seven, 1, 7 * PAGE);
    a.pfree(&a, seven + 3 * PAGE, 4);
    a.pfree(&a, seven, 2);
    a.pfree(&a, seven + 2 * PAGE, 1);
    if (a.addmem(&a, memory + early, used) != 0) {
        return 1;
    }
    unsigned long pages = 0;
    while (a.palloc(&a, 1) != NULL) {
        pages++;
    }
    printf("%lu of %zu pages\n", pages, bytes / PAGE);
    free(memory);
    return pages == bytes / PAGE && pageyard_engine_delete(a.engine) == PAGEYARD_ERROR_OK ? 0 : 1;
}
