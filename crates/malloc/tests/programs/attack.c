/* Commits the attack named by its argument. Prints "went on" if the attack has succeeded and "foiled" if it had no
 * effect. A heap that detects the attack ends the process before. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *volatile sink; /* hides values from the compiler's analysis */

static char *hidden(void *p)
{
    sink = p;
    return sink;
}

static void write_to(char *from, char *to)
{
    for (char *at = from; at < to; at += 16) *(char *volatile *)at = (char *)0x4141414141414141;
}

/* Overflows a long block, which has pages of its own, into the blocks behind it. */
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

/* Overflows a block of 64 bytes further than any slab reaches. */
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

/* Writes one byte too much: the 0 at the end of a string. */
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

/* Frees another block between the two frees, so that the block is in a list twice and gets two owners later. */
static int free_twice_apart(void)
{
    char *first = hidden(malloc(100)), *second = hidden(malloc(100)), *seen[3];
    free(first);
    free(second);
    free(hidden(first));
    for (int i = 0; i < 3; i++) seen[i] = hidden(malloc(100));
    return seen[0] == seen[2];
}

/* Frees a block again after another owner has allocated it, which loses it. */
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

/* As free_from_another, after many other frees. */
static int free_from_another_later(void)
{
    char *block = hidden(malloc(100));
    free(block);
    for (int i = 0; i < 500; i++) free(hidden(malloc(100)));
    return free_from_another();
}

static uintptr_t target[8] __attribute__((aligned(16)));

/* Makes the link of a free block lead to memory of the attacker's choice, with or without the key that links are
 * encoded with. */
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

/* Flips one bit of the links in the blocks that were freed first. These have gone from the thread cache to their
 * slabs by then; the pages stay, as a few blocks of each are in use. */
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

/* Predicts the address of the next block from the two before. */
static int predict(void)
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

/* Prints the distance of the heap from the C library in GiB. */
static int print_distance(void)
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
             : !strcmp(attack, "predict") ? predict()
             : !strcmp(attack, "print-distance") ? print_distance()
             : -1;
    if (done < 0) return 2;
    puts(done ? "went on" : "foiled");
    return 0;
}
