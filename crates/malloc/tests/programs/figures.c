/* The figures that the library reports about its heap are correct: mallinfo2, malloc_info, malloc_usable_size and
 * malloc_trim. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { SHORT = 3000, LONG = 10 };
static char *blocks[SHORT], *longs[LONG];

static char text[1 << 20];

/* The figures of the text. */
struct reported {
    int heaps;
    /* The slabs with blocks of several classes. */
    size_t dissolved;
    size_t fast, fast_count, rest, rest_count, mapped, mapped_count, used, used_count, current, most;
    /* Sums over the heaps, and over `size` elements. */
    size_t sum_fast, sum_rest, sum_rest_count, sum_used, sum_mapped, sum_current, sizes_total, sizes_count, sizes_used;
};

static size_t attribute(const char *tag, const char *name) {
    char sought[32];
    snprintf(sought, sizeof sought, " %s=\"", name);
    const char *found = strstr(tag, sought);
    CHECK(found);
    char *end;
    size_t value = strtoull(found + strlen(sought), &end, 10);
    CHECK(*end == '"');
    return value;
}

static int has(const char *tag, const char *part) { return strstr(tag, part) != NULL; }

static void add_element(struct reported *reported, const char *tag, int in_heap) {
    if (!strncmp(tag, "heap ", 5)) {
        reported->heaps++;
    } else if (!strncmp(tag, "size ", 5)) {
        size_t from = attribute(tag, "from"), to = attribute(tag, "to");
        size_t total = attribute(tag, "total"), count = attribute(tag, "count");
        CHECK(from <= to && total >= from * count && total <= to * count);
        reported->sizes_total += total;
        reported->sizes_count += count;
        if (has(tag, "slabs=")) {
            CHECK(attribute(tag, "slabs") > 0);
            reported->sizes_used += attribute(tag, "used") * from;
            if (from != to) reported->dissolved = attribute(tag, "slabs");
        }
    } else if (has(tag, "total type=")) {
        size_t size = attribute(tag, "size"), count = attribute(tag, "count");
        CHECK((size == 0) == (count == 0) || has(tag, "rest"));
        if (has(tag, "\"fast\"")) {
            *(in_heap ? &reported->sum_fast : &reported->fast) += size;
            if (!in_heap) reported->fast_count += count;
        }
        if (has(tag, "\"rest\"")) {
            *(in_heap ? &reported->sum_rest : &reported->rest) += size;
            *(in_heap ? &reported->sum_rest_count : &reported->rest_count) += count;
        }
        if (has(tag, "\"mmap\"")) {
            *(in_heap ? &reported->sum_mapped : &reported->mapped) += size;
            if (!in_heap) reported->mapped_count += count;
        }
        if (has(tag, "\"used\"")) {
            *(in_heap ? &reported->sum_used : &reported->used) += size;
            if (!in_heap) reported->used_count += count;
        }
    } else if (has(tag, "system type=\"current\"")) {
        *(in_heap ? &reported->sum_current : &reported->current) += attribute(tag, "size");
    } else if (has(tag, "system type=\"max\"")) {
        reported->most = attribute(tag, "size");
    }
}

/* Parses the text: elements that are properly nested, with nothing between them. */
static struct reported read_text(void) {
    struct reported reported = {0};
    const char *open[8];
    int depth = 0, roots = 0;
    for (char *at = text; *at;) {
        if (*at == '\n') {
            at++;
            continue;
        }
        CHECK(*at == '<');
        char *tag = at + 1, *end = strchr(tag, '>');
        CHECK(end);
        *end = 0;
        at = end + 1;
        int quotes = 0;
        for (char *letter = tag; *letter; letter++) {
            CHECK(*letter != '<');
            quotes += *letter == '"';
        }
        CHECK(quotes % 2 == 0);
        if (*tag == '/') {
            CHECK(depth > 0 && strlen(tag + 1) == strcspn(open[depth - 1], " "));
            CHECK(!strncmp(tag + 1, open[depth - 1], strlen(tag + 1)));
            depth--;
            continue;
        }
        CHECK(depth > 0 || (roots++ == 0 && !strcmp(tag, "malloc version=\"1\"")));
        add_element(&reported, tag, depth > 1);
        if (end[-1] != '/') {
            CHECK(depth < 8);
            open[depth++] = tag;
        }
    }
    CHECK(depth == 0 && roots == 1);
    return reported;
}

static struct reported information(void) {
    static char buffer[1 << 16];
    memset(text, 0, sizeof text);
    FILE *file = tmpfile();
    CHECK(file && setvbuf(file, buffer, _IOFBF, sizeof buffer) == 0);
    struct mallinfo2 before = mallinfo2();
    errno = 0;
    CHECK(malloc_info(0, file) == 0 && errno == 0);
    struct mallinfo2 after = mallinfo2();
    CHECK(!memcmp(&before, &after, sizeof before));
    CHECK(fflush(file) == 0);
    rewind(file);
    CHECK(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    struct reported reported = read_text();

    CHECK(reported.current == before.arena && reported.used == before.uordblks && reported.fast == before.fsmblks);
    CHECK(reported.fast + reported.rest == before.fordblks);
    CHECK(reported.fast_count == before.smblks && reported.rest_count == before.ordblks);
    CHECK(reported.mapped == before.hblkhd && reported.mapped_count == before.hblks);
    CHECK(reported.current == reported.used + reported.fast + reported.rest);
    CHECK(reported.sum_current == reported.current && reported.sum_used == reported.used);
    CHECK(reported.sum_mapped == reported.mapped && reported.sum_fast == reported.fast);
    CHECK(reported.sum_rest == reported.rest && reported.sum_rest_count == reported.rest_count);
    CHECK(reported.sizes_total <= reported.fast + reported.rest);
    CHECK(reported.sizes_count == reported.fast_count + reported.rest_count);
    CHECK(reported.mapped_count ? reported.most == 0 : reported.most >= reported.current);
    CHECK(reported.sizes_used <= reported.used && reported.heaps >= 1);
    return reported;
}

static size_t usable(void *block, size_t wanted) {
    size_t length = malloc_usable_size(block);
    CHECK(length >= wanted);
    memset(block, 0xA5, length);
    return length;
}

/* All usable bytes of blocks are counted as used, and can be written to. */
static void usable_bytes_are_what_is_used(void) {
    struct mallinfo2 before = mallinfo2();
    size_t bytes = 0;
    for (int i = 0; i < SHORT; i++) bytes += usable(blocks[i] = malloc(100 + i % 700), 100 + i % 700);
    for (int i = 0; i < LONG; i++) bytes += usable(longs[i] = malloc(100000 + 7777 * i), 100000 + 7777 * i);
    static void *aligned[40];
    for (int i = 0; i < 40; i++) CHECK(posix_memalign(&aligned[i], (size_t)64 << i % 10, 10 + 3000 * i) == 0);
    for (int i = 0; i < 40; i++) bytes += usable(aligned[i], 10 + 3000 * i);
    struct mallinfo2 full = mallinfo2();
    CHECK(full.uordblks + full.hblkhd == before.uordblks + before.hblkhd + bytes);
    CHECK(full.arena == full.uordblks + full.fordblks);
    CHECK(full.keepcost <= full.fordblks && full.fsmblks <= full.fordblks);
    information();
    for (int i = 0; i < 40; i++) {
        bytes -= malloc_usable_size(aligned[i]);
        free(aligned[i]);
    }
    for (int i = 0; i < SHORT; i += 3) {
        bytes -= malloc_usable_size(blocks[i]);
        free(blocks[i]);
    }
    struct mallinfo2 some = mallinfo2();
    CHECK(some.uordblks + some.hblkhd == before.uordblks + before.hblkhd + bytes);
    struct reported reported = information();
    CHECK(reported.used_count + reported.mapped_count >= SHORT - SHORT / 3 + LONG);
    CHECK(malloc_usable_size(NULL) == 0);
}

static void *allocate_much(void *shared) {
    void **place = shared;
    for (int i = 0; i < 500; i++) place[i] = malloc(320);
    return NULL;
}

/* Blocks of threads that have ended count as used until they are freed. */
static void blocks_of_other_threads_are_counted(void) {
    static void *theirs[500];
    pthread_t thread;
    struct mallinfo2 before = mallinfo2();
    CHECK(pthread_create(&thread, NULL, allocate_much, theirs) == 0 && pthread_join(thread, NULL) == 0);
    struct mallinfo2 full = mallinfo2();
    CHECK(full.uordblks + full.hblkhd >= before.uordblks + before.hblkhd + 500 * 320);
    information();
    size_t bytes = 0;
    for (int i = 0; i < 500; i++) bytes += malloc_usable_size(theirs[i]);
    for (int i = 0; i < 500; i++) free(theirs[i]);
    struct mallinfo2 empty = mallinfo2();
    CHECK(empty.uordblks + empty.hblkhd == full.uordblks + full.hblkhd - bytes);
    information();
}

static void information_is_refused(void) {
    errno = 0;
    CHECK(malloc_info(1, stderr) == EINVAL);
    FILE *full = fopen("/dev/full", "w");
    CHECK(full && setvbuf(full, NULL, _IONBF, 0) == 0);
    CHECK(malloc_info(0, full) == -1);
    fclose(full);
}

/* malloc_trim returns whether it gave memory back: not right after it has done so. */
static void trimming_says_what_it_did(int keeps) {
    malloc_trim(0);
    CHECK(malloc_trim(0) == 0);
    for (int i = 0; i < SHORT; i++) {
        if (i % 3) free(blocks[i]);
    }
    for (int i = 0; i < LONG; i++) free(longs[i]);
    CHECK(malloc_trim(0) == keeps);
    CHECK(malloc_trim(0) == 0);
    information();
}

/* Blocks have canaries, which are counted as used but are not usable. */
static int report_while_hardened(void) {
    for (int i = 0; i < SHORT; i++) CHECK(usable(blocks[i] = malloc(100 + i % 700), 100 + i % 700));
    for (int i = 0; i < LONG; i++) CHECK(usable(longs[i] = malloc(100000), 100000));
    struct reported full = information();
    CHECK(full.heaps == 1);
    static void *theirs[500];
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_much, theirs) == 0 && pthread_join(thread, NULL) == 0);
    full = information();
    CHECK(full.used >= SHORT * 400 + LONG * 100000 && full.used_count >= SHORT + LONG);
    for (int i = 0; i < SHORT; i++) free(blocks[i]);
    for (int i = 0; i < LONG; i++) free(longs[i]);
    CHECK(information().used + SHORT * 400 + LONG * 100000 <= full.used);
    puts("figures: ok");
    return 0;
}

/* A few blocks of each phase are left, between which the next finds room for its own sizes. */
static int report_after_phases(void) {
    static const struct { size_t least, most; } sizes[] = {
        {24, 40}, {300, 450}, {48, 96}, {600, 1000}, {100, 200}, {2000, 3000},
    };
    enum { PHASES = sizeof sizes / sizeof *sizes, BYTES = 6 << 20, PART = 25 };
    static char *left[PHASES * (BYTES / 24 / PART + 1)], *phase[BYTES / 24 + 1];
    size_t lefts = 0, used = 0;
    unsigned state = 1;
    for (int number = 0; number < PHASES; number++) {
        size_t count = 0;
        for (size_t sum = 0; sum < BYTES; count++) {
            state = state * 1103515245 + 12345;
            size_t size = sizes[number].least + (state >> 8) % (sizes[number].most - sizes[number].least);
            CHECK(phase[count] = malloc(size));
            sum += size;
        }
        for (size_t i = 0; i < count; i++) {
            if (i % PART) free(phase[i]);
            else left[lefts++] = phase[i];
        }
    }
    for (size_t i = 0; i < lefts; i++) used += malloc_usable_size(left[i]);
    struct reported full = information();
    CHECK(full.used >= used && full.used_count >= lefts);
    for (size_t i = 0; i < lefts; i++) free(left[i]);
    CHECK(malloc_trim(0) == 1);
    struct reported empty = information();
    CHECK(full.used - empty.used == used && full.used_count - empty.used_count == lefts);
    CHECK(empty.dissolved == 0);
    puts(full.dissolved ? "figures: dissolved" : "figures: not dissolved");
    return 0;
}

static int print_statistics(void) {
    for (int i = 0; i < 1000; i++) blocks[i] = malloc(300);
    longs[0] = malloc(100000);
    malloc_stats();
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "stats")) return print_statistics();
    if (count > 1 && !strcmp(arguments[1], "hardened")) return report_while_hardened();
    if (count > 1 && !strcmp(arguments[1], "phases")) return report_after_phases();
    usable_bytes_are_what_is_used();
    blocks_of_other_threads_are_counted();
    information_is_refused();
    trimming_says_what_it_did(!(count > 1 && !strcmp(arguments[1], "mapped")));
    puts("figures: ok");
    return 0;
}
