/* Prints what a process takes that has hardly allocated anything, in bytes unless another unit is named.
 *
 *   footprint code        the library's code that a program uses which allocates a single block
 *   footprint data        VmData
 *   footprint mappings    the number of mappings
 *   footprint tables      the processor's page tables
 *   footprint resident    resident memory
 *   footprint locked      resident memory after mlockall(MCL_CURRENT | MCL_FUTURE) and one malloc
 *   footprint within      as much memory as can be had after mlockall under a limit on locked memory
 *   footprint core        the length of a core file, in which the blocks must be found; computed from the mappings
 *                         where the system keeps no core files
 *   footprint thp         resident memory, if the system has huge pages for mappings that ask for them */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "process.h"

enum { SKIPPED = 77 };

/* In the executable these words have a zero between each two letters, and in blocks none. */
static const char spaced[] = "h\0e\0a\0p\0w\0r\0i\0g\0h\0t\0 \0c\0o\0r\0e";

static void use_a_little(void)
{
    void *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = malloc(16 + i * 20);
        CHECK(blocks[i]);
        memset(blocks[i], 1, 16 + i * 20);
    }
    for (size_t i = 0; i < 100; i += 2) free(blocks[i]);
}

static unsigned long status_bytes(const char *name)
{
    static char text[8192];
    int file = open("/proc/self/status", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    const char *line = strstr(text, name);
    CHECK(line);
    return strtoul(line + strlen(name), NULL, 10) << 10;
}

/* Returns the bytes of the library's pages of code that the first call of malloc in this process uses. The kernel maps
 * others around them, which are in memory too. */
static unsigned long used_code(FILE *mappings)
{
    char line[512];
    unsigned long from, to, kib, code = (unsigned long)dlsym(RTLD_DEFAULT, "malloc");
    int is_it = 0;
    while (fgets(line, sizeof line, mappings)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) is_it = from <= code && code < to;
        if (is_it && sscanf(line, "Referenced: %lu", &kib) == 1) return kib << 10;
    }
    CHECK(!"a mapping of malloc");
    return 0;
}

static unsigned long mappings(void)
{
    static char text[65536];
    unsigned long lines = 0;
    ssize_t length;
    int file = open("/proc/self/maps", O_RDONLY);
    CHECK(file >= 0);
    while ((length = read(file, text, sizeof text)) > 0)
        for (ssize_t at = 0; at < length; at++) lines += text[at] == '\n';
    close(file);
    return lines;
}

static void *use_in_thread(void *unused)
{
    use_a_little();
    return unused;
}

static unsigned long resident(void)
{
    pthread_t thread;
    use_a_little();
    CHECK(pthread_create(&thread, NULL, use_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return status_bytes("VmRSS:");
}

static int has_huge_pages(void)
{
    static char text[100];
    int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
    if (file < 0) return 0;
    CHECK(read(file, text, sizeof text - 1) > 0);
    close(file);
    return !strstr(text, "[never]");
}

/* Mappings that would fill the machine are counted, not locked. */
static unsigned long locked(void)
{
    enum { MOST = 1 << 30 };
    unsigned long writable = status_bytes("VmData:");
    if (writable > MOST) return writable;
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    free(malloc(100));
    return status_bytes("VmRSS:");
}

static unsigned long usable_when_locked(void)
{
    unsigned long sum = 0;
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    for (;; sum += 100000) {
        errno = 0;
        char *block = malloc(100000);
        if (!block) break;
        memset(block, 1, 100000);
    }
    CHECK(errno == ENOMEM);
    return sum;
}

/* Puts the words into blocks of three lengths. */
static void leave_marks(void)
{
    static const size_t lengths[] = {100, 20000, 300000};
    for (int i = 0; i < 3; i++) {
        char *block = malloc(lengths[i]);
        CHECK(block);
        for (size_t at = 0; at < sizeof spaced / 2; at++) block[at] = spaced[2 * at];
        block[lengths[i] - 1] = 1;
    }
}

/* Returns the bytes of the mappings that the kernel would write: private ones with a page of their own. */
static unsigned long would_be_length(void)
{
    FILE *mappings = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long length = 0, kib, own = 0, sum = 0;
    CHECK(mappings);
    while (fgets(line, sizeof line, mappings)) {
        if (sscanf(line, "Size: %lu", &kib) == 1) length = kib << 10;
        if (sscanf(line, "Anonymous: %lu", &kib) == 1) own = kib;
        if (strncmp(line, "VmFlags:", 8) || !own) continue;
        CHECK(!strstr(line, " dd"));
        sum += length;
    }
    fclose(mappings);
    return sum;
}

static int keeps_core_files(void)
{
    static char pattern[200];
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    int file = open("/proc/sys/kernel/core_pattern", O_RDONLY);
    if (file < 0 || read(file, pattern, sizeof pattern - 1) <= 0) return 0;
    close(file);
    return !strcmp(pattern, "core\n") && setrlimit(RLIMIT_CORE, &unlimited) == 0;
}

static int holds_marks(const char *core, size_t length)
{
    char words[sizeof spaced / 2];
    int found = 0;
    for (size_t at = 0; at < sizeof words; at++) words[at] = spaced[2 * at];
    for (const char *at = core; (at = memmem(at, length - (size_t)(at - core), words, sizeof words)); at++) found++;
    return found >= 3;
}

static unsigned long core_length(void)
{
    enum { MOST = 64 << 20 }; /* a longer one is not worth its time */
    char folder[] = "/tmp/footprint-XXXXXX", name[sizeof folder + 32];
    struct stat state;
    leave_marks();
    unsigned long length = would_be_length();
    if (length > MOST || !keeps_core_files()) return length;
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        abort();
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WCOREDUMP(status));
    strcpy(name, "core");
    if (stat(name, &state) != 0) snprintf(name, sizeof name, "core.%d", child);
    CHECK(stat(name, &state) == 0);
    int file = open(name, O_RDONLY);
    char *core = mmap(NULL, (size_t)state.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(core != MAP_FAILED);
    int is_whole = holds_marks(core, (size_t)state.st_size);
    CHECK(unlink(name) == 0 && rmdir(folder) == 0);
    CHECK(is_whole);
    return (unsigned long)state.st_size;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *what = argv[1];
    unsigned long figure = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(what, "thp") && !has_huge_pages()) {
        puts("skipped: this system has no transparent huge pages");
        return SKIPPED;
    }
    if (!strcmp(what, "code")) {
        int references = open("/proc/self/clear_refs", O_WRONLY);
        FILE *mappings = references >= 0 && write(references, "1", 1) == 1 ? fopen("/proc/self/smaps", "r") : NULL;
        if (!mappings) {
            puts("skipped: this system does not tell which pages were used");
            return SKIPPED;
        }
        figure = used_code(mappings);
    } else if (!strcmp(what, "data")) {
        use_a_little();
        figure = status_bytes("VmData:");
    } else if (!strcmp(what, "mappings")) {
        use_a_little();
        figure = mappings();
    } else if (!strcmp(what, "tables")) {
        use_a_little();
        figure = status_bytes("VmPTE:");
    } else if (!strcmp(what, "resident") || !strcmp(what, "thp")) figure = resident();
    else if (!strcmp(what, "locked")) figure = locked();
    else if (!strcmp(what, "within")) figure = usable_when_locked();
    else if (!strcmp(what, "core")) figure = core_length();
    else CHECK(!"a figure of the list");
    printf("%lu\n", figure);
    return 0;
}
