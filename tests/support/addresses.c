/* The host name "kafka.tst" with the addresses 127.0.0.2 and 127.0.0.1, in this order; loaded with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolver resolve = (resolver)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo *second, *last;
    if (!host || strcmp(host, "kafka.tst"))
        return resolve(host, service, hints, found);
    int error = resolve("127.0.0.2", service, hints, found);
    if (error || (error = resolve("127.0.0.1", service, hints, &second)))
        return error;
    for (last = *found; last->ai_next; last = last->ai_next)
        ;
    last->ai_next = second;
    return 0;
}
