/* Holds the namespaces of a pod until it is told to end. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { exit(signal != SIGTERM && signal != SIGINT); }

int main(void) {
    signal(SIGTERM, end);
    signal(SIGINT, end);
    for (;;)
        if (waitpid(-1, NULL, 0) < 0)
            pause();
}
