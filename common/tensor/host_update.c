/* host_update.c - see host_update.h */
#include "common/tensor/host_update.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/os/threads.h"
#include "common/tensor/engine.h"
#include "common/tensor/host_grads.h"
#include "common/tensor/params.h"

enum { POOL = 1 << 20 };                       /* kernels of updates take nothing of it */

/* A trained parameter and its step. The tensors are the thread's own, which describe memory of the
 * host, so that others may change those that they were made of. */
typedef struct hosted {
    vt_tensor *copy;                           /* vt_param_hosted; NULL: the parameter is frozen */
    unsigned of;                               /* vt_param_changes of the values that it has */
    bool is;                                   /* it has values */
    bool due;                                  /* the step changes it */
    vt_opt_part part;
    vt_opt_step step;
    vt_tensor w, grad, state[VT_OPT_STATES];
} hosted;

struct vt_host_update {
    vt_ctx *g, *cpu;
    vt_params *p;
    vt_host_rule *rule;
    hosted *of;                                /* [params] */
    int *order, n, outside;                    /* [n] the trained ones: `outside` of them are of no
                                                * block, and come first; then block by block */
    float *staged;                             /* gradient of one of these; pinned */
    size_t bytes;
    int sent;                                  /* the first `sent` of the order are on the device,
                                                * or on the way there */
    bool started;
    pthread_t thread;
    pthread_mutex_t lock;                      /* guards what follows */
    pthread_cond_t begun, moved;
    int done;                                  /* the first `done` of the order are updated */
    bool ends;
};

static size_t bytes_of(const vt_tensor *t)
{
    return vc_dtype_bytes(t->dtype, (size_t)vt_count(t));
}

/* ---- the thread ---- */

static void update(const vt_host_update *h, int i)
{
    const hosted *a = &h->of[i];

    if (a->due)
        h->rule(h->cpu, &a->part, &a->step);
}

static void *work(void *arg)
{
    vt_host_update *h = arg;

    pthread_mutex_lock(&h->lock);
    while (!h->ends) {
        if (h->done == h->n) {
            pthread_cond_wait(&h->begun, &h->lock);
            continue;
        }
        const int i = h->order[h->done];
        pthread_mutex_unlock(&h->lock);
        update(h, i);
        pthread_mutex_lock(&h->lock);
        h->done++;
        pthread_cond_signal(&h->moved);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void wait_for(vt_host_update *h, int n)
{
    pthread_mutex_lock(&h->lock);
    while (h->done < n)
        pthread_cond_wait(&h->moved, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

/* Lets the thread update what follows the first `done`. */
static void go_on(vt_host_update *h, int done)
{
    pthread_mutex_lock(&h->lock);
    h->done = done;
    pthread_cond_signal(&h->begun);
    pthread_mutex_unlock(&h->lock);
}

/* ---- the device ---- */

static void send(vt_host_update *h, int i)
{
    vt_tensor *t = h->p->at[i]->t;
    hosted *a = &h->of[i];

    if (!a->due)
        return;
    h->g->be->move(h->g->dev, VT_PLACE_STATE, t->data, a->w.data, bytes_of(t));
    vt_param_changed(t);
    a->of = vt_param_changes(t);
    a->is = true;
    a->due = false;
}

/* Lets kernels that are queued from now on read the new values of the first n of the order. The
 * copies wait for no kernel, since the last one that read older values ran before the step. */
static void bring(vt_host_update *h, int n)
{
    if (h->sent >= n)
        return;
    wait_for(h, n);
    while (h->sent < n)
        send(h, h->order[h->sent++]);
    h->g->be->enter(h->g->dev, VT_PLACE_STATE);
}

static void enter_block(vt_ctx *g, int block)
{
    vt_host_update *h = g->update;
    int n = h ? h->sent : 0;

    if (!h)
        return;
    while (n < h->n && h->p->at[h->order[n]]->block <= block)
        n++;
    bring(h, n);
}

static void finish_all(vt_ctx *g)
{
    if (g->update)
        vt_host_update_finish(g->update);
}

static const vt_engine_part updating = { .enter = enter_block, .finish = finish_all };

/* ---- open, close ---- */

/* Lists the trained parameters in the order of their updates. */
static int put_in_order(vt_host_update *h, vc_err *err)
{
    int blocks = 0;

    h->order = calloc((size_t)h->p->n + 1, sizeof *h->order);
    if (!h->order)
        return vc_no_memory(err);
    for (int i = 0; i < h->p->n; i++)
        blocks = h->p->at[i]->block >= blocks ? h->p->at[i]->block + 1 : blocks;
    for (int b = -1; b < blocks; b++) {
        for (int i = 0; i < h->p->n; i++)
            if (h->p->at[i]->trained && h->p->at[i]->block == b)
                h->order[h->n++] = i;
        if (b < 0)
            h->outside = h->n;
    }
    h->sent = h->done = h->n;
    return 0;
}

static int make_copies(vt_host_update *h, vc_err *err)
{
    vt_ctx *g = h->g;
    size_t staged = 0;

    h->of = calloc((size_t)h->p->n + 1, sizeof *h->of);
    if (!h->of)
        return vc_no_memory(err);
    for (int k = 0; k < h->n; k++) {
        const vt_param *w = h->p->at[h->order[k]];
        const size_t n = k < h->outside ? (size_t)vt_count(w->t) * sizeof(float) : 0;
        vt_tensor *copy = vt_param_hosted(g, w->t->dtype, w->t->nd, w->t->dim, err);
        if (!copy)
            return vc_context(err, VC_ENOMEM, "%s, on the host", w->name);
        h->of[h->order[k]].copy = copy;
        h->bytes += bytes_of(w->t);
        staged = n > staged ? n : staged;
    }
    h->bytes += staged;
    h->staged = staged && !g->sizes_only ? g->be->pin(g->dev, staged) : NULL;
    return !staged || g->sizes_only || h->staged ? 0 : vc_no_memory(err);
}

/* Starts the thread, which will have a team of the context's threads of its own. */
static int start_thread(vt_host_update *h, vc_err *err)
{
    int rc = vc_can_thread(vt_host_threads(h->cpu) + 1, err);

    if (!rc && pthread_create(&h->thread, NULL, work, h))
        rc = vc_fail(err, VC_EFAIL, "cannot start the thread that updates on the host");
    h->started = !rc;
    return rc;
}

int vt_host_update_open(vt_host_update **out, vt_params *p, vt_host_rule *rule, int threads,
                        vc_err *err)
{
    const vt_options o = { .device = "cpu", .threads = threads, .pool_limit = POOL };
    vt_host_update *h = *out = calloc(1, sizeof *h);

    if (!h)
        return vc_no_memory(err);
    *h = (vt_host_update){ .g = p->g, .p = p, .rule = rule };
    pthread_mutex_init(&h->lock, NULL);        /* with default attributes these cannot fail */
    pthread_cond_init(&h->begun, NULL);
    pthread_cond_init(&h->moved, NULL);
    int rc = vt_open(&h->cpu, &o, err);
    if (!rc)
        rc = put_in_order(h, err);
    if (!rc)
        rc = make_copies(h, err);
    if (!rc && !p->g->sizes_only)
        rc = start_thread(h, err);
    p->g->update = h;
    vt_add_part(p->g, &updating);
    return rc;
}

static void end_thread(vt_host_update *h)
{
    pthread_mutex_lock(&h->lock);
    h->ends = true;
    pthread_cond_signal(&h->begun);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
}

void vt_host_update_close(vt_host_update *h)
{
    if (!h)
        return;
    vt_host_update_finish(h);
    if (h->started)
        end_thread(h);
    h->g->update = NULL;
    for (int i = 0; h->of && i < h->p->n; i++)
        vt_param_free(h->g, h->of[i].copy);
    if (h->staged)
        h->g->be->unpin(h->g->dev, h->staged);
    vt_close(h->cpu);
    pthread_cond_destroy(&h->moved);
    pthread_cond_destroy(&h->begun);
    pthread_mutex_destroy(&h->lock);
    free(h->order);
    free(h->of);
    free(h);
}

size_t vt_host_update_bytes(const vt_host_update *h) { return h ? h->bytes : 0; }
vt_ctx *vt_host_update_context(vt_host_update *h) { return h->cpu; }

/* ---- a step ---- */

void vt_host_update_begin(vt_host_update *h)
{
    vt_host_update_finish(h);
    vt_host_grads_arrive(h->p->host_grads);
    h->g->be->leave(h->g->dev, VT_PLACE_STATE);
}

/* Describes the values of t on the host. */
static vt_tensor there(const vt_host_update *h, vt_tensor *t)
{
    vt_tensor x = *t;

    x.data = vt_param_host_memory(h->g, t);
    return x;
}

void vt_host_update_add(vt_host_update *h, int i, const vt_opt_part *x, const vt_opt_step *o)
{
    const vt_param *p = h->p->at[i];
    const vt_tensor *grad = vt_host_grads_of(h->p->host_grads, p);
    hosted *a = &h->of[i];

    a->due = true;
    a->step = *o;
    a->part = *x;
    a->w = there(h, a->copy);
    a->grad = grad ? *grad : *p->grad;
    a->part.w = &a->w;
    a->part.grad = &a->grad;
    for (int k = 0; k < VT_OPT_STATES; k++)
        if (x->state[k]) {
            a->state[k] = there(h, x->state[k]);
            a->part.state[k] = &a->state[k];
        }
    if (!a->is || a->of != vt_param_changes(p->t))
        h->g->be->download(h->g->dev, a->w.data, p->t->data, bytes_of(p->t));
}

/* Updates a parameter outside of blocks. */
static void update_outside(vt_host_update *h, int i)
{
    vt_tensor *grad = &h->of[i].grad;

    if (!h->of[i].due)
        return;
    h->g->be->download(h->g->dev, h->staged, grad->data, bytes_of(grad));
    grad->data = h->staged;
    update(h, i);
}

void vt_host_update_start(vt_host_update *h)
{
    for (int k = 0; k < h->outside; k++)
        update_outside(h, h->order[k]);
    h->sent = 0;
    go_on(h, h->outside);
    bring(h, h->outside);
}

void vt_host_update_finish(vt_host_update *h)
{
    bring(h, h->n);
}
