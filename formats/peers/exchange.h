/* exchange.h - converts latent datasets to the caches of other trainers, and caches to datasets.
 *
 * A format is a row of the table in caches/exchange.c with its name, its families and its
 * functions. An exporter walks the samples (exchange_each) and writes files into a new folder; an
 * importer reads files and puts items (exchange_put), from which a dataset is made. docs/export.md
 * lists the values that each format holds and loses. These functions are part of vlat and run in
 * one thread. The formats lie in caches/, and this folder has the parts that they share. */
#ifndef FORMATS_PEERS_EXCHANGE_H
#define FORMATS_PEERS_EXCHANGE_H

#include "common/families.h"
#include "formats/dataset/refs.h"
#include "formats/keys/keymap.h"
#include "formats/vlat/vlat.h"

enum { EXCHANGE_TEXTS = 4, EXCHANGE_CHANNELS = 128 };

/* ---- families ---- */

/* Constants of a VAE, by which raw latents z become a transformer's input x = (z - sub[c]) *
 * mul[c]. */
typedef struct exchange_norm {
    int channels;
    double scaling, shift;
    bool per_channel;                        /* mean and std are used, not scaling and shift
                                              * alone */
    double mean[EXCHANGE_CHANNELS], std[EXCHANGE_CHANNELS];
} exchange_norm;

/* Find a family for which other trainers have caches: its row has the facts that a cache lacks. */
const vc_family *exchange_family_find(const char *name);     /* NULL if unknown */
const vc_family *exchange_family_need(const char *name, vc_err *err);
/* True if the family of that name has f's text encoders, with the same classes and padding. */
bool exchange_family_same_texts(const char *name, const vc_family *f);

/* Fill n: from a manifest's `normalization`; with the fields of a VAE's config.json, or of the
 * folder or file with its weights, which may hold constants too, in place of those of n; from the
 * family's row. */
int exchange_norm_manifest(exchange_norm *n, const cJSON *manifest, vc_err *err);
int exchange_norm_config(exchange_norm *n, const char *path, vc_err *err);
void exchange_norm_family(exchange_norm *n, const vc_family *f);
/* Checks that n has constants where those of f's VAE lie in its weights; vae: what --vae named and
 * n was read from, or NULL. VC_EMISMATCH. */
int exchange_norm_check(const exchange_norm *n, const vc_family *f, const char *vae, vc_err *err);
/* Convert `count` values in place, which begin with the first value of channel c. */
void exchange_normalize(const exchange_norm *n, int c, float *x, size_t count);
void exchange_denormalize(const exchange_norm *n, int c, float *x, size_t count);

/* The sound of clips; see sound.h. */
typedef struct exchange_sound {
    int channels, bins;                      /* 0: the samples have none */
    double *mean, *std;                      /* [channels * bins] */
} exchange_sound;

/* ---- export and import ---- */

typedef struct exchange_sink exchange_sink;
typedef struct exchange {
    const vlat *v;
    const char *format;                      /* the peer's name */
    const char *dir;                         /* export: the new folder; import: the path to read */
    exchange_norm norm;                      /* the dataset's constants */
    exchange_sound sound;                    /* and those of its sound */
    const vc_family *family;                 /* NULL: a family that is not in the table */
    const char *pipeline;                    /* import: the class of the family's pipeline that has
                                              * the texts; NULL: the first */
    bool normalized;                         /* latents in the peer's files are normalised */
    uint64_t no_conditions;                  /* conditions that were left out */
    /* export */
    const vf_dataset *d;
    const cJSON *manifest;
    uint64_t no_captions;                    /* captions after the first that were left out */
    vf_keymap written;                       /* names of values that have their own file by now */
    /* export and import: name -> number of samples, for files with more than one sample */
    cJSON *files;
    /* import */
    exchange_sink *sink;
    const char *note_dir;                    /* path from dir to the export's note; NULL: dir */
    int64_t samples;                         /* number in the note; -1: there is no note */
    char *root;                              /* root of the exported dataset, from the note */
    uint64_t lacks;                          /* with --allow_partial: missing parts so far */
    uint64_t sound_cut;                      /* sounds whose frame behind the clip was left out */
} exchange;

typedef struct exchange_format {
    const char *name;                        /* name that the user types */
    const char *source;                      /* the trainer's name, for manifests */
    const char *about;
    /* The families: rows of layout_size bytes that begin with a family's name and describe the
     * peer's files of this family, which may have several rows that follow one another; ended by a
     * NULL name. NULL: the format has any family. */
    const void *layouts;
    size_t layout_size;
    const char *family;                      /* import: default, if --family and files name none */
    bool normalized;                         /* latents are normalised, unless --space is given */
    bool whole;                              /* the format carries the whole dataset unchanged */
    int (*write)(exchange *x, vc_err *err);  /* NULL: the format can only be imported */
    int (*read)(exchange *x, vc_err *err);
    const char *note_dir;                    /* path from the imported folder to the note's folder;
                                              * NULL: they are the same */
} exchange_format;

/* Returns the first row of a family; NULL: the peer does not have this family, or has any. */
const void *exchange_layout(const exchange_format *f, const char *family);
/* Returns the family of row i of f's layouts; NULL: there are no more rows. */
const char *exchange_layout_name(const exchange_format *f, size_t i);
extern const char *const exchange_only_cogvideox[];  /* layouts of peers that only have CogVideoX */

extern const exchange_format exchange_safetensors, exchange_webdataset, exchange_musubi,
    exchange_finetrainers, exchange_causvid, exchange_ttt, exchange_diffsynth, exchange_cogvideo,
    exchange_factory, exchange_kohya, exchange_ltx_trainer;
#ifdef VLT_SQLITE
extern const exchange_format exchange_dpipe;
#endif

/* Writes n bytes to dir/name and makes the folders in the name. The file becomes durable at the end
 * of the export. */
int exchange_write(const char *dir, const char *name, const void *data, size_t n, vc_err *err);
/* Lists the names in a folder that end in `ending`, sorted as text. VC_ENOENT: no such folder. */
int exchange_list(vc_list *names, const char *dir, const char *ending, vc_err *err);
/* Adds the names of the folder DIR/SUB, if there is one, as SUB + name, and sorts all by the part
 * after their last '/'. SUB ends in '/'. */
int exchange_list_more(vc_list *names, const char *dir, const char *sub, const char *ending,
                       vc_err *err);
void exchange_list_free(vc_list *names);
/* Parses two numbers in n characters and nothing else: "0832x0480", "00000-081". */
bool exchange_two_numbers(const char *s, size_t n, char between, int64_t *a, int64_t *b);
int exchange_stopped(vc_err *err);

/* ---- export ---- */

typedef struct exchange_sample {
    uint32_t i;                              /* index in the dataset */
    const vf_entry *e;
    const cJSON *record;
    const char *caption;                     /* the first caption */
    vf_view mean, logvar;                    /* [C,f,h,w] raw; logvar.data may be NULL */
    bool drawn;                              /* mean is a draw from the posterior */
    int n_text;                              /* text encoders of the first caption */
    struct { vf_view embeds, pooled; } text[EXCHANGE_TEXTS];    /* data may be NULL */
    vf_safetensors *st[1 + EXCHANGE_TEXTS];  /* the values from which the views borrow */
} exchange_sample;

/* Adds the name of sample i to an error's text and returns rc. */
int exchange_of_sample(const exchange *x, uint32_t i, int rc, vc_err *err);
/* Calls fn for each sample, in order, and shows progress; an error names the sample. */
int exchange_each(exchange *x,
                  int (*fn)(exchange *x, const exchange_sample *s, void *arg, vc_err *err),
                  void *arg, vc_err *err);
/* Makes f32 latents for the peer's files (normalised if x->normalized; VC_EMISMATCH: the constants
 * are not known); the caller frees *out. */
int exchange_latent_f32(const exchange *x, const exchange_sample *s, float **out, vc_err *err);
/* Converts n values of v, from element `from` on, to type t. VC_ENUMERIC: a value beyond f16. */
int exchange_convert(void *dst, vc_dtype t, const vf_view *v, size_t from, size_t n, vc_err *err);
/* Makes raw moments, mean and logvar, of type t: [2C,f,h,w], or [f,2C,h,w] if frames_first. Without
 * a logvar its values are -30, a posterior of one point. The caller frees *out. */
int exchange_moments(const exchange_sample *s, vc_dtype t, bool frames_first, void **out,
                     vc_err *err);
/* The known frames of an image-to-video sample, as Wan's transformers read them. */
typedef struct exchange_known {
    vf_view clip;                            /* f32 [k+C,f,h,w] or [C,f,h,w]: the mask (1 = known),
                                              * then the mean of the clip whose other frames are
                                              * grey, normalised if x->normalized. data NULL: the
                                              * sample is of no image-to-video dataset */
    vf_view vision;                          /* CLIP's states [n,D]; data may be NULL */
    float *own;
    vf_safetensors *st[3];
} exchange_known;
/* Opens a sample's known frames, which no longer count as left out; masked: the mask is in the
 * clip. The caller closes *k, also after an error. */
int exchange_known_open(exchange_known *k, exchange *x, const exchange_sample *s, bool masked,
                        vc_err *err);
void exchange_known_close(exchange_known *k);
/* The reference pictures of a sample, in their order. */
typedef struct exchange_references {
    int n;
    vf_view view[VC_REFERENCES];             /* [C,1,h,w], f32, normalised if x->normalized */
    float *own[VC_REFERENCES];
} exchange_references;
/* Reads a sample's references, which no longer count as left out; a dataset that is of another
 * train_mode than edit has none. The caller closes *r, also after an error. */
int exchange_references_open(exchange_references *r, exchange *x, const exchange_sample *s,
                             vc_err *err);
void exchange_references_close(exchange_references *r);
/* Whether the dataset is one of edits, train_mode `edit`. */
bool exchange_edits(const exchange *x);
/* Counts the ones of a mask of ones followed by zeros; *rows is at least 1. */
int exchange_mask_rows(const vf_view *mask, int64_t *rows, vc_err *err);
/* Cut [n,D] to its first rows: to the ones of the mask [n]; to `rows` rows, at least 1; to the rows
 * before the zeros at the end. */
int exchange_trim_mask(vf_view *e, const vf_view *mask, vc_err *err);
void exchange_trim_rows(vf_view *e, int64_t rows);
void exchange_trim_zeros(vf_view *e);
/* Transposes [a,b,n] to [b,a,n]; elements have `size` bytes. */
void exchange_swap(void *dst, const void *src, size_t a, size_t b, size_t n, size_t size);
/* Returns a name that no other sample has: the stem of the sample's path, else STEM-NUMBER-VARIANT.
 * The caller frees it; NULL: out of memory. */
char *exchange_name(vf_keymap *names, const exchange_sample *s, vc_err *err);

/* ---- the note ----
 *
 * An export lists its contents in a note, vlat-export.json: {"format": "musubi", "samples": 40,
 * "root": "...", "files": {"shard-000000.tar": 20, ...}}. Trainers ignore this file. */

#define EXCHANGE_NOTE "vlat-export.json"
/* Writes the note of an export of `samples` samples as dir/name. */
int exchange_write_note(const exchange *x, const char *dir, const char *name,
                        uint32_t samples, vc_err *err);
/* Reads the note, if there is one; a note of another format is ignored. */
int exchange_read_note(exchange *x, vc_err *err);
/* Checks, before an import ends, that all samples of the note were imported. */
int exchange_check_note(exchange *x, vc_err *err);

/* ---- import ---- */

typedef struct exchange_item {
    const char *path;                        /* the peer's name of the sample */
    const char *caption;
    vf_view mean, logvar;                    /* [C,f,h,w] as in the peer's files; logvar.data may be
                                              * NULL */
    vf_view sound;                           /* [C,f,1,bins] of mean's kind; data may be NULL */
    int64_t sound_frames;                    /* that are no padding; 0: all */
    bool drawn;                              /* mean is a draw from the posterior */
    bool edit;                               /* the files are of a model that edits pictures */
    int n_references;
    vf_view reference[VC_REFERENCES];        /* [C,1,h,w] each, of mean's kind */
    int64_t source_w, source_h;              /* 0: not known */
    int64_t first, frames;                   /* pixel frames; frames 0: computed from the latents */
    double fps;                              /* of a clip; 0: not known */
    double weight;                           /* how often it counts in an epoch; 0: once */
    int n_text;
    struct {
        vf_view embeds, pooled;              /* [n,D], [P]; data may be NULL */
        int64_t length;                      /* rows with the peer's padding; 0: it does not pad */
    } text[EXCHANGE_TEXTS];
    int chunks;                              /* segments whose texts are joined; 0: one text */
    const struct exchange_item *more;        /* next caption: only caption, texts and more are
                                              * used */
} exchange_item;

/* Puts an item; values are copied. The first item makes the dataset: its channels, types and widths
 * go into the manifest, and those of the other items must be equal. */
int exchange_put(exchange *x, const exchange_item *item, vc_err *err);

/* Puts the empty prompt of encoder i, after the first item. */
int exchange_put_empty(const exchange *x, int i, const vf_view *embeds, const vf_view *pooled,
                       vc_err *err);

/* Sets the item's mean and logvar to views of moments [2C,f,h,w], or [f,2C,h,w] if frames_first.
 * The latter are copied to *own, which the caller frees; else *own is NULL. */
int exchange_split(const vf_view *moments, bool frames_first, exchange_item *item, void **own,
                   vc_err *err);
/* Reports a missing or damaged part: fails, or with --allow_partial warns and returns 0. */
int exchange_lack(exchange *x, vc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports a sample that could not be read in the same way; rc and err are those of the reading. */
int exchange_skip(exchange *x, int rc, vc_err *err);
/* Finishes the dataset and prints its size (VC_ENOENT: there were no items). */
int exchange_finish(exchange *x, vc_err *err);
void exchange_close(exchange *x);

/* ---- a dataset's own parts, for the formats that carry the whole dataset ---- */

/* Writes manifest.json, validation.jsonl and texts/KEY.safetensors of the prompts into x->dir. */
int exchange_write_frame(exchange *x, vc_err *err);
/* Calls fn for each value to which a record refers, with its role: "latent", a condition's role,
 * "text.0.0" (caption, encoder), "text.empty.0". */
typedef int (*exchange_ref_fn)(void *arg, const vf_ref *ref, const char *role, vc_err *err);
int exchange_refs(const cJSON *record, exchange_ref_fn fn, void *arg, vc_err *err);
/* Writes such a value to the file latents/KEY.safetensors or texts/KEY.safetensors in x->dir, once,
 * even if several samples and prompts have the value. */
enum { EXCHANGE_VALUE_NAME = 64 };
int exchange_write_value(exchange *x, const vf_ref *ref, vc_err *err);
/* Begins a dataset with the manifest.json in x->dir, and puts its prompts. */
int exchange_read_frame(exchange *x, vc_err *err);
bool exchange_has_value(const exchange *x, const vf_ref *ref);
/* Compares bytes with their checksum and puts them as this value. */
int exchange_put_value(exchange *x, const vf_ref *ref, const void *data, size_t n, vc_err *err);
/* Puts the value's file in x->dir, unless the dataset has the value. */
int exchange_put_file(exchange *x, const vf_ref *ref, vc_err *err);
int exchange_put_record(exchange *x, const cJSON *record, const void *thumb, size_t thumb_n,
                        vc_err *err);
/* Writes a record's file name, "000000000042-000", into buf. */
int exchange_stem(char buf[24], const cJSON *record, vc_err *err);
/* Calls fn for the object in each line of a .jsonl file. VC_EFORMAT "FILE: line 7: ...". */
int exchange_lines(const char *path, int (*fn)(void *arg, const cJSON *o, vc_err *err), void *arg,
                   vc_err *err);

#endif
