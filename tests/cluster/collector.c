/* Runs a program whose output goes through a pipe to a collector of logs, which is a process of its own and can be ended. */
#include <unistd.h>

int main(int count, char **words) {
    int ends[2];
    char text[4096];
    ssize_t size;
    if (count < 2 || pipe(ends))
        return 2;
    if (fork() == 0) {
        close(ends[1]);
        while ((size = read(ends[0], text, sizeof text)) > 0)
            if (write(1, text, size) < 0)
                return 1;
        return 0;
    }
    close(ends[0]);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[1]);
    execv(words[1], words + 1);
    return 127;
}
