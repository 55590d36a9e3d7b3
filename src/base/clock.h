/* Time as seconds in a double. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

/* Seconds since some fixed moment; never runs backwards. */
double ls__clock_seconds(void);

#endif
