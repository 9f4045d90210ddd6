/* job.c - a sample in the pipeline; see encode.h */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/encode/encode.h"
#include "precompute/media/write.h"

void prep_job_begin(prep_job *j, const vprep_item *it)
{
    memset(j, 0, offsetof(prep_job, clip.choice.draws));
    j->item = it;
}

void prep_job_settle(const vprep *p, prep_job *j)
{
    unsigned values = vprep_values(p, &p->list.meta.rows[j->item->row]);

    j->frames = j->want_thumb ? 1 : 0;
    for (int v = 0; v < VC_ROLES; v++) {
        if (values & VC_ROLE_BIT(v))
            j->key[v] = vprep_value_key(p, j->item, &j->clip, v);
        const int frames = vprep_value_frames(p, j->item, &j->clip, v);
        if (j->need & VC_ROLE_BIT(v) && frames > j->frames)
            j->frames = frames;
    }
}

int prep_job_references(const vprep *p, prep_job *j, vc_err *err)
{
    int rc = 0;

    for (int k = 0; k < VC_REFERENCES && !rc; k++) {
        const vf_beside which = (vf_beside)(VF_REFERENCE + k);
        if (!(j->need & VC_ROLE_BIT(VC_ROLE_REFERENCE + k)))
            continue;
        vprep_clip *clip = j->reference[k].clip = calloc(1, sizeof *clip);
        rc = clip ? vprep_reference_clip(p, j->item, which, &j->clip.choice, clip, err)
                  : vc_no_memory(err);
        if (!rc)
            rc = prep_frames_open(&j->reference[k].pixels, p, j->item, clip, which, 1, err);
    }
    return rc;
}

/* Adds the wave of the sound to the thumbnail, as a comment behind the JFIF header. */
static int add_wave(prep_job *j, vc_err *err)
{
    static const char name[] = "vlt wave";
    enum { LENGTH = 2 + sizeof name + sizeof j->sound.wave, MORE = 2 + LENGTH };
    const uint8_t head[] = { 0xff, 0xfe, LENGTH >> 8, LENGTH & 255 };
    const uint8_t *from = j->thumb;
    size_t at = 2;

    if (j->thumb_bytes > 6 && from[2] == 0xff && from[3] == 0xe0)
        at += 2 + (size_t)(from[4] << 8 | from[5]);
    uint8_t *to = at < j->thumb_bytes ? malloc(j->thumb_bytes + MORE) : NULL;
    if (!to)
        return vc_fail(err, VC_ENOMEM, "out of memory for a thumbnail");
    memcpy(to, from, at);
    memcpy(to + at, head, sizeof head);
    memcpy(to + at + sizeof head, name, sizeof name);
    memcpy(to + at + sizeof head + sizeof name, j->sound.wave, sizeof j->sound.wave);
    memcpy(to + at + MORE, from + at, j->thumb_bytes - at);
    free(j->thumb);
    j->thumb = to;
    j->thumb_bytes += MORE;
    return 0;
}

int prep_job_thumbnail(const vprep *p, prep_job *j, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    int side = (int)p->c.thumbnails, h, w;
    uint8_t *small = NULL, *first;

    if (!side || !j->want_thumb)
        return 0;
    int rc = prep_frames_rgb(&j->pixels, 0, &first, err);
    if (!rc)
        rc = media_shrink(&small, &h, &w, first, c->target_h, c->target_w, side, err);
    free(first);
    if (!rc)
        rc = media_jpeg(&j->thumb, &j->thumb_bytes, small, h, w, 85, err);
    if (!rc && j->sound.mel)
        rc = add_wave(j, err);
    free(small);
    return rc;
}

void prep_recent_add(prep_recent *r, const prep_job *j)
{
    r->job[j->turn % PREP_RECENT] = j;
    r->turn[j->turn % PREP_RECENT] = j->turn;
}

int prep_recent_copy(const prep_recent *r, prep_job *j, int v, uint64_t turn, vc_err *err)
{
    const prep_job *of = turn > j->turn && r->turn[turn % PREP_RECENT] == turn
                         ? r->job[turn % PREP_RECENT] : NULL;
    int u = 0;

    while (of && u < VC_ROLES &&
           !(of->value[u] && !memcmp(&of->key[u], &j->key[v], sizeof j->key[v])))
        u++;
    if (!of || u == VC_ROLES)
        return 0;
    j->value[v] = malloc(of->value_bytes[u]);
    if (!j->value[v])
        return vc_fail(err, VC_ENOMEM, "out of memory for a value of %zu bytes",
                       of->value_bytes[u]);
    memcpy(j->value[v], of->value[u], of->value_bytes[u]);
    j->value_bytes[v] = of->value_bytes[u];
    return 0;
}

const vb_choice *prep_job_size(const prep_job *j, vc_role role)
{
    const int k = vc_role_reference(role);
    return k < 0 ? &j->clip.choice : &j->reference[k].clip->choice;
}

size_t prep_job_pixels(const prep_job *j)
{
    size_t n = (size_t)j->pixels.count * j->pixels.bytes +
               (size_t)j->control.count * j->control.bytes +
               (size_t)j->filled.count * j->filled.bytes;
    for (int k = 0; k < VC_REFERENCES; k++)
        n += (size_t)j->reference[k].pixels.count * j->reference[k].pixels.bytes;
    return n;
}

bool prep_job_unread(const prep_job *j)
{
    bool failed = j->pixels.failed || j->control.failed || j->filled.failed;
    for (int k = 0; k < VC_REFERENCES; k++)
        failed |= j->reference[k].pixels.failed;
    return failed;
}

void prep_job_close(prep_job *j)
{
    prep_frames_close(&j->pixels);
    prep_frames_close(&j->control);
    prep_frames_close(&j->filled);
    for (int k = 0; k < VC_REFERENCES; k++)
        prep_frames_close(&j->reference[k].pixels);
}

void prep_job_free(prep_job *j)
{
    if (!j)
        return;
    vprep_clip_free(&j->clip);
    for (int v = 0; v < VC_ROLES; v++)
        free(j->value[v]);
    prep_job_close(j);
    for (int k = 0; k < VC_REFERENCES; k++) {
        if (j->reference[k].clip)
            vprep_clip_free(j->reference[k].clip);
        free(j->reference[k].clip);
    }
    free(j->loss_mask);
    free(j->sound.mel);
    free(j->thumb);
    free(j);
}
