/* torch.h - functions that the formats of .pt files share. See exchange.h, pt.h */
#ifndef FORMATS_PEERS_TORCH_H
#define FORMATS_PEERS_TORCH_H

#include "formats/peers/exchange.h"
#include "formats/tensors/pt.h"

/* A dictionary that is being filled, with room for the keys of these files. It begins as { .n = 0 }
 * and must not be moved; keys and tensors' bytes are borrowed, or are of exchange_dict_alloc. */
enum { EXCHANGE_DICT = 16 };
typedef struct exchange_dict {
    vf_pt_value key[EXCHANGE_DICT], value[EXCHANGE_DICT];
    const vf_pt_value *item[2 * EXCHANGE_DICT];
    vf_view view[EXCHANGE_DICT];
    size_t n;
    void *own[3 * EXCHANGE_DICT];
    size_t n_own;
} exchange_dict;

/* Returns zeroed memory that exchange_dict_free frees; NULL: out of memory. */
void *exchange_dict_alloc(exchange_dict *d, size_t n);
void exchange_dict_free(exchange_dict *d);

vf_pt_value *exchange_dict_add(exchange_dict *d, const char *key, vf_pt_kind kind);
void exchange_dict_tensor(exchange_dict *d, const char *key, vf_view v);
/* Adds v with data of its type, whose size follows from its dimensions. */
void exchange_dict_view(exchange_dict *d, const char *key, vf_view v, const void *data);
vf_pt_value exchange_dict_value(const exchange_dict *d);           /* borrows d */

/* Writes v to the .pt file dir/name. */
int exchange_write_pt(const char *dir, const char *name, const vf_pt_value *v, vc_err *err);

/* Opens DIR/NAME, which must be a tensor of nd dimensions; v borrows from *p. */
int exchange_open_tensor(vf_pt **p, const char *dir, const char *name, int nd, vf_view *v,
                         vc_err *err);
/* Gets the tensor of a key without its batch dimension of 1, which leaves nd dimensions. */
int exchange_unbatched(const vf_pt_value *d, const char *key, int nd, vf_view *v, vc_err *err);
/* Make a still's [C,h,w] of [C,1,h,w], and the reverse. */
void exchange_drop_frames(vf_view *v);
void exchange_add_frames(vf_view *v);
/* Returns the number of a key, or `otherwise` if the dictionary has no such number. */
int64_t exchange_int(const vf_pt_value *d, const char *key, int64_t otherwise);

/* Lists the numbers of a folder's files named PREFIX<number>ENDING, ascending; the caller frees
 * *list. */
int exchange_numbers(int64_t **list, int *n, const char *dir, const char *prefix,
                     const char *ending, vc_err *err);
/* Checks that the numbers are 0 to n - 1, as the trainers number files; else exchange_lack names
 * the first missing one. */
int exchange_check_numbers(exchange *x, const int64_t *list, int n, const char *dir,
                           const char *prefix, const char *ending, vc_err *err);

#endif
