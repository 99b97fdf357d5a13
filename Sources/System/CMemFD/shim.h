#include <sys/vfs.h>

/* glibc shows memfd_create to _GNU_SOURCE only, which Swift's importer does not define. */
int memfd_create(const char *name, unsigned int flags);
