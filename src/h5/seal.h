/* The seal of a file: its first 512 bytes, four lines of text padded with spaces.
 *
 *     LOCKSTEP
 *     version 1
 *     length 1234567
 *     xxh3-128 0123456789abcdef0123456789abcdef
 *
 * `length` counts the whole file, the digest covers all bytes after the seal. `head -n 4 FILE`
 * shows it; it finds damage, and is no protection against someone who means harm. */
#ifndef LS_H5_SEAL_H
#define LS_H5_SEAL_H

#include <stdbool.h>

#include "lockstep/status.h"

enum { LS__SEAL_SIZE = 512 };

/* Writes the seal over the first 512 bytes of a finished file. */
ls_status ls__seal_write(const char *path);

/* Whether the file begins like a sealed one, whatever follows. */
ls_status ls__seal_present(const char *path, bool *present);

/* Reads the whole file. LS_BAD_INPUT, saying which, where it has no seal, is shorter or longer than
 * its seal says, or holds other bytes. */
ls_status ls__seal_verify(const char *path);

#endif
