#include "train/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

static volatile sig_atomic_t last_signal;

static void remember(int signal_number)
{
    last_signal = signal_number;
}

/* Once: the next one of its kind ends the process. */
static void catch_one(int signal_number, bool once)
{
    struct sigaction before;
    struct sigaction action = {.sa_handler = remember,
                               .sa_flags = SA_RESTART | (once ? (int)SA_RESETHAND : 0)};

    sigemptyset(&action.sa_mask);
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal_number, &action, NULL);
}

void ls__stop_catch(void)
{
    catch_one(SIGTERM, false);
    catch_one(SIGUSR1, false);
    catch_one(SIGUSR2, false);
    catch_one(SIGINT, true);
}

int ls__stop_signal(void)
{
    return last_signal;
}

const char *ls__stop_name(int signal_number)
{
    bool launched = getenv("LOCKSTEP_LAUNCHED") != NULL;

    switch (signal_number) {
    case SIGINT:
        return "SIGINT";
    case SIGUSR1:
        return launched ? "SIGTERM" : "SIGUSR1";
    case SIGUSR2:
        return launched ? "SIGINT" : "SIGUSR2";
    default:
        return "SIGTERM";
    }
}
