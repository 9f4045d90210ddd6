/* read.c - prints each sample of a latent dataset, with its first caption and its tensors.
 *     cc read.c -o read $(pkg-config --cflags --libs vlat) \
 *         -Wl,-rpath,$(pkg-config --variable=libdir vlat) && ./read latents.lmdb */
#include <inttypes.h>
#include <stdio.h>
#include <vlat.h>

static int print_tensors(const vlat_dataset *d, int kind, const char *key, vlat_error *err)
{
    vlat_value *v;
    vlat_tensor t;
    int rc = vlat_value_open(&v, d, kind, key, VLAT_CHECK, err), n = rc ? 0 : vlat_value_count(v);
    for (int i = 0; i < n && !(rc = vlat_value_at(v, i, &t, sizeof t, err)); i++) {
        printf("    %s [", t.name);
        for (int k = 0; k < t.nd; k++)
            printf("%s%" PRId64, k ? "," : "", t.dim[k]);
        printf("]\n");
    }
    vlat_value_close(&v);
    return rc;
}

static int print_sample(const vlat_dataset *d, uint32_t i, vlat_error *err)
{
    vlat_sample s;
    vlat_record *r = NULL;
    int rc = vlat_dataset_sample(d, i, &s, sizeof s, err);
    if (!rc && !(rc = vlat_record_open(&r, d, i, err))) {
        const char *caption = vlat_record_caption(r, 0), *text = vlat_record_text(r, 0, 0);
        printf("%" PRIu32 "/%" PRIu32 "  %s\n", s.number, s.variant, caption ? caption : "");
        rc = print_tensors(d, VLAT_LATENT, s.latent, err);
        if (!rc && text)
            rc = print_tensors(d, VLAT_TEXT, text, err);
    }
    vlat_record_close(&r);
    return rc;
}

int main(int argc, char **argv)
{
    vlat_error err = { .text = "usage: read DATASET" };
    vlat_dataset *d = NULL;
    int rc = argc == 2 ? vlat_dataset_open(&d, argv[1], &err) : VLAT_EINVAL;
    for (uint32_t i = 0; !rc && i < vlat_dataset_count(d); i++)
        rc = print_sample(d, i, &err);
    vlat_dataset_close(&d);
    if (rc)
        fprintf(stderr, "read: %s\n", err.text);
    return rc ? 1 : 0;
}
