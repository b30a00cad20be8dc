/* inside COUNT: requests that many blocks, over half a second. */
#include <stdlib.h>
#include <unistd.h>

static void *volatile block;

int main(int count, char **arguments) {
    int blocks = atoi(arguments[1]) / 25;
    for (int round = 0; round < 25; round++) {
        for (int i = 0; i < blocks; i++) {
            block = malloc(77);
        }
        usleep(20000);
    }
    return 0;
}
