/* streams.c - the standard streams and printable text; see streams.h */
#include "common/os/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/secrets.h"
#include "common/base/utf8.h"

void vc_std_open(void)
{
    /* open() returns the lowest free number */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            return;
}

int vc_std_flush(FILE *out, vc_err *err)
{
    errno = 0;
    if (!fflush(out) && !ferror(out))
        return 0;
    return errno ? vc_fail_errno(err, "stdout")
                 : vc_fail(err, VC_EIO, "stdout: a write to it failed");
}

size_t vc_show(char shown[VC_SHOWN], const char *s)
{
    uint32_t c;
    size_t n = vc_utf8(s, &c);
    if (*s == '\n' || *s == '\t')
        strcpy(shown, " ");
    else if (n && vc_utf8_plain(c))
        snprintf(shown, VC_SHOWN, "%.*s", (int)n, s);
    else if (n > 2)
        snprintf(shown, VC_SHOWN, "\\u%04x", (unsigned)c & 0xffff);
    else
        snprintf(shown, VC_SHOWN, "\\x%02x", n ? (unsigned)c & 0xff : (unsigned char)*s);
    return n ? n : 1;
}

void vc_print(FILE *f, const char *text, int max)
{
    char shown[VC_SHOWN];
    for (int i = 0; *text; i++) {
        if (max && i == max) {
            fputs("...", f);
            return;
        }
        text += vc_show(shown, text);
        fputs(shown, f);
    }
}

void vc_std_complain(const char *program, const char *text, int rc)
{
    enum { LINE = 8192 };                        /* longer than any escaped text of a vc_err */
    char line[LINE];
    int n = snprintf(line, LINE / 8, "%s: ", program);
    char *shown = vc_without_secrets(*text ? text : vc_code_name(rc), false);

    for (const char *s = shown ? shown : "out of memory"; *s && n < LINE - VC_SHOWN - 1;) {
        s += vc_show(line + n, s);
        n += (int)strlen(line + n);
    }
    free(shown);
    line[n++] = '\n';
    fwrite(line, 1, (size_t)n, stderr);          /* one write, so that ranks' lines do not mix */
}
