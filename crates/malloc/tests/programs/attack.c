/* Commits the attack named by its argument. It says "went on" if the attack did what it was to do, and "foiled" if nothing came of it;
   a heap that notices ends the process before either. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *volatile sink; /* keeps the compiler from seeing what is done */

static char *hidden(void *p)
{
    sink = p;
    return sink;
}

static void write_to(char *from, char *to)
{
    for (char *at = from; at < to; at += 16) *(char *volatile *)at = (char *)0x4141414141414141;
}

/* From one block of its own pages over those behind it. */
static int over_long_blocks(void)
{
    char *blocks[16], *first = (char *)UINTPTR_MAX;
    for (int i = 0; i < 16; i++) {
        blocks[i] = malloc(100000);
        if (blocks[i] < first) first = blocks[i];
    }
    write_to(hidden(first), first + 300000);
    return 1;
}

/* From a block of 64 bytes over all that lies behind it, further than any slab reaches. */
static int over_slabs(void)
{
    char *first = (char *)UINTPTR_MAX;
    for (int i = 0; i < 5000; i++) {
        char *block = malloc(50);
        if (block < first) first = block;
    }
    write_to(hidden(first), first + (80 << 10));
    return 1;
}

/* One byte too much, the 0 at a text's end. */
static int byte_over(size_t size, int resized)
{
    char *block = hidden(malloc(size));
    block[size] = 0;
    if (resized) return realloc(block, size + 100000) != NULL;
    free(block);
    return 1;
}

static void use_up(size_t size)
{
    for (int i = 0; i < 3000; i++) {
        char *block = malloc(size);
        free(hidden(block));
    }
    for (int i = 0; i < 6000; i++) hidden(malloc(size));
}

static int write_after_free(void)
{
    char *block = hidden(malloc(100));
    free(block);
    block[20] = 1;
    use_up(100);
    return 1;
}

static int write_to_freed_long_block(void)
{
    char *block = hidden(malloc(200000));
    free(block);
    block[70000] = 1;
    return 1;
}

static int read_after_free(void)
{
    char *block = hidden(malloc(100));
    strcpy(block + 32, "secret");
    free(block);
    return !strcmp(block + 32, "secret");
}

static int free_twice(size_t size)
{
    char *block = hidden(malloc(size));
    free(block);
    free(hidden(block));
    return 1;
}

/* Another free between the two, so that the block is in a list twice, and later two owners have it. */
static int free_twice_apart(void)
{
    char *first = hidden(malloc(100)), *second = hidden(malloc(100)), *seen[3];
    free(first);
    free(second);
    free(hidden(first));
    for (int i = 0; i < 3; i++) seen[i] = hidden(malloc(100));
    return seen[0] == seen[2];
}

/* The second free comes when the block has another owner, who loses it. */
static int free_from_another(void)
{
    char *block = hidden(malloc(100)), *owners[4];
    free(block);
    for (int i = 0; i < 4; i++) owners[i] = hidden(malloc(100));
    free(hidden(block));
    char *thief = hidden(malloc(100));
    for (int i = 0; i < 4; i++)
        if (owners[i] == thief) return 1;
    return 0;
}

/* The same, when many others have been freed meanwhile. */
static int free_from_another_later(void)
{
    char *block = hidden(malloc(100));
    free(block);
    for (int i = 0; i < 500; i++) free(hidden(malloc(100)));
    return free_from_another();
}

static uintptr_t target[8] __attribute__((aligned(16)));

/* The link of a free block is made to lead to memory of the attacker's choice, by who knows what links are written with or does not. */
static int forge_link(uintptr_t key)
{
    char *first = hidden(malloc(100)), *second = hidden(malloc(100));
    free(first);
    free(second);
    *(volatile uintptr_t *)second = (uintptr_t)target ^ key;
    for (int i = 0; i < 3; i++)
        if (hidden(malloc(100)) == (char *)target) return 1;
    return 0;
}

static int forge_link_with_key(void)
{
    char *first = hidden(malloc(200)), *second = hidden(malloc(200));
    free(first);
    free(second);
    return forge_link(*(volatile uintptr_t *)second ^ (uintptr_t)first);
}

/* One bit of what is written in the blocks freed first is turned: by then they have gone from the thread's list to their slabs,
   whose pages stay, for a few blocks do. */
static int bend_links(void)
{
    enum { MANY = 3000 };
    static char *blocks[MANY];
    for (int i = 0; i < MANY; i++) memset(blocks[i] = hidden(malloc(60)), 'x', 60);
    for (int i = 0; i < MANY; i++)
        if (i % 32) free(blocks[i]);
    for (int i = 1; i < MANY / 2; i += 32) *(volatile char *)blocks[i] ^= 0x10;
    for (int i = 0; i < MANY; i++) hidden(malloc(60));
    return 1;
}

/* Which block comes next is foretold from the two before. */
static int foretell(void)
{
    enum { MANY = 500 };
    char *before = hidden(malloc(100)), *last = hidden(malloc(100));
    int right = 0;
    for (int i = 0; i < MANY; i++) {
        char *next = hidden(malloc(100));
        right += next - last == last - before;
        before = last;
        last = next;
    }
    return right > MANY / 2;
}

/* How far the heap lies from the C library, in GiB. */
static int tell_distance(void)
{
    printf("%jd\n", (intmax_t)((uintptr_t)hidden(malloc(100000)) >> 30) - (intmax_t)((uintptr_t)&printf >> 30));
    return 1;
}

int main(int argc, char **argv)
{
    const char *attack = argc > 1 ? argv[1] : "";
    int done = !strcmp(attack, "over-long-blocks") ? over_long_blocks()
             : !strcmp(attack, "over-slabs") ? over_slabs()
             : !strcmp(attack, "byte-over") ? byte_over(24, 0)
             : !strcmp(attack, "byte-over-realloc") ? byte_over(24, 1)
             : !strcmp(attack, "byte-over-long") ? byte_over(100000, 0)
             : !strcmp(attack, "write-after-free") ? write_after_free()
             : !strcmp(attack, "write-to-freed-long") ? write_to_freed_long_block()
             : !strcmp(attack, "read-after-free") ? read_after_free()
             : !strcmp(attack, "free-twice") ? free_twice(100)
             : !strcmp(attack, "free-twice-long") ? free_twice(100000)
             : !strcmp(attack, "free-twice-apart") ? free_twice_apart()
             : !strcmp(attack, "free-from-another") ? free_from_another()
             : !strcmp(attack, "free-from-another-later") ? free_from_another_later()
             : !strcmp(attack, "forge-link") ? forge_link(0)
             : !strcmp(attack, "forge-link-with-key") ? forge_link_with_key()
             : !strcmp(attack, "bend-links") ? bend_links()
             : !strcmp(attack, "foretell") ? foretell()
             : !strcmp(attack, "tell-distance") ? tell_distance()
             : -1;
    if (done < 0) return 2;
    puts(done ? "went on" : "foiled");
    return 0;
}
