/* The version of this program, as it stands in metrics and in --version. */
#ifndef LS_BASE_VERSION_H
#define LS_BASE_VERSION_H

#define LS__VERSION "0.1.0"

#endif
