/* torch.h - what the formats of .pt files share. See exchange.h, pt.h */
#ifndef FORMATS_PEERS_TORCH_H
#define FORMATS_PEERS_TORCH_H

#include "formats/peers/exchange.h"
#include "formats/tensors/pt.h"

/* A dictionary being filled: room for what these files hold. Begins as { .n = 0 } and stays where
 * it is; keys and tensors' bytes are borrowed. */
enum { EXCHANGE_DICT = 12 };
typedef struct exchange_dict {
    vf_pt_value key[EXCHANGE_DICT], value[EXCHANGE_DICT];
    const vf_pt_value *item[2 * EXCHANGE_DICT];
    vf_view view[EXCHANGE_DICT];
    size_t n;
} exchange_dict;

vf_pt_value *exchange_dict_add(exchange_dict *d, const char *key, vf_pt_kind kind);
void exchange_dict_tensor(exchange_dict *d, const char *key, vf_view v);
vf_pt_value exchange_dict_value(const exchange_dict *d);           /* borrows d */

/* The .pt file dir/name of v. */
int exchange_write_pt(const char *dir, const char *name, const vf_pt_value *v, vc_err *err);

/* Opens DIR/NAME, which must be a tensor of nd dimensions; v borrows from *p. */
int exchange_open_tensor(vf_pt **p, const char *dir, const char *name, int nd, vf_view *v, vc_err *err);
/* The tensor of a key, of nd dimensions without its batch dimension of 1. */
int exchange_unbatched(const vf_pt_value *d, const char *key, int nd, vf_view *v, vc_err *err);
/* The number of a key; `otherwise` if there is none. */
int64_t exchange_int(const vf_pt_value *d, const char *key, int64_t otherwise);

/* How many of a folder's files are named PREFIX<number>ENDING, and their numbers, ascending;
 * malloc'ed. */
int exchange_numbers(int64_t **list, int *n, const char *dir, const char *prefix, const char *ending,
                  vc_err *err);
/* They are 0 to n - 1, as the trainers number them; else exchange_lack names the first that is missing. */
int exchange_check_numbers(exchange *x, const int64_t *list, int n, const char *dir, const char *prefix,
                        const char *ending, vc_err *err);

#endif
