/* Being told to stop: SIGTERM and SIGINT (and SIGUSR1 and SIGUSR2, the two that mpirun hands on
 * without ending the job) ask a training run to finish its step, save and end. */
#ifndef LS_TRAIN_STOP_H
#define LS_TRAIN_STOP_H

/* From here on those signals are remembered instead of ending the process; those that were ignored
 * stay ignored. A second SIGINT ends it all the same. */
void ls__stop_catch(void);

/* The signal that came last, or 0. This process's own: ranks agree on it in each step. */
int ls__stop_signal(void);

/* What a person calls it: "SIGTERM". Under our own launcher, which must send others in their place,
 * the name is that of the signal it got. */
const char *ls__stop_name(int signal_number);

#endif
