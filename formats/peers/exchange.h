/* exchange.h - latent datasets to and from the caches of other trainers.
 *
 * A format is a row of the table in exchange.c: its name, what it holds, how it is written and how it
 * is read. An exporter walks the samples (exchange_each) and writes files into a new folder; an
 * importer reads files and puts items (exchange_put), from which a dataset is made. docs/export.md says
 * what each format holds and what is lost. Part of vlat; one thread. */
#ifndef FORMATS_PEERS_EXCHANGE_H
#define FORMATS_PEERS_EXCHANGE_H

#include "common/families.h"
#include "formats/keys/keymap.h"
#include "formats/vlat/vlat.h"

enum { EXCHANGE_TEXTS = 4, EXCHANGE_CHANNELS = 128 };

/* ---- families ---- */

/* How raw latents z become what a transformer takes: x = (z - sub[c]) * mul[c]. */
typedef struct exchange_norm {
    int channels;
    double scaling, shift;
    bool per_channel;                        /* mean and std count */
    double mean[EXCHANGE_CHANNELS], std[EXCHANGE_CHANNELS];
} exchange_norm;

/* Of the families that other trainers keep caches of: what is known where a cache says nothing. */
const vc_family *exchange_family_find(const char *name);     /* NULL if unknown */
const vc_family *exchange_family_need(const char *name, vc_err *err);
/* Whether the family of that name has f's text encoders: the classes, and how they are padded. */
bool exchange_family_same_texts(const char *name, const vc_family *f);

/* From a manifest's `normalization`; what a VAE's config.json (or the folder it lies in) says over
 * what n has; from the table. */
int exchange_norm_manifest(exchange_norm *n, const cJSON *manifest, vc_err *err);
int exchange_norm_config(exchange_norm *n, const char *path, vc_err *err);
void exchange_norm_family(exchange_norm *n, const vc_family *f);
/* count values from the first of channel c on, in place. */
void exchange_normalize(const exchange_norm *n, int c, float *x, size_t count);
void exchange_denormalize(const exchange_norm *n, int c, float *x, size_t count);

/* ---- both ways ---- */

typedef struct exchange_sink exchange_sink;
typedef struct exchange {
    const vlat *v;
    const char *format;                      /* the peer's name */
    const char *dir;                         /* export: the new folder; import: what is read */
    exchange_norm norm;                         /* the dataset's constants */
    const vc_family *family;              /* NULL: one that is not in the table */
    bool normalized;                         /* latents in the peer's files */
    uint64_t no_conditions;                  /* conditions: left out */
    /* export */
    const vf_dataset *d;
    const cJSON *manifest;
    uint64_t no_captions;                    /* captions after the first: left out */
    vf_keymap written;                       /* names of values in files of their own */
    /* both: how many samples files of an export hold, by name, where more than one is in a file */
    cJSON *files;
    /* import */
    exchange_sink *sink;
    const char *note_dir;                    /* from dir to the export's note; NULL: dir itself */
    int64_t samples;                         /* that the note says; -1: there is no note */
    char *root;                              /* of the exported dataset, as the note says */
    uint64_t lacks;                          /* of --allow_partial: what was found missing */
} exchange;

typedef struct exchange_format {
    const char *name;                        /* as typed */
    const char *source;                      /* the trainer's name, for manifests */
    const char *about;
    /* Its families: rows of layout_size bytes that begin with a family's name and say what the peer
     * makes of it; ended by a NULL name. NULL: any family. */
    const void *layouts;
    size_t layout_size;
    const char *family;                      /* import's, unless --family or the files say another */
    bool normalized;                         /* what its latents are, unless --space says otherwise */
    bool whole;                              /* carries the dataset as it is, manifest and all */
    int (*write)(exchange *x, vc_err *err);     /* NULL: only read */
    int (*read)(exchange *x, vc_err *err);
    const char *note_dir;                    /* from the folder that an import is given to the note's;
                                              * NULL: the same */
} exchange_format;

/* The row of a family; NULL: the peer does not have it, or has any. */
const void *exchange_layout(const exchange_format *f, const char *family);
extern const char *const exchange_only_cogvideox[];  /* layouts of peers that have CogVideoX alone */

extern const exchange_format exchange_safetensors, exchange_webdataset, exchange_musubi, exchange_finetrainers,
    exchange_causvid, exchange_ttt, exchange_diffsynth, exchange_cogvideo, exchange_factory;
#ifdef VLT_SQLITE
extern const exchange_format exchange_dpipe;
#endif

/* Makes dir/name out of n bytes; folders that the name asks for are made. Nothing is durable before
 * the whole export is. */
int exchange_write(const char *dir, const char *name, const void *data, size_t n, vc_err *err);
/* Names in a folder that end in `ending`, sorted as text. VC_ENOENT: there is no such folder. */
int exchange_list(vc_list *names, const char *dir, const char *ending, vc_err *err);
void exchange_list_free(vc_list *names);
int exchange_stopped(vc_err *err);

/* ---- export ---- */

typedef struct exchange_sample {
    uint32_t i;                              /* its place in the dataset */
    const vf_entry *e;
    const cJSON *record;
    const char *caption;                     /* the first */
    vf_view mean, logvar;                    /* [C,f,h,w] raw: mean or sample; logvar.data NULL: none */
    bool drawn;                              /* mean is a sample of the posterior */
    int n_text;                              /* of the first caption */
    struct { vf_view embeds, pooled; } text[EXCHANGE_TEXTS];    /* data NULL: none */
    vf_safetensors *st[1 + EXCHANGE_TEXTS];     /* what the views borrow from */
} exchange_sample;

/* rc, and in an error's text the i-th sample in front. */
int exchange_of_sample(const exchange *x, uint32_t i, int rc, vc_err *err);
/* fn for each sample, in order, with progress; an error names the sample. */
int exchange_each(exchange *x, int (*fn)(exchange *x, const exchange_sample *s, void *arg, vc_err *err), void *arg,
               vc_err *err);
/* The latents as the peer's files have them (normalised if x->normalized), malloc'ed f32. */
int exchange_latent_f32(const exchange *x, const exchange_sample *s, float **out, vc_err *err);
/* n values of v from element `from` on as type t. VC_ENUMERIC: one beyond what f16 holds. */
int exchange_convert(void *dst, vc_dtype t, const vf_view *v, size_t from, size_t n, vc_err *err);
/* Mean and logvar as type t, raw, malloc'ed: [2C,f,h,w], or [f,2C,h,w] if frames_first. Without a
 * logvar -30 stands for it: a point. */
int exchange_moments(const exchange_sample *s, vc_dtype t, bool frames_first, void **out, vc_err *err);
/* Of a mask of ones followed by zeros: how many ones, at least 1. */
int exchange_mask_rows(const vf_view *mask, int64_t *rows, vc_err *err);
/* Keeps the first rows of [n,D]: those that the mask [n] lets through; the first `rows`, at least 1;
 * all but zeros at the end. */
int exchange_trim_mask(vf_view *e, const vf_view *mask, vc_err *err);
void exchange_trim_rows(vf_view *e, int64_t rows);
void exchange_trim_zeros(vf_view *e);
/* [a,b,n] -> [b,a,n], elements of `size` bytes. */
void exchange_swap(void *dst, const void *src, size_t a, size_t b, size_t n, size_t size);
/* A name for a sample that is in no other: the stem of its path, else stem-NUMBER. Malloc'ed. */
char *exchange_name(vf_keymap *names, const exchange_sample *s, vc_err *err);

/* ---- the note ----
 *
 * An export says what it holds, vlat-export.json: {"format": "musubi", "samples": 40, "root": "...",
 * "files": {"shard-000000.tar": 20, ...}}. The trainers look for names of their own and pass it by. */

#define EXCHANGE_NOTE "vlat-export.json"
/* Writes it, as dir/name, of so many samples. */
int exchange_note(const exchange *x, const char *dir, const char *name, uint32_t samples, vc_err *err);
/* Reads it, if it is there; a note of another format is passed by. */
int exchange_read_note(exchange *x, vc_err *err);
/* Before the end of an import: everything that the note names was there. */
int exchange_check_note(exchange *x, vc_err *err);

/* ---- import ---- */

typedef struct exchange_item {
    const char *path;                        /* what the peer calls it */
    const char *caption;
    vf_view mean, logvar;                    /* [C,f,h,w] as in the peer's files; logvar.data NULL:
                                              * none */
    bool drawn;                              /* mean is a draw from the posterior */
    int64_t source_w, source_h;              /* 0: not known */
    int64_t first, frames;                   /* pixel frames; frames 0: what the latents stand for */
    double fps;                              /* 0: not known */
    int n_text;
    struct {
        vf_view embeds, pooled;              /* [n,D], [P]; data NULL: none */
        int64_t length;                      /* rows with padding in the peer's files; 0: it pads nothing */
    } text[EXCHANGE_TEXTS];
    int chunks;                              /* texts are of so many segments in a row; 0: of one */
    const struct exchange_item *more;           /* a further caption: its caption, texts and more count */
} exchange_item;

/* The first item makes the dataset: its channels, types and widths are what the manifest says, and
 * every other one must agree. Values are copied. */
int exchange_put(exchange *x, const exchange_item *item, vc_err *err);

/* The empty prompt of encoder i, after the first item. */
int exchange_put_empty(const exchange *x, int i, const vf_view *embeds, const vf_view *pooled, vc_err *err);

/* Moments [2C,f,h,w], or [f,2C,h,w] if frames_first, as the item's mean and logvar: views, of *own
 * (malloc'ed) where they had to be put in order, else NULL. */
int exchange_split(const vf_view *moments, bool frames_first, exchange_item *item, void **own, vc_err *err);
/* Something is missing or damaged: an error, or with --allow_partial a warning, and 0. */
int exchange_lack(exchange *x, vc_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same of a sample that could not be read: rc of its reading, whose text is in err. */
int exchange_skip(exchange *x, int rc, vc_err *err);
/* Ends the dataset that items made (VC_ENOENT: there were none) and says so. */
int exchange_finish(exchange *x, vc_err *err);
void exchange_close(exchange *x);

/* ---- a dataset's own parts, for the formats that carry it whole ---- */

/* manifest.json, validation.jsonl and texts/KEY.safetensors of the prompts, in x->dir. */
int exchange_write_frame(exchange *x, vc_err *err);
/* fn for each value that a record refers to: "latents/KEY.safetensors" or "texts/KEY.safetensors", and
 * what it is to the sample: "latent", a condition's role, "text.0.0" (caption, encoder). */
typedef int (*exchange_ref_fn)(void *arg, const char *name, const char *role, vc_err *err);
int exchange_refs(const cJSON *record, exchange_ref_fn fn, void *arg, vc_err *err);
/* Such a value as a file in x->dir, once, however many samples and prompts refer to it. */
int exchange_write_value(exchange *x, const char *name, vc_err *err);
/* The bytes of such a value in the dataset, borrowed. */
int exchange_value(const exchange *x, const char *name, const void **data, size_t *n, vc_err *err);
/* Begins a dataset by the manifest.json in x->dir, and puts its prompts. */
int exchange_read_frame(exchange *x, vc_err *err);
bool exchange_has_value(const exchange *x, const char *name);
/* Puts bytes as the value of such a name, after comparing them with their checksum. */
int exchange_put_value(exchange *x, const char *name, const void *data, size_t n, vc_err *err);
/* The same of the file x->dir/name, unless the value is there already. */
int exchange_put_file(exchange *x, const char *name, vc_err *err);
int exchange_put_record(exchange *x, const cJSON *record, const void *thumb, size_t thumb_n, vc_err *err);
/* "000000000042-000" of a record, for names of files. */
int exchange_stem(char buf[24], const cJSON *record, vc_err *err);
/* Each line of a .jsonl file as an object. VC_EFORMAT "FILE: line 7: ...". */
int exchange_lines(const char *path, int (*fn)(void *arg, const cJSON *o, vc_err *err), void *arg,
                vc_err *err);

#endif
