/* record.h - a sample record as verify and the copies need it: the fields of the index and the keys
 * of all values to which it refers.
 *
 * A record as our writer makes it is read in one pass over its text, without a tree of JSON. Any
 * other text is parsed as vf_record_read does it, so that nothing is accepted, and no error
 * reported, that a tree would not give. */
#ifndef FORMATS_DATASET_RECORD_H
#define FORMATS_DATASET_RECORD_H

#include "formats/dataset/parts.h"
#include "formats/dataset/references.h"
#include "formats/dataset/refs.h"
#include "formats/json/scan.h"

enum { VF_BUCKET_KEY = 64 };                 /* bytes of a bucket's key, else a tree is made */

typedef struct vf_parsed {
    vf_record r;                             /* r.bucket is borrowed from here */
    vf_bytes text;                           /* borrowed; spans lie in it, or in json */
    cJSON *json;                             /* the tree, if the text needed one; else NULL */
    vf_span number;                          /* without a tree: `"sample":42,` or `,"sample":42` */
    vf_span references;                      /* without a tree: the list's text; n 0: none */
    vf_ref latent;
    vf_refs conditions, texts;               /* texts: the keys of all captions, in order,
                                              * and of the sample's own empty prompt, which counts
                                              * as a caption here */
    int *caption, captions, room;            /* of each caption: its number of keys, or -1 */
    char bucket[VF_BUCKET_KEY];
} vf_parsed;

/* Reads a `sample` pair into s, which was zero or read before. Errors as of vf_record_read. */
int vf_parsed_read(vf_parsed *s, vf_bytes key, vf_bytes value, vc_err *err);
void vf_parsed_free(vf_parsed *s);
/* Hash of the record without its number: equal samples have equal hashes. */
int vf_parsed_content(const vf_parsed *s, vf_key *k, vc_err *err);

/* Reads the sizes of the record's reference pictures. Errors as of vf_references_read. */
int vf_parsed_references(const vf_parsed *s, vf_references *r, vc_err *err);

/* Finds the record of sample i and reads it, as vf_dataset_sample does. */
int vf_dataset_parsed(const vf_dataset *d, uint32_t i, vf_parsed *s, vc_err *err);

/* Writes a record whose values were put before: its text, with the given number. */
int vf_writer_put_parsed(vf_writer *w, uint32_t number, const vf_parsed *s, const void *thumb,
                        size_t thumb_n, vc_err *err);

#endif
