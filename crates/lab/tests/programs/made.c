/* Makes code as a just-in-time compiler does, names it in a map of perf, and allocates in it; prints its number.
   What comes before the name in the map: nothing (first), 1,100,000 other names (many), or a hole of 1.5 GiB (hole). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

static void *volatile kept[100];
static int count;

__attribute__((noinline)) static void allocates(void)
{
    kept[count++] = malloc(5555);
}

int main(int argc, char **argv)
{
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    memcpy(page + 64, code, sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = argc > 1 ? fopen(path, "w") : NULL;
    if (map && strcmp(argv[1], "many") == 0)
        for (long i = 1; i <= 1100000; i++)
            fprintf(map, "%lx 10 other\n", i * 16);
    if (map && strcmp(argv[1], "hole") == 0) {
        fprintf(map, "1000 10 lost\n");
        fseek(map, 1536l << 20, SEEK_SET);
        fputs("\n", map);
    }
    if (map) {
        fprintf(map, "%lx %zx JS:~handler /home/me/app.js:7:3\n", (unsigned long)(page + 64), sizeof code);
        fclose(map);
    }
    for (int i = 0; i < 50; i++)
        ((void (*)(void (*)(void)))(page + 64))(allocates);
    printf("%d\n", (int)getpid());
    return 0;
}
