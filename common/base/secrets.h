/* secrets.h - what messages and files may show of an address: https://user:***@host/path for
 * https://user:password@host/path?sig=key, and user:***@host:folder. */
#ifndef COMMON_BASE_SECRETS_H
#define COMMON_BASE_SECRETS_H

#include <stdbool.h>

/* Returns a copy of the text, which the caller frees, or NULL without memory. In each address with
 * "://" the password, or a user name that has none and may be a token, becomes ***, and the query
 * and the fragment are left out. `whole`: the text is one address, which may have blanks; else an
 * address ends at a blank, a quote, or a ':', ';', ',' or ')' before a blank. Other text stays. */
char *vc_without_secrets(const char *text, bool whole);
/* True if `where` has the form USER:PASSWORD@HOST:FOLDER (or HOST/FOLDER), which ssh lacks. */
bool vc_has_password(const char *where);

#endif
