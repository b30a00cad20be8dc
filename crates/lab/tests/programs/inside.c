/* inside COUNT [FILE]: requests that many blocks, over half a second. Makes FILE after the first of them. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile block;

int main(int count, char **arguments) {
    int blocks = atoi(arguments[1]) / 25;
    for (int round = 0; round < 25; round++) {
        for (int i = 0; i < blocks; i++) {
            block = malloc(77);
        }
        if (round == 0 && count > 2) close(open(arguments[2], O_CREAT | O_WRONLY, 0600));
        usleep(20000);
    }
    return 0;
}
