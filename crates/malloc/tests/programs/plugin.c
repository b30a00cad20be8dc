/* A library that allocates when it is loaded, for others and from others. */
#include <stdlib.h>
#include <string.h>

static char *own;

__attribute__((constructor)) static void load(void) { own = strdup("own"); }
__attribute__((destructor)) static void unload(void) { free(own); }

char *make(const char *text) { return strdup(text); }
void drop(char *text) { free(text); }
